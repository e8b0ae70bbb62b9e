"""What the opener of a dispute does: it looks for a fault in the trace of the step that it names."""

from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.drifting.steps import name_step
from benchmarks.tracing import build_trace_tree
from protocol.compute.bounds.fault import ClaimedTrace, FaultFinder, InputFault
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.step import Batch, TrainingState, compute_scalars
from protocol.compute.program.task_program import build_program, describe_program
from scripts.calibrate_commands import Segment, Workplace

TRACE = "trace"
"""File name of the one trace that is stored at a time."""


def show_trace(workplace: Workplace, machine: str, segment: Segment, step: int) -> None:
    """Stores every buffer of a step, from the machine's own state before it."""
    training = workplace.training
    built = build_program(describe_program(training))
    interpreter = Interpreter(
        built.program, built.constants, keeps_all=True, numeric_format=training.numeric_format
    )
    interpreter.run(*_read_inputs(workplace, machine, segment, step))
    buffers = {str(number): tensor.clone() for number, tensor in interpreter.tensors.items()}
    save_file(buffers, workplace.folder / TRACE)


def search_fault(workplace: Workplace, claimant: str, segment: Segment, step: int) -> str:
    """The first element of the stored trace that is outside its bound, or an input that is not the task's;
    empty where there is none. As `protocol/actions/dispute/prosecuting.py` searches."""
    training = workplace.training
    built, stored = build_program(describe_program(training)), load_file(workplace.folder / TRACE)

    def fetch(buffer: int) -> Tensor:
        return stored[str(buffer)]

    claimed = ClaimedTrace(build_trace_tree(built.program, fetch).roots, fetch)
    vectors, *rest = _read_inputs(workplace, claimant, segment, step)
    fault = FaultFinder(built, training.numeric_format).find(vectors, Batch(*rest[:2]), rest[2], claimed)
    if fault is None:
        return ""
    place = f"buffer {fault.buffer}" if isinstance(fault, InputFault) else f"node {fault.node.number}"
    return f"{place}, element {fault.element}"


def _read_inputs(
    workplace: Workplace, machine: str, segment: Segment, step: int
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor, Tensor]:
    """W, m and v, tokens, labels, scalars."""
    start: TrainingState = workplace.load(name_step(machine, step), segment, step)
    batch = workplace.get_batches(segment)(segment.inner_step + step)
    scalars = compute_scalars(workplace.training, start.local_step, start.global_step)
    return start.vectors, *batch, scalars
