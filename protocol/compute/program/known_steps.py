"""Keeps the steps of the tasks that this process works on.

A step's program is read and checked once (`require_fit`). Code that runs, traces or shows the step finds it
here, by the root in the task's training.
"""

from dataclasses import dataclass

from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.program_form import require_form
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import Program, Role
from touchstone.protocol.spec.program_codec import compute_program_root, encode_program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import require_indices, require_step
from touchstone.protocol.spec.task_spec import NamedBytes, TrainingSpec
from touchstone.protocol.spec.weights_layout import WeightsLayout, encode_layout

WIDE_BITS = 20
"""Bits of quantized values in a product that is no matrix product, in every exact format."""


@dataclass(frozen=True)
class TaskStep:
    """A training step: the program with its constants, and the layout of W."""

    built: BuiltProgram
    layout: WeightsLayout

    @property
    def parameters(self) -> int:
        """The number of elements of W."""
        return self.built.program.buffers[0].size


@dataclass(frozen=True)
class StepNames:
    """How a task names a step."""

    program_root: bytes
    program: NamedBytes
    layout: NamedBytes


def name_step(step: TaskStep) -> StepNames:
    """Returns the name of a step in a task: its roots and its lengths in bytes."""
    program, layout = encode_program(step.built.program), encode_layout(step.layout)
    named = (NamedBytes(compute_data_root(data), len(data)) for data in (program, layout))
    return StepNames(compute_program_root(step.built.program), *named)


_known: dict[tuple[bytes, bytes], TaskStep] = {}
"""Known steps by the roots of program and layout; none is forgotten, because a process works on few tasks."""


def learn_step(step: TaskStep) -> None:
    """Makes a step known to this process."""
    root = compute_program_root(step.built.program)
    _known[root, compute_data_root(encode_layout(step.layout))] = step


def knows_step(spec: TrainingSpec) -> bool:
    """Returns whether this process knows the task's step."""
    return (spec.program_root, spec.layout.root) in _known


def get_step(spec: TrainingSpec) -> TaskStep:
    """Returns the task's step. Raises InvalidInput if this process has not read it."""
    step = _known.get((spec.program_root, spec.layout.root))
    if step is None:
        raise InvalidInput(
            what="the program of the task is not known here",
            expected=f"a program that was read, with the root {spec.program_root.hex()}",
            actual="none",
            remedy="Read it from the store first (`stored_step.open_step`).",
        )
    return step


def get_program(spec: TrainingSpec) -> BuiltProgram:
    """Returns the program of the task's step. Raises as `get_step` does."""
    return get_step(spec).built


def require_fit(spec: TrainingSpec, program: Program, layout: WeightsLayout, parameter_count: int) -> None:
    """Raises InvalidInput unless a valid program is the one that the task names, and is a training step with
    the task's batches, vocabulary, format and number of parameters. The layout must have that number too."""
    require_step(program)
    require_form(program)
    root = compute_program_root(program)
    _require("program_root", root == spec.program_root, spec.program_root.hex(), root.hex())
    count, tokens = program.buffers[0].size, program.buffers[3].size
    _require("parameter_count", count == parameter_count, parameter_count, count)
    batch = spec.sequences_per_step * spec.sequence_tokens
    _require("tokens of a step", tokens == batch, batch, tokens)
    require_indices(program, spec.vocabulary_size)
    _require_format(spec.numeric_format, program)
    _require("parameters of the layout", layout.count == count, count, layout.count)
    constants = {b.constant_root: b.size for b in program.buffers if b.role is Role.CONSTANT}
    for entry in layout.frozen:
        size = constants.get(entry.root)
        _require(
            entry.name, not entry.root or size == entry.size, f"a constant of {entry.size} elements", size
        )


def _require_format(name: str, program: Program) -> None:
    """Raises InvalidInput unless, in an exact format, every product multiplies integers of the format's bits,
    and in other formats no product multiplies integers."""
    exact = {Operation.SCALE_OF, Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM}
    found = {node.operation for node in program.nodes}
    wrong = found & ({Operation.PRODUCT_SUM} if name in PRODUCT_BITS else exact)
    _require("numeric_format", not wrong, f"operations of {name}", sorted(one.name for one in wrong))
    allowed = {PRODUCT_BITS.get(name, 0), WIDE_BITS}
    bits = {node.selected for node in program.nodes if node.operation is Operation.QUANTIZE}
    _require("numeric_format", bits <= allowed, f"quantized values of {sorted(allowed)} bits", sorted(bits))


def _require(where: str, holds: bool, expected: object, actual: object) -> None:
    if not holds:
        raise InvalidInput(
            what="the program of the task does not fit the task",
            expected=expected,
            actual=actual,
            where=where,
            remedy="Do not stake on this task; tell its submitter.",
        )
