"""The tolerance of exact tasks: honest machines have equal bits, so any other state or number is false."""

from dataclasses import dataclass
from math import inf

from torch import Tensor

from touchstone.protocol.compute.bounds.exact_fault_finder import ExactFaultFinder
from touchstone.protocol.compute.bounds.fault_proof import ClaimedTrace, InputFault, OperationFault
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd, ClaimedStep, Tolerance, are_equal
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.state_headers import StateHeader


@dataclass(frozen=True)
class BitForBit(Tolerance):
    """The tolerance of exact tasks: no difference is allowed. It reads no state: comparing roots is enough,
    and nobody can query a leaf in an exact task."""

    numeric_format: str
    reads_states: bool = False

    def judge(self, end: ClaimedEnd) -> Verdict:
        """Compares the roots."""
        return _judge(is_other=not are_equal(end.claimed, end.own))

    def judge_step(self, step: ClaimedStep) -> Verdict:
        """Compares the roots. No claim has the root of a state that is not finite."""
        own = step.train(step.load_start())
        try:
            return _judge(state_header(own) != step.end)
        except ProtocolFault:
            return _judge(is_other=True)

    def is_measured(self, claimed: StateHeader, own: StateHeader) -> bool:
        """Measures nothing: no distance is allowed."""
        return False

    def measure(self, end: ClaimedEnd) -> tuple[tuple[float, float], ...]:
        """Measures nothing."""
        return ()

    def prove(
        self, built: BuiltProgram, start: TrainingState, batch: Batch, scalars: Tensor, claimed: ClaimedTrace
    ) -> OperationFault | InputFault | None:
        """Finds the first number that differs, by hashes."""
        return ExactFaultFinder(built, self.numeric_format).find(start.vectors, batch, scalars, claimed)


def _judge(is_other: bool) -> Verdict:
    return Verdict(is_other, 0, inf if is_other else 0.0)
