"""Imitates different machines by processes with other kernels, which replay and judge steps on request.

One kind of machine offers few ways to multiply matrices: many of the 24 configurations of `honest.py` give
the same bits. The specification allows any order of a sum (docs/spec.md, section 8). So some workers add as
other hardware does: in two halves (split-K, as on GPUs), backwards, or in float64.

One machine shows each state of a segment, and another judges each step from the state before it, as
`whistleblower/step_judging.py` does and with the same functions; states come from a folder instead of a peer.
A worker also searches a trace for a fault, as the opener of a dispute does.

There is one process for each machine, which lives as long as the campaign. A line to it is a question about a
track in JSON, and it answers with a line. It replays each segment from the stored starts and stores the ends;
it stores the states of each step of a segment, or all of one step; or it judges those of another machine.
Only one works at a time, so that the campaign takes one core.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.benchmarks.honest import Configuration
from lab.benchmarks.replays.pairs import Track, open_track
from tests.training_setting import INNER_STEPS, build_trace_tree
from touchstone.protocol.compute.bounds.fault_finder import FaultFinder
from touchstone.protocol.compute.bounds.fault_proof import ClaimedTrace, InputFault
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict, gather_excess, judge_state
from touchstone.protocol.compute.tolerance.shaking import shake, unshake
from touchstone.protocol.compute.tolerance.step_noise import compute_cap, is_explained
from touchstone.protocol.compute.tolerance.within_limits import SHAKES
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.calibration.calibration_folder import Segment, Workplace
from touchstone.scripts.calibration.measuring import SEED

Product = Callable[..., Tensor]
"""Multiplies two matrices, or batches of them; `out` as in `torch.mm`, a new tensor if missing."""


@dataclass(frozen=True)
class Machine:
    """A kernel configuration, and how it sums the products of a matrix product: a name in SUMS."""

    configuration: Configuration
    sums: str

    @property
    def name(self) -> str:
        """A short, unique name."""
        return f"{self.configuration.name}-{self.sums}"

    def set_up(self) -> None:
        """Makes this process compute in this way. Its environment must be `configuration.environment`
        already."""
        pin_kernels(self.configuration.threads, self.configuration.onednn)
        take_sums(SUMS[self.sums])


def list_machines() -> tuple[Machine, ...]:
    """Returns thirteen machines that differ in their settings, or fewer if the processor has one kind of
    vector instructions."""
    best, *others = list_cpu_capabilities()
    last = others[-1] if others else best
    every = (
        Machine(Configuration(best, 1, True, ""), "library"),
        Machine(Configuration(best, 2, True, ""), "library"),
        Machine(Configuration(best, 1, False, ""), "library"),
        Machine(Configuration(best, 1, True, "COMPATIBLE"), "library"),
        Machine(Configuration(last, 1, True, ""), "library"),
        Machine(Configuration(last, 2, False, ""), "library"),
        Machine(Configuration(last, 2, True, "COMPATIBLE"), "library"),
        Machine(Configuration(best, 1, True, ""), "split"),
        Machine(Configuration(last, 2, True, ""), "split"),
        Machine(Configuration(best, 2, True, ""), "reversed"),
        Machine(Configuration(last, 1, True, ""), "reversed"),
        Machine(Configuration(best, 1, True, ""), "wide"),
        Machine(Configuration(last, 2, True, ""), "wide"),
    )
    return tuple(dict.fromkeys(every))


# Sums
def take_sums(make: Callable[[Product], Product]) -> None:
    """Replaces the library's matrix products in this process."""
    torch.mm, torch.bmm = make(torch.mm), make(torch.bmm)


def _allocate(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


def _keep(product: Product) -> Product:
    return product


def _split(product: Product) -> Product:
    """Adds the first half of the terms and the second."""

    def run(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
        half = a.shape[-1] // 2
        out = _allocate(a, b) if out is None else out
        if not half:
            return product(a, b, out=out)
        product(a[..., :half], b[..., :half, :], out=out)
        return out.add_(product(a[..., half:], b[..., half:, :]))

    return run


def _reverse(product: Product) -> Product:
    """Adds the last term first."""

    def run(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
        return product(a.flip(-1), b.flip(-2), out=_allocate(a, b) if out is None else out)

    return run


def _widen(product: Product) -> Product:
    """Multiplies and adds in float64, and rounds once."""

    def run(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
        out = _allocate(a, b) if out is None else out
        return out.copy_(product(a.double(), b.double()))

    return run


SUMS: dict[str, Callable[[Any], Any]] = {
    "library": _keep,
    "split": _split,
    "reversed": _reverse,
    "wide": _widen,
}


TRACE = "trace"
"""The file name of the one trace that is stored at a time."""


def show_trace(workplace: Workplace, machine: str, segment: Segment, step: int) -> None:
    """Stores every buffer of a step, from the machine's own state before it."""
    training = workplace.training
    built = get_program(training)
    interpreter = Interpreter(
        built.program, built.constants, keeps_all=True, numeric_format=training.numeric_format
    )
    interpreter.run(*_read_inputs(workplace, machine, segment, step))
    buffers = {str(number): tensor.clone() for number, tensor in interpreter.tensors.items()}
    save_file(buffers, workplace.folder / TRACE)


def search_fault(workplace: Workplace, claimant: str, segment: Segment, step: int) -> str:
    """Returns the first element of the stored trace that is outside its bound, or an input that is not the
    task's; empty if there is none. It searches as `whistleblower/prosecuting.py` does."""
    training = workplace.training
    built, stored = get_program(training), load_file(workplace.folder / TRACE)

    def fetch(buffer: int) -> Tensor:
        return stored[str(buffer)]

    claimed = ClaimedTrace(build_trace_tree(built.program, fetch).roots, fetch)
    vectors, *rest = _read_inputs(workplace, claimant, segment, step)
    fault = FaultFinder(built).find(vectors, Batch(*rest[:2]), rest[2], claimed)
    if fault is None:
        return ""
    place = f"buffer {fault.buffer}" if isinstance(fault, InputFault) else f"node {fault.node.number}"
    return f"{place}, element {fault.element}"


def _read_inputs(
    workplace: Workplace, machine: str, segment: Segment, step: int
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor, Tensor]:
    """Returns W, m and v, tokens, labels, scalars."""
    start: TrainingState = workplace.load(name_step(machine, step), segment, step)
    batch = workplace.get_batches(segment)(segment.inner_step + step)
    scalars = compute_scalars(workplace.training, start.local_step, start.global_step)
    return start.vectors, *batch, scalars


def name_step(machine: str, step: int) -> str:
    """Returns the name of a machine's state after `step` steps of a segment."""
    return f"{machine}.{step}"


def show_steps(workplace: Workplace, machine: str, segment: Segment) -> None:
    """Stores the k + 1 states of a segment, as this process computes them."""
    state, batches = workplace.load("start", segment, 0), workplace.get_batches(segment)
    workplace.save(name_step(machine, 0), segment, state)
    for step in range(segment.steps):
        state = train_segment(state, workplace.training, batches, segment.inner_step + step, 1)[0]
        workplace.save(name_step(machine, step + 1), segment, state)


def judge_steps(workplace: Workplace, claimant: str, segment: Segment, limits: Limits) -> list[Verdict]:
    """Returns the distance of each claimed step from what this process computes from the claimed state before
    it, up to the first one that exceeds the limits by more than the process's own noise."""
    training, batches, found = workplace.training, workplace.get_batches(segment), list[Verdict]()
    for step in range(segment.steps):
        before, after = (workplace.load(name_step(claimant, at), segment, at) for at in (step, step + 1))
        rate_sum = compute_learning_rate_sum(training.schedule, before.global_step, 1, INNER_STEPS)
        own = train_segment(before, training, batches, segment.inner_step + step, 1)[0]
        verdict = judge_state(after, own, rate_sum, limits)
        if verdict.exceeds_limits:
            place = (training, batches, segment.inner_step + step, 1)
            seeds = range(SEED, SEED + SHAKES)
            results = (unshake(train_segment(shake(before, n), *place)[0], before, n) for n in seeds)
            noises = (gather_excess(result, own, rate_sum, limits) for result in results)
            excess = gather_excess(after, own, rate_sum, limits)
            undone = replace(before, local_step=own.local_step, global_step=own.global_step)
            cap = compute_cap(judge_state(undone, own, rate_sum, limits).excess)
            verdict = replace(verdict, exceeds_limits=not is_explained(excess, noises, cap))
        found.append(verdict)
        if verdict.exceeds_limits:
            break
    return found


ROOT = Path(__file__).resolve().parents[3]


class Worker:
    """The process of one machine."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        command = [
            sys.executable,
            "-m",
            "lab.benchmarks.replays.machines",
            str(folder),
            json.dumps(asdict(machine)),
        ]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=machine.configuration.environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def replay(self, track: Track) -> None:
        """Waits until all ends are stored."""
        self._ask("replay", track)

    def show_steps(self, track: Track, segment: int) -> None:
        """Waits until this machine's k + 1 states of one of the track's segments are stored."""
        self._ask("show", track, segment)

    def judge_steps(self, track: Track, segment: int, claimant: str, limits: Limits) -> list[Verdict]:
        """Returns this machine's verdicts on the steps that another one has stored."""
        answer = self._ask("judge", track, segment, claimant, asdict(limits))
        return [Verdict(**found) for found in answer]

    def show_trace(self, track: Track, segment: int, step: int) -> None:
        """Waits until everything that this machine computes in one step is stored."""
        self._ask("trace", track, segment, step)

    def search_fault(self, track: Track, segment: int, step: int, claimant: str) -> str:
        """Returns the fault that this machine finds in another one's stored trace; empty if there is none."""
        return str(self._ask("search", track, segment, step, claimant))

    def _ask(self, what: str, track: Track, *details: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([what, asdict(track), *details]) + "\n")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.machine.name} ended before it answered to {what} {track.name}")
        return json.loads(line)

    def stop(self) -> None:
        """Closes its input and waits for its end."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def run_workers(machines: Sequence[Machine], folder: Path) -> Iterator[list[Worker]]:
    """Runs a worker for each machine; all have ended at the end of the block."""
    workers = [Worker(machine, folder) for machine in machines]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()


def work(folder: Path, machine: Machine) -> None:
    """Does what each line of standard input asks for, and answers with a line."""
    machine.set_up()
    for line in sys.stdin:
        what, track, *details = json.loads(line)
        answer = _answer(machine, open_track(Track(**track), folder), what, details)
        print(json.dumps(answer), flush=True)


def _answer(machine: Machine, workplace: Workplace, what: str, details: Sequence[Any]) -> Any:
    if what == "replay":
        for segment in workplace.segments:
            workplace.save(machine.name, segment, workplace.replay(segment))
        return None
    segment = workplace.segments[details[0]]
    if what == "show":
        return show_steps(workplace, machine.name, segment)
    if what == "trace":
        return show_trace(workplace, machine.name, segment, details[1])
    if what == "search":
        return search_fault(workplace, details[2], segment, details[1])
    claimant, limits = details[1:]
    return [asdict(found) for found in judge_steps(workplace, claimant, segment, Limits(**limits))]


def main() -> None:
    """Works with a folder and a machine in JSON."""
    folder, text = sys.argv[1:]
    content = json.loads(text)
    work(Path(folder), Machine(Configuration(**content["configuration"]), content["sums"]))


if __name__ == "__main__":
    main()
