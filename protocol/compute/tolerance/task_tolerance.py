"""Defines what a task allows a claimed number to differ by: nothing, or its limits.

All parts of a node ask a `Tolerance`, and so have one path for both kinds of tasks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from touchstone.protocol.compute.bounds.fault_proof import ClaimedTrace, InputFault, OperationFault
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.training_state import Batch, PiecewiseState, TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.state_headers import StateHeader

OpenState = Callable[[StateHeader], PiecewiseState]
"""Opens the values of a state that lies in the store."""


@dataclass(frozen=True)
class ClaimedEnd:
    """A claimed state beside this machine's own. `open_state` opens either. `rate_sum` is the sum of the
    learning rates up to it, in units of 2^-64."""

    claimed: StateHeader
    own: StateHeader
    open_state: OpenState
    rate_sum: int


def are_equal(claimed: StateHeader, own: StateHeader) -> bool:
    """Returns whether both have one root; then they are the same state."""
    return compute_state_root(claimed) == compute_state_root(own)


@dataclass(frozen=True)
class ClaimedStep:
    """A claimed step, and how to compute it again. `end` is the claimed state after it; `load_start` loads
    the claimed state before it; `train` computes one step. `rate_sum` is its learning rate, in units of
    2^-64. `draw_seed` returns a number that the claimant could not know."""

    end: StateHeader
    open_state: OpenState
    load_start: Callable[[], TrainingState]
    train: Callable[[TrainingState], TrainingState]
    rate_sum: int
    draw_seed: Callable[[], int]


class Tolerance(Protocol):
    """How far a claimed number may differ from the right one."""

    @property
    def reads_states(self) -> bool:
        """Whether a claimed state must be read to judge it. If not, its root is enough, and nobody fetches
        the state."""

    def judge(self, end: ClaimedEnd) -> Verdict:
        """Judges a claimed state. A state with this machine's own root never exceeds the limits."""

    def judge_step(self, step: ClaimedStep) -> Verdict:
        """Judges one claimed step, from the claimed state before it."""

    def is_measured(self, claimed: StateHeader, own: StateHeader) -> bool:
        """Returns whether a distance can be measured: the states differ, and can be compared."""

    def measure(self, end: ClaimedEnd) -> tuple[tuple[float, float], ...]:
        """Measures a pair of states, as `measure_apart` does, if `is_measured` allows it; else returns ()."""

    def prove(
        self, built: BuiltProgram, start: TrainingState, batch: Batch, scalars: Tensor, claimed: ClaimedTrace
    ) -> OperationFault | InputFault | None:
        """Returns a false number in the trace of a claimed step from the state `start`; None if there is
        none. Raises InvalidInput if the trace is of another state or program, and whatever fetching
        raises."""
