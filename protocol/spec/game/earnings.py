"""What a round is worth to a seat: its pay and its fees, and its share of what is held for undone work."""

from dataclasses import dataclass

from protocol.spec.game.convicting import compute_claim_pay
from protocol.spec.game.drawing import get_drawn_seat
from protocol.spec.game.enums import ClaimFate, RoundPhase, SeatRole, SeatStatus
from protocol.spec.game.fates import (
    count_unserved,
    get_claim_fate,
    get_votes,
    is_rejected_late,
    is_unserved,
)
from protocol.spec.game.silence import is_missed
from protocol.spec.game.state import Fall, GameRound, GameState, Seat
from protocol.spec.game.timing import is_late_draw
from protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class RoundMoney:
    """What rounds give and take, in wei: paid to the seat, burned from the escrow, fees from the stake."""

    paid: int = 0
    burned: int = 0
    fees: int = 0

    def __add__(self, other: "RoundMoney") -> "RoundMoney":
        return RoundMoney(self.paid + other.paid, self.burned + other.burned, self.fees + other.fees)


def compute_round_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    """Pay and fees of a seat for a round. Nobody earns while convicted: that pay is burned."""
    is_solver = seat.role == SeatRole.SOLVER
    money = (_get_solver_money if is_solver else _get_auditor_money)(state, seat, game_round, block)
    if seat.status != SeatStatus.CLOSED:
        return money
    return RoundMoney(burned=money.paid + money.burned)


def _get_solver_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    """Of an undone round nothing but what a slash holds, and that is not the escrow's. Of a claim that a
    slash has paid the escrow's part is burned already."""
    amounts, slot = state.terms.amounts, game_round.pool.solvers.index(seat.number)
    if game_round.phase == RoundPhase.UNDONE:
        return RoundMoney()
    if slot not in game_round.claims:
        return RoundMoney(fees=amounts.dropped_fee if is_missed(game_round, seat) else 0)
    pay = compute_claim_pay(state, game_round, slot)
    is_earned = is_claim_paid(state, game_round, slot, block)
    unserved = count_unserved(game_round, slot)
    is_kept = unserved > 0 or game_round.claims[slot].is_convicted or slot in game_round.restored
    return RoundMoney(
        paid=pay * is_earned,
        burned=0 if is_earned or is_kept else pay,
        fees=amounts.unserved_fee * unserved,
    )


def is_claim_paid(state: GameState, game_round: GameRound, slot: int, block: int) -> bool:
    """Whether a claim of a round that was not undone earns its pay: accepted, served, not rejected late, and
    not paid by a slash."""
    votes = get_votes(game_round, slot, state.terms.draws)
    is_rejected = is_rejected_late(votes) or slot in game_round.restored
    is_accepted = get_claim_fate(state, game_round, slot, block) == ClaimFate.ACCEPTED
    return is_accepted and not is_rejected and not count_unserved(game_round, slot)


def _get_auditor_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    """For what counted and was opened, in undone rounds too: by then it stood."""
    amounts, paid, fees = state.terms.amounts, 0, 0
    for (slot, draw), votes in game_round.votes.items():
        for rank, vote in votes.items():
            if get_drawn_seat(state, game_round, slot, draw, rank) != seat.number:
                continue
            pay = amounts.late_pay if is_late_draw(state, draw) else amounts.audit_pay
            paid += pay * vote.is_opened
            fees += amounts.unserved_fee * (vote.word == VoteWord.UNSERVED and is_unserved(votes))
    return RoundMoney(paid=paid, fees=fees)


def find_fall(state: GameState, game_round: GameRound) -> Fall | None:
    """The fall that made a round undone: the first one that reached it."""
    if game_round.phase != RoundPhase.UNDONE:
        return None
    return next(fall for fall in state.falls if fall.first_round <= game_round.index <= fall.last_round)


def compute_restitution(state: GameState, seat: Seat, game_round: GameRound, block: int) -> tuple[int, int]:
    """The number of the fall that made a round undone, and the seat's share of what is held for it. Who was
    convicted has none, nor has a claim that a slash has paid; what nobody takes is burned at the end."""
    fall = find_fall(state, game_round)
    slot = game_round.pool.solvers.index(seat.number) if seat.role == SeatRole.SOLVER else -1
    is_claim = slot in game_round.claims and slot not in game_round.restored
    if fall is None or not fall.owed or not is_claim or seat.status == SeatStatus.CLOSED:
        return 0, 0
    is_accepted = get_claim_fate(state, game_round, slot, block) == ClaimFate.ACCEPTED
    pay = compute_claim_pay(state, game_round, slot) * is_accepted
    return fall.number, pay * fall.held // fall.owed
