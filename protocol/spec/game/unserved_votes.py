"""Decides when an auditor that was not served votes UNSERVED, and when ABSTAIN instead.

If two auditors of a draw vote UNSERVED, the solver pays the fee F, and so does each of these auditors. So
truthful UNSERVED votes can cost an auditor fees. Beyond a share of its stake it votes ABSTAIN instead. Fees
are taken long after the vote, and the stake does not show them until then. So a node counts the fees that it
owes.
"""

from collections.abc import Collection

from touchstone.protocol.spec.game.assignments import get_draw_role, get_drawn_seat
from touchstone.protocol.spec.game.claim_status import (
    get_votes,
    is_draw_over,
    is_taking_unserved,
    is_unserved,
)
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.statements import VoteWord

UNSERVED_DIVISOR = 2
"""A node risks at most one part in UNSERVED_DIVISOR of its stake for truthful UNSERVED votes."""
VotePlace = tuple[int, int, int]
"""(round, slot, draw)."""


def compute_owed_fees(state: GameState, number: int, block: int, signed: Collection[VotePlace] = ()) -> int:
    """Returns how many wei the UNSERVED votes of a seat can still cost it. `signed` are draws whose UNSERVED
    vote the seat has signed and the chain may not have counted yet."""
    counted = {
        (index, slot, draw)
        for index, game_round in state.rounds.items()
        for (slot, draw), votes in game_round.votes.items()
        for rank, vote in votes.items()
        if vote.word == VoteWord.UNSERVED and get_drawn_seat(state, game_round, slot, draw, rank) == number
    }
    owed = sum(_may_cost(state, number, place, block) for place in counted | set(signed))
    return owed * state.terms.amounts.unserved_fee


def _may_cost(state: GameState, number: int, place: VotePlace, block: int) -> bool:
    """Returns whether an UNSERVED vote costs its seat the fee, or still may. It does if two auditors vote
    UNSERVED; it may while another such vote can count."""
    index, slot, draw = place
    game_round = state.rounds.get(index)
    if game_round is None or index < state.seats[number].settled:
        return False
    is_over = is_draw_over(state, game_round, slot, draw, block)
    is_taking = not is_over or is_taking_unserved(state, game_round, slot, draw, block)
    if is_taking and game_round.phase != RoundPhase.UNDONE:
        return True
    votes = get_votes(game_round, slot, draw)
    is_counted = any(
        vote.word == VoteWord.UNSERVED and get_drawn_seat(state, game_round, slot, draw, rank) == number
        for rank, vote in votes.items()
    )
    return is_counted and is_unserved(votes)


def may_vote_unserved(
    state: GameState, number: int, place: VotePlace, block: int, signed: Collection[VotePlace] = ()
) -> bool:
    """Returns whether a node votes UNSERVED on a draw that was not served to it. Otherwise it votes ABSTAIN,
    which costs nothing.

    It does not vote UNSERVED if two auditors have done so, because a third such vote would only cost its own
    seat. Nor does it if all its UNSERVED votes, this one included, can cost more than its stake /
    UNSERVED_DIVISOR. So solvers that serve no auditor cannot take more of an honest stake, however long fees
    stay unsettled."""
    seat = state.seats.get(number)
    game_round: GameRound | None = state.rounds.get(place[0])
    if seat is None or game_round is None or seat.status == SeatStatus.CONVICTED:
        return False
    if seat.role != get_draw_role(state, place[2]) or is_unserved(get_votes(game_round, *place[1:])):
        return False
    owed = compute_owed_fees(state, number, block, {*signed, place})
    return owed <= get_stake(state, number) // UNSERVED_DIVISOR
