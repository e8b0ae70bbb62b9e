"""Computes a seat's share of what is set aside for work that a fall undid."""

from touchstone.protocol.spec.game.claim_status import count_unserved, get_claim_status
from touchstone.protocol.spec.game.compensation import compute_claim_pay
from touchstone.protocol.spec.game.enums import ClaimStatus, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.state import Fall, GameRound, GameState, Seat


def find_fall(state: GameState, game_round: GameRound) -> Fall | None:
    """Returns the fall that undid a round: the first that reached it."""
    if game_round.phase != RoundPhase.UNDONE:
        return None
    return next(fall for fall in state.falls if fall.first_round <= game_round.index <= fall.last_round)


def compute_restitution(state: GameState, seat: Seat, game_round: GameRound, block: int) -> int:
    """Returns a seat's share, in wei, of the money that is set aside for a round that a fall undid. A
    convicted seat gets none, and neither does a claim that a slash has paid or that two auditors called
    UNSERVED. What nobody takes is burned at the end."""
    fall = find_fall(state, game_round)
    slot = game_round.pool.solvers.index(seat.number) if seat.role == SeatRole.SOLVER else -1
    is_claim = slot in game_round.claims and slot not in game_round.restored
    if (
        fall is None
        or not fall.owed
        or not is_claim
        or count_unserved(game_round, slot)
        or seat.status == SeatStatus.CONVICTED
    ):
        return 0
    is_accepted = get_claim_status(state, game_round, slot, block) == ClaimStatus.ACCEPTED
    pay = compute_claim_pay(state, game_round, slot) * is_accepted
    return pay * fall.held // fall.owed
