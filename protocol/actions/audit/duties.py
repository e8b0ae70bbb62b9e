"""What an auditor has to do: audit what it is drawn for, and offer its votes to the solvers."""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.actions.audit.offering import list_waiting, offer
from protocol.actions.audit.replay import audit
from protocol.actions.audit.room import AuditRoom
from protocol.actions.runtime.duties import Duty, Wait
from protocol.actions.runtime.party import Party
from protocol.spec.game.auditing import (
    AuditPlace,
    DrawnAudit,
    find_drawn,
    get_due_block,
    is_wanted,
    list_drawn,
    list_heard,
)


@dataclass(frozen=True)
class AuditDraw:
    """Audit the segment of a draw, and write down the vote."""

    place: AuditPlace

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault for what can be tried again."""
        room = party.task.audits.room
        drawn = find_drawn(room.get_game(), self.place)
        if drawn is not None:
            await audit(room, drawn)


@dataclass(frozen=True)
class OfferVotes:
    """Hand the own votes of a round, and their openings, to a solver."""

    round: int
    account: str

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault while the solver has not taken them."""
        await offer(party.task.audits.room, self.round, self.account)


def list_duties(party: Party, block: int) -> Iterator[Duty | Wait]:
    """What this node's seat has to audit and to offer at `block`."""
    yield from list_room_duties(party.task.audits.room, block)


def list_room_duties(room: AuditRoom, block: int) -> Iterator[Duty | Wait]:
    """The same of a room."""
    game = room.get_game()
    for drawn in list_drawn(game, room.account, block):
        if _is_open(room, drawn, block):
            due = get_due_block(game, drawn.place)
            yield AuditDraw(drawn.place) if block >= due else Wait(due)
    for index in list_heard(game, block - 3 * game.terms.windows.audit_max):
        yield from (OfferVotes(index, account) for account in list_waiting(room, index))


def _is_open(room: AuditRoom, drawn: DrawnAudit, block: int) -> bool:
    is_done = drawn.place in room.book.votes or drawn.place in room.passed
    return not is_done and is_wanted(room.get_game(), drawn.place, block)
