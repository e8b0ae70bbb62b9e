"""An auditor offers its own votes to every solver until that solver has taken them.

A solver that does not answer keeps no vote from the others. The vote's opening goes with it once it may be
shown (`may_open`).
"""

from touchstone.node.records.audit_records import VoteMade
from touchstone.node.records.handed_votes import find_opening, sign_off
from touchstone.node.serving.audit_messages import (
    VOTES,
    VOTES_MAX,
    VoteHanded,
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
from touchstone.protocol.spec.game.vote_judging import get_vote_flaw

TAKEN_FORM = make_form(VotesTaken)


def list_waiting(room: AuditRoom, index: int) -> list[str]:
    """Solvers of a round, but for this node, that have not taken all own votes and openings which the chain
    lacks."""
    votes = _list_lacking(room, index)
    return [one for one in list_solvers(room, index) if any(_is_missing(room, made, one) for made in votes)]


def list_solvers(room: AuditRoom, index: int) -> list[str]:
    """Accounts of the solvers of a round, but for this node."""
    game = room.get_game()
    seats = (game.seats.get(number) for number in game.rounds[index].pool.solvers)
    return [seat.account for seat in seats if seat is not None and seat.account != room.account]


async def offer(room: AuditRoom, index: int, account: str) -> None:
    """Hands a solver the own votes of a round that it has not taken. Raises EnvironmentFault where it did not
    take them all: to be tried again."""
    votes = [made for made in _list_lacking(room, index) if _is_missing(room, made, account)][:VOTES_MAX]
    said = tuple(_notify(room, made) for made in votes)
    answer = await room.client.ask(room.find_peer(account), VOTES, VotesHanded(said), TAKEN_FORM)
    for made, one, is_taken in zip(votes, said, answer.are_taken, strict=False):
        if is_taken:
            room.offered.add((get_place(made.vote), one.opening is not None, account))
    if answer.are_taken != (True,) * len(votes):
        raise EnvironmentFault(
            what="a solver has not taken a vote",
            expected=f"{len(votes)} votes on round {index} taken by {account}",
            actual=f"{list(answer.are_taken).count(True)} of them",
            remedy="They are offered again, as long as the chain lacks them.",
        )


def _notify(room: AuditRoom, made: VoteMade) -> VoteHanded:
    is_shown = may_open(room.get_game(), made.vote, room.block)
    return format_vote(made.vote, made.signature, room.book.open_vote(made) if is_shown else None)


def _list_lacking(room: AuditRoom, index: int) -> list[VoteMade]:
    """Own votes of a round that the chain lacks, or whose openings it lacks."""
    game, found = room.get_game(), []
    draft = Draft(game, room.block)
    for made in room.book.list_own(index):
        drawn = find_drawn(game, get_place(made.vote))
        if drawn is None:
            continue
        is_counting = get_vote_flaw(game, game.rounds[index], sign_off(made.vote, drawn), room.block) is None
        if is_counting or find_opening(room.book, room.get_game(), draft, made) is not None:
            found.append(made)
    return found


def _is_missing(room: AuditRoom, made: VoteMade, account: str) -> bool:
    is_open = may_open(room.get_game(), made.vote, room.block)
    is_shown = is_open and room.book.open_vote(made) is not None
    return (get_place(made.vote), is_shown, account) not in room.offered
