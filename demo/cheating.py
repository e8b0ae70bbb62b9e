"""Makes a solver whose training errs on purpose, and which stands by the result.

A node cannot cheat by a setting: the demo puts the false computation into the process of one party.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from touchstone.demo.parts import change_duties
from touchstone.node.kit.duty import Duty, Room
from touchstone.node.records.compute import Compute
from touchstone.node.training import claims, speculation
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower import challenging

HONEST_COMPUTE = Compute(replay_segment, retrace)
_computing: ContextVar[Compute] = ContextVar("computing", default=HONEST_COMPUTE)
ACCUSING = (
    challenging.ReadVotes, challenging.JudgeSteps, challenging.OpenDispute, challenging.QuerySigner,
    challenging.ProveStatement, challenging.ProveWork,
)  # fmt: skip
"""Duties that a cheat leaves out: by its own computation all others err."""


def train_as_told(*arguments: Any) -> Any:
    """Trains a segment with the computation of the duty that runs. Stands for `claims.train_segment` in the
    process of a cheat."""
    return _computing.get().train(*arguments)


@dataclass(frozen=True)
class Cheated:
    """A duty that is performed with another computation."""

    duty: Duty[Any]
    compute: Compute

    async def perform(self, tools: Any) -> None:
        """Performs the duty."""
        token = _computing.set(self.compute)
        try:
            await self.duty.perform(tools)
        finally:
            _computing.reset(token)


def list_cheating_rooms(compute: Compute, node: Member) -> Sequence[Room[Any]]:
    """Returns the rooms of a solver that trains with `compute`, and defends the result."""
    node.rooms.tools.cases.compute = compute
    trained = (claims.list_duties, speculation.list_duties)
    return change_duties(node.list_rooms(), trained, lambda duty: Cheated(duty, compute))


def leave_accusing(rooms: Sequence[Room[Any]]) -> list[Room[Any]]:
    """Returns the rooms of a cheat that gives the answers that it owes, and accuses nobody."""

    def keep(duty: Duty[Any]) -> Duty[Any] | None:
        return None if isinstance(duty, ACCUSING) else duty

    return change_duties(rooms, (challenging.next_actions,), keep)
