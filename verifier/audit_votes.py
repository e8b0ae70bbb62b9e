"""Offers an auditor's own votes to every solver, until that solver has taken them.

Solvers are asked apart, so one that does not answer delays no other. The opening of a vote goes along once it
may be shown (`may_open`).
"""

from collections.abc import Iterator

from touchstone.node.kit.view import View
from touchstone.node.records.audit_records import AuditBook, VoteMade
from touchstone.node.records.handed_votes import find_opening, sign_off
from touchstone.node.serving.audit_messages import (
    VOTES,
    VOTES_MAX,
    VotesHanded,
    VotesTaken,
    format_vote,
    make_form,
)
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.audit_deadlines import may_open
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.drawn_audits import find_drawn, get_place
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.vote_judging import get_vote_flaw
from touchstone.protocol.spec.statements import VoteOpening

TAKEN_FORM = make_form(VotesTaken)

Offered = tuple[VoteMade, VoteOpening | None]
"""An own vote, and what is shown with it."""


def list_waiting(view: View, index: int, block: int) -> list[str]:
    """Lists the other solvers of a round that still lack some of this node's votes or openings. Votes that
    the chain has need no offer."""
    game, book = view.game, view.audits.book
    lacking = list(_list_lacking(book, game, index, block))
    return [
        account for account in list_solvers(game, index)
        if account != view.account and any(_is_missing(book, one, account) for one in lacking)
    ]  # fmt: skip


def list_solvers(game: GameState, index: int) -> list[str]:
    """Lists the accounts of the solvers of a round."""
    seats = (game.seats.get(number) for number in game.rounds[index].pool.solvers)
    return [seat.account for seat in seats if seat is not None]


async def offer(room: AuditRoom, index: int, account: str) -> None:
    """Hands a solver this node's own votes of a round that it has not taken. Raises EnvironmentFault if it
    did not take all of them; then the offer is repeated."""
    lacking = _list_lacking(room.book, room.get_game(), index, room.block)
    votes = [one for one in lacking if _is_missing(room.book, one, account)][:VOTES_MAX]
    said = tuple(format_vote(made.vote, made.signature, opening) for made, opening in votes)
    answer = await room.client.ask(room.find_peer(account), VOTES, VotesHanded(said), TAKEN_FORM)
    for (made, opening), is_taken in zip(votes, answer.are_taken, strict=False):
        if is_taken:
            room.book.offered.add((get_place(made.vote), opening is not None, account))
    if answer.are_taken != (True,) * len(votes):
        raise EnvironmentFault(
            what="a solver has not taken a vote",
            expected=f"{len(votes)} votes on round {index} taken by {account}",
            actual=f"{list(answer.are_taken).count(True)} of them",
            remedy="They are offered again, as long as the chain lacks them.",
        )


def _list_lacking(book: AuditBook, game: GameState, index: int, block: int) -> Iterator[Offered]:
    """Lists this node's own votes of a round that the chain lacks, or whose opening it lacks. An opening
    comes along if it may be shown."""
    draft = Draft(game, block)
    for made in book.list_own(index):
        drawn = find_drawn(game, get_place(made.vote))
        if drawn is None:
            continue
        is_counting = get_vote_flaw(game, game.rounds[index], sign_off(made.vote, drawn), block) is None
        if is_counting or find_opening(book, game, draft, made) is not None:
            yield made, book.open_vote(made) if may_open(game, made.vote, block) else None


def _is_missing(book: AuditBook, offered: Offered, account: str) -> bool:
    made, opening = offered
    return (get_place(made.vote), opening is not None, account) not in book.offered
