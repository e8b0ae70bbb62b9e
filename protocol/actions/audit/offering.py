"""Own votes on their way to others: published to who asks, offered to every solver until it has taken them.

What opens a vote goes with it once it may be shown (`may_open`).
"""

import asyncio
import logging
from collections.abc import Sequence

from protocol.actions.audit.handing import find_opening, sign_off
from protocol.actions.audit.messages import (
    VOTES,
    VOTES_MAX,
    VoteHanded,
    VotesAsked,
    VotesHanded,
    VotesTaken,
    make_form,
    say_vote,
)
from protocol.actions.audit.records import VoteMade
from protocol.actions.audit.room import AuditRoom
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.auditing import find_drawn, get_place, may_open
from protocol.spec.game.deciding import get_vote_flaw
from protocol.spec.game.draft import Draft

ASKED_FORM, TAKEN_FORM = make_form(VotesAsked), make_form(VotesTaken)

log = logging.getLogger(__name__)


# --- Publishing ---------------------------------------------------------------------------------------------
async def show_votes(room: AuditRoom, account: str, body: bytes) -> VotesHanded:
    """The own votes of a round, with their openings once these may be shown. Raises ProtocolFault where the
    question is malformed, EnvironmentFault where it is about another task."""
    asked, game = ASKED_FORM.decode(body, account), room.get_game()
    if asked.domain != game.terms.domain:
        raise EnvironmentFault(
            what="another task's votes are asked for",
            expected=game.terms.domain.hex(),
            actual=asked.domain.hex(),
            remedy="Ask the members of that task.",
        )
    votes = [
        made for made in room.book.list_own(asked.round) if find_drawn(game, get_place(made.vote)) is not None
    ]
    return VotesHanded(tuple(_say(room, made) for made in votes[asked.first : asked.first + VOTES_MAX]))


def _say(room: AuditRoom, made: VoteMade) -> VoteHanded:
    is_shown = may_open(room.get_game(), made.vote, room.block)
    return say_vote(made.vote, made.signature, room.book.open_vote(made) if is_shown else None)


# --- Offering -----------------------------------------------------------------------------------------------
def list_offers(room: AuditRoom, index: int) -> list[VoteMade]:
    """Own votes of a round that the chain lacks, or whose openings it lacks, and that some solver has not
    taken yet."""
    accounts = list_solvers(room, index)
    return [made for made in _list_lacking(room, index) if _list_missing(room, made, accounts)]


def list_solvers(room: AuditRoom, index: int) -> list[str]:
    """Accounts of the solvers of a round, but for this node."""
    game = room.get_game()
    seats = (game.seats.get(number) for number in game.rounds[index].pool.solvers)
    return [seat.account for seat in seats if seat is not None and seat.account != room.account]


async def offer(room: AuditRoom, index: int) -> None:
    """Hands the own votes of a round to every solver that has not taken them. Raises EnvironmentFault where
    one did not: to be tried again."""
    votes, accounts = list_offers(room, index), list_solvers(room, index)
    waiting = [(one, [made for made in votes if _list_missing(room, made, [one])]) for one in accounts]
    done = await asyncio.gather(*(_offer_to(room, one, some) for one, some in waiting if some))
    if not all(done):
        raise EnvironmentFault(
            what="a solver has not taken a vote",
            expected=f"votes on round {index} taken by all of {len(accounts)} solvers",
            actual=f"{done.count(False)} have not",
            remedy="They are offered again, as long as the chain lacks them.",
        )


async def _offer_to(room: AuditRoom, account: str, votes: Sequence[VoteMade]) -> bool:
    some = votes[:VOTES_MAX]
    said = tuple(_say(room, made) for made in some)
    try:
        answer = await room.client.ask(room.find_peer(account), VOTES, VotesHanded(said), TAKEN_FORM)
    except (ProtocolFault, EnvironmentFault) as fault:
        log.info("%s", fault)
        return False
    for made, one, is_taken in zip(some, said, answer.are_taken, strict=False):
        if is_taken:
            room.offered.add((get_place(made.vote), one.opening is not None, account))
    return answer.are_taken == (True,) * len(votes)


def _list_lacking(room: AuditRoom, index: int) -> list[VoteMade]:
    game, found = room.get_game(), []
    draft = Draft(game, room.block)
    for made in room.book.list_own(index):
        drawn = find_drawn(game, get_place(made.vote))
        if drawn is None:
            continue
        is_counting = get_vote_flaw(game, game.rounds[index], sign_off(made.vote, drawn), room.block) is None
        if is_counting or find_opening(room, draft, made) is not None:
            found.append(made)
    return found


def _list_missing(room: AuditRoom, made: VoteMade, accounts: Sequence[str]) -> list[str]:
    is_open = may_open(room.get_game(), made.vote, room.block)
    is_shown = is_open and room.book.open_vote(made) is not None
    place = get_place(made.vote)
    return [one for one in accounts if (place, is_shown, one) not in room.offered]
