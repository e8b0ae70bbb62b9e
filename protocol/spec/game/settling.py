"""SETTLE: a seat gets its pay and pays its fees, round after round; then the task closes.

A seat settles a round once nothing that it said or did in it can cost it any more.
"""

from dataclasses import dataclass

from protocol.spec.game.calls import CloseGame, SettleSeat
from protocol.spec.game.convicting import compute_claim_pay
from protocol.spec.game.draft import Draft
from protocol.spec.game.drawing import get_drawn_seat
from protocol.spec.game.enums import ClaimFate, DrawFate, RoundPhase, SeatRole, SeatStatus
from protocol.spec.game.events import GameClosed, SeatSettled
from protocol.spec.game.fates import compute_draw_fate, get_claim_fate, get_votes, is_unserved
from protocol.spec.game.pools import get_stake
from protocol.spec.game.purse import BURNED, ESCROW, credit_of, stake_of
from protocol.spec.game.refusals import require
from protocol.spec.game.seats import get_seat, is_missed
from protocol.spec.game.state import GameRound, GameState, Seat
from protocol.spec.game.statement_refs import is_questioned
from protocol.spec.game.timing import get_duty_until, get_live_round, is_late_draw, is_start_alive
from protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class RoundMoney:
    """What a round gives and takes, in wei: paid to the seat, burned from the escrow, fees from the stake."""

    paid: int = 0
    burned: int = 0
    fees: int = 0


# --- What a round is worth ----------------------------------------------------------------------------------
def compute_round_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    """Pay and fees of a seat for a round. Nobody earns while convicted: that pay is burned."""
    is_solver = seat.role == SeatRole.SOLVER
    money = (_get_solver_money if is_solver else _get_auditor_money)(state, seat, game_round, block)
    if seat.status != SeatStatus.CLOSED:
        return money
    return RoundMoney(burned=money.paid + money.burned)


def _get_solver_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    amounts, slot = state.terms.amounts, game_round.pool.solvers.index(seat.number)
    restored = game_round.restored.get(slot, 0)
    if game_round.phase == RoundPhase.UNDONE:
        return RoundMoney(paid=restored)
    if slot not in game_round.claims:
        return RoundMoney(fees=amounts.dropped_fee if is_missed(game_round, seat) else 0)
    pay = compute_claim_pay(state, game_round, slot)
    is_earned = is_claim_paid(state, game_round, slot, block)
    unserved = count_unserved(state, game_round, slot)
    is_kept = unserved > 0 or game_round.claims[slot].is_convicted
    return RoundMoney(
        paid=restored + pay * is_earned,
        burned=0 if is_earned or is_kept else pay,
        fees=amounts.unserved_fee * unserved,
    )


def is_claim_paid(state: GameState, game_round: GameRound, slot: int, block: int) -> bool:
    """Whether a claim of a round that was not undone earns its pay: accepted, served, and not rejected
    late."""
    late = compute_draw_fate(get_votes(game_round, slot, state.terms.draws))
    is_accepted = get_claim_fate(state, game_round, slot, block) == ClaimFate.ACCEPTED
    return is_accepted and late != DrawFate.FAILED and not count_unserved(state, game_round, slot)


def count_unserved(state: GameState, game_round: GameRound, slot: int) -> int:
    """Draws of a claim in which two auditors said UNSERVED; each costs the solver a fee."""
    return sum(is_unserved(votes) for place, votes in game_round.votes.items() if place[0] == slot)


def _get_auditor_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    amounts, paid, fees = state.terms.amounts, 0, 0
    if game_round.phase == RoundPhase.UNDONE:
        return RoundMoney()
    for (slot, draw), votes in game_round.votes.items():
        for rank, vote in votes.items():
            if get_drawn_seat(state, game_round, slot, draw, rank) != seat.number:
                continue
            pay = amounts.late_pay if is_late_draw(state, draw) else amounts.audit_pay
            paid += pay * (vote.is_opened and not vote.is_false)
            fees += amounts.unserved_fee * (vote.word == VoteWord.UNSERVED and is_unserved(votes))
    return RoundMoney(paid=paid, fees=fees)


# --- Settling -----------------------------------------------------------------------------------------------
def get_settle_flaw(state: GameState, seat: Seat, index: int, block: int) -> str | None:
    """Why a round of a seat cannot be settled at `block`, None where it can."""
    game_round = state.rounds.get(index)
    if game_round is None:
        return "RoundUnknown"
    if seat.number not in game_round.pool.get_seats(seat.role):
        return None
    until = get_duty_until(state, game_round, seat.role)
    if until is None or block <= until or is_questioned(state, seat.number, index):
        return "NotSettleable"
    return "ContestRuns" if any(one.round <= index for one in state.contests.values()) else None


def get_settled_until(state: GameState, seat: Seat, block: int) -> int:
    """The last round up to which a seat can settle at `block`; seat.settled - 1 where none."""
    index = seat.settled
    while get_settle_flaw(state, seat, index, block) is None:
        index += 1
    return index - 1


def apply_settle(draft: Draft, call: SettleSeat, sender: str) -> None:
    """Anybody may send it; the money goes to the seat's account."""
    seat = get_seat(draft.state, call.seat)
    require(call.until_round >= seat.settled, "AlreadySettled", seat.settled, call.until_round)
    for index in range(seat.settled, call.until_round + 1):
        flaw = get_settle_flaw(draft.state, seat, index, draft.block)
        require(flaw is None, flaw or "", actual=index)
        game_round = draft.state.rounds[index]
        if seat.number in game_round.pool.get_seats(seat.role):
            _pay(draft, seat, compute_round_money(draft.state, seat, game_round, draft.block))
    draft.emit(SeatSettled(call.seat, call.until_round))


def _pay(draft: Draft, seat: Seat, money: RoundMoney) -> None:
    draft.move(ESCROW, credit_of(seat.account), money.paid)
    draft.move(ESCROW, BURNED, money.burned)
    draft.move(stake_of(seat.number), BURNED, min(money.fees, get_stake(draft.state, seat.number)))


# --- Closing ------------------------------------------------------------------------------------------------
def is_over(state: GameState, block: int) -> bool:
    """Whether no round runs or is to come: all are used, the submitter halted, or the task has stood still
    for `dispute` blocks."""
    if get_live_round(state) is not None:
        return False
    if state.is_halted or state.next_round >= state.terms.rounds:
        return True
    is_idle = not is_start_alive(state, block)
    return is_idle and block >= state.stands_since + state.terms.windows.dispute


def is_settled(state: GameState) -> bool:
    """Whether every seat has settled every round that was opened, and nothing is open."""
    is_quiet = not state.contests and not state.asks and not state.disputes
    return is_quiet and not any(has_opened_left(state, seat) for seat in state.seats.values())


def has_opened_left(state: GameState, seat: Seat) -> bool:
    """Whether an opened round holds the seat that it has not settled."""
    later = (r.pool for index, r in state.rounds.items() if index >= seat.settled)
    return any(seat.number in pool.get_seats(seat.role) for pool in later)


def apply_close(draft: Draft, call: CloseGame, sender: str) -> None:
    """What is left of the escrow is the submitter's. Stakes and credits stay until they are fetched."""
    require(is_over(draft.state, draft.block) and is_settled(draft.state), "TaskRuns")
    draft.move(ESCROW, credit_of(draft.state.terms.submitter), draft.state.purse.get_wei(ESCROW))
    draft.emit(GameClosed())
