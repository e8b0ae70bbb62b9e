"""The tolerance of float32 tasks: the limits of the task, and what a step's own noise explains.

At many times the usual learning rate even a single step multiplies noise (docs/decisions/0037-drift.md). So a
step beyond the limits is computed up to SHAKES more times, each time from weights changed in their last bit
in another way. `step_noise.py` says what the distances of these own results explain.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from touchstone.protocol.compute.bounds.fault_finder import FaultFinder
from touchstone.protocol.compute.bounds.fault_proof import ClaimedTrace, InputFault, OperationFault
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict, gather_excess, judge_state, measure_apart
from touchstone.protocol.compute.tolerance.shaking import shake, unshake
from touchstone.protocol.compute.tolerance.step_noise import compute_cap, is_explained
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd, ClaimedStep, Tolerance, are_equal
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import Limits

SHAKES = 4
"""How often a step is computed again at most, each time from weights changed in another way. Two results may
be close by chance if most are far apart (docs/decisions/0037-drift.md)."""


@dataclass(frozen=True)
class WithinLimits(Tolerance):
    """Allows the differences that honest machines have."""

    limits: Limits
    reads_states: bool = True

    def judge(self, end: ClaimedEnd) -> Verdict:
        """Judges every element. A state with other step counters exceeds the limits, and is not read."""
        if are_equal(end.claimed, end.own):
            return Verdict(False, 0, 0.0)
        if not _are_of_one_step(end.claimed, end.own):
            return Verdict(True, 0, float("inf"))
        claimed, own = end.open_state(end.claimed), end.open_state(end.own)
        return judge_state(claimed, own, end.rate_sum, self.limits)

    def judge_step(self, step: ClaimedStep) -> Verdict:
        """Judges every element by the limits, and those that exceed them by the step's own noise."""
        place, end = (step.rate_sum, self.limits), step.open_state(step.end)
        own = step.train(step.load_start())
        verdict = judge_state(end, own, *place)
        if not verdict.exceeds_limits:
            return verdict
        undone = replace(step.load_start(), local_step=own.local_step, global_step=own.global_step)
        cap = compute_cap(judge_state(undone, own, *place).excess)
        noises = (gather_excess(other, own, *place) for other in _train_shaken(step))
        return replace(verdict, exceeds_limits=not is_explained(gather_excess(end, own, *place), noises, cap))

    def is_measured(self, claimed: StateHeader, own: StateHeader) -> bool:
        """Returns whether the states differ and have the same step counters."""
        return _are_of_one_step(claimed, own) and not are_equal(claimed, own)

    def measure(self, end: ClaimedEnd) -> tuple[tuple[float, float], ...]:
        """Measures how far two states of one step differ."""
        if not self.is_measured(end.claimed, end.own):
            return ()
        claimed, own = end.open_state(end.claimed), end.open_state(end.own)
        return measure_apart(claimed, own, end.rate_sum, self.limits)

    def prove(
        self, built: BuiltProgram, start: TrainingState, batch: Batch, scalars: Tensor, claimed: ClaimedTrace
    ) -> OperationFault | InputFault | None:
        """Finds a number outside its bound."""
        return FaultFinder(built).find(start.vectors, batch, scalars, claimed)


def _are_of_one_step(claimed: StateHeader, own: StateHeader) -> bool:
    return (claimed.local_step, claimed.global_step) == (own.local_step, own.global_step)


def _train_shaken(step: ClaimedStep) -> Iterator[TrainingState]:
    """Yields this machine's own results of a step: weights are changed before it, and changed back after
    it."""
    for _ in range(SHAKES):
        seed, start = step.draw_seed(), step.load_start()
        yield unshake(step.train(shake(start, seed)), start, seed)
