"""Lists an auditor's duties: audit the draws that name its seat, and offer the votes to solvers."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.view import View
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.spec.game.audit_deadlines import get_due_block, get_start, is_wanted
from touchstone.protocol.spec.game.drawn_audits import (
    AuditPlace,
    DrawnAudit,
    find_drawn,
    list_drawn,
    list_heard,
)
from touchstone.verifier.audit_votes import list_waiting, offer
from touchstone.verifier.replaying import audit


@dataclass(frozen=True)
class AuditDraw:
    """Audit the segment of a draw, and write down the vote."""

    place: AuditPlace

    async def perform(self, room: AuditRoom) -> None:
        """Audits. Raises EnvironmentFault after a failure that may pass."""
        drawn = find_drawn(room.get_game(), self.place)
        if drawn is not None:
            await audit(room, drawn)


@dataclass(frozen=True)
class OfferVotes:
    """Hand this node's own votes of a round, and their openings, to a solver."""

    round: int
    account: str

    async def perform(self, room: AuditRoom) -> None:
        """Offers the votes. Raises EnvironmentFault if the solver has not taken all of them."""
        await offer(room, self.round, self.account)


def list_duties(view: View, block: int) -> Iterator[Duty[AuditRoom] | Wait]:
    """Lists what this node's seat has to audit and to offer in `block`."""
    game = view.game
    for drawn in list_drawn(game, view.account, block):
        if _is_open(view, drawn, block):
            due = get_due_block(game, drawn.place)
            yield AuditDraw(drawn.place) if block >= due else Wait(due)
    for index in list_heard(game, block - 3 * game.terms.windows.audit_max):
        yield from (OfferVotes(index, account) for account in list_waiting(view, index, block))


def _is_open(view: View, drawn: DrawnAudit, block: int) -> bool:
    """Returns whether this node may vote. It may not if the draw is older than the journal: it may have voted
    before."""
    game, book, place = view.game, view.audits.book, drawn.place
    is_done = place in book.votes or place in book.passed or get_start(game, place) <= book.begun
    return not is_done and is_wanted(game, place, block)
