"""What truthful UNSERVED votes can cost, and when a node says ABSTAIN instead.

A draw in which two auditors say UNSERVED costs the solver the fee F, and each who says so as well. Fees are
taken at settlement, long after the vote, sixteen rounds at once. Until then nothing shows in the stake, so a
node counts what it owes.
"""

from collections.abc import Collection

from protocol.spec.audit_draw import RANKS
from protocol.spec.game.drawing import get_draw_role, get_drawn_seat
from protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from protocol.spec.game.fates import get_votes, is_draw_over, is_taking_unserved, is_unserved
from protocol.spec.game.pools import get_stake
from protocol.spec.game.state import GameRound, GameState
from protocol.spec.game.terms import ANSWERS_MAX, EPOCH_ROUNDS, RING_ROUNDS, GameTerms
from protocol.spec.statements import VoteWord

UNSERVED_DIVISOR = 2
"""A node risks at most one part in so many of its stake for saying the truth."""
ROUNDS_AHEAD = 2
"""Pools of so many rounds are frozen before a settlement can take a seat out of them."""
VotePlace = tuple[int, int, int]
"""(round, slot, draw)."""


# --- How many draws a seat can have -------------------------------------------------------------------------
def count_round_draws(terms: GameTerms, role: SeatRole) -> int:
    """The most draws of a round in which one seat is primary or reserve, in any pool that can play: draws
    take the places round and round, each rank by itself."""
    if role == SeatRole.SOLVER or (role == SeatRole.WHISTLEBLOWER and not terms.late_chance):
        return 0
    if role == SeatRole.VERIFIER:
        return RANKS * -(-terms.draws * terms.solver_seats // terms.least_verifiers)
    return RANKS * -(-terms.solver_seats // terms.least_whistleblowers)


def compute_settling_blocks(terms: GameTerms, round_blocks: int) -> int:
    """Blocks from the close of a round until a seat can settle it, at the latest: `get_duty_until` with late
    audits a round later, and then a dispute that is opened in its last block. Its own owner may open it."""
    windows = terms.windows
    duty = round_blocks + max(windows.dispute, 2 * windows.audit_max + windows.ask)
    return duty + 2 * ANSWERS_MAX * windows.respond


def count_pending_rounds(terms: GameTerms, round_blocks: int) -> int:
    """The most rounds whose fees a seat owes at once: an epoch, which it settles as a whole, the rounds that
    close before the last of it settles, and those whose pools are frozen by then. Where no contest is open,
    and rounds take `round_blocks`. Never more than the ring has places for."""
    later = compute_settling_blocks(terms, round_blocks) // round_blocks
    return min(RING_ROUNDS, EPOCH_ROUNDS + later + ROUNDS_AHEAD)


def count_pending_draws(terms: GameTerms, role: SeatRole, round_blocks: int) -> int:
    """The most draws of one seat before the fees of the first are taken."""
    return count_round_draws(terms, role) * count_pending_rounds(terms, round_blocks)


# --- What a node asks before it votes -----------------------------------------------------------------------
def compute_owed_fees(state: GameState, number: int, block: int, signed: Collection[VotePlace] = ()) -> int:
    """Wei that the UNSERVED votes of a seat can still cost it. `signed`: draws whose UNSERVED vote it has
    signed and the chain may not have counted yet."""
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
    """Whether an UNSERVED vote costs its seat the fee, or still may: two say so, or another such vote counts
    yet."""
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


def may_say_unserved(
    state: GameState, number: int, place: VotePlace, block: int, signed: Collection[VotePlace] = ()
) -> bool:
    """Whether a node votes UNSERVED on a draw that was not served to it. Otherwise it says ABSTAIN, which is
    free.

    Never where two have said so: a third word would only cost its seat. And never where all that its votes
    can cost, this one included, is more than its stake / UNSERVED_DIVISOR. So solvers that serve nobody
    cannot take more of an honest stake, however long fees stay unsettled."""
    seat = state.seats.get(number)
    game_round: GameRound | None = state.rounds.get(place[0])
    if seat is None or game_round is None or seat.status == SeatStatus.CLOSED:
        return False
    if seat.role != get_draw_role(state, place[2]) or is_unserved(get_votes(game_round, *place[1:])):
        return False
    owed = compute_owed_fees(state, number, block, {*signed, place})
    return owed <= get_stake(state, number) // UNSERVED_DIVISOR
