"""SETTLE: what a round is worth to a seat, epoch after epoch; then the task closes.

What a round is worth to a seat: its pay and its fees, and its share of what is held for undone work.

A seat settles a round once nothing that it said or did in it can cost it any more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.calls import CloseGame, FreeEpoch, SettleSeat
from touchstone.protocol.spec.game.claim_status import (
    compute_draw_fate,
    count_unserved,
    get_claim_fate,
    get_votes,
    is_rejected_late,
    is_unserved,
)
from touchstone.protocol.spec.game.convicting import compute_claim_pay
from touchstone.protocol.spec.game.disputes import is_questioned, list_questions
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import ClaimFate, DrawFate, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.events import EpochFreed, GameClosed, SeatSettled
from touchstone.protocol.spec.game.money_reasons import BURNED_PAY, FEES, PAID, MoneyReason, Sums, add_sums
from touchstone.protocol.spec.game.pools import get_stake, is_held
from touchstone.protocol.spec.game.purse import BURNED, ESCROW, credit_of, restitution_of, stake_of
from touchstone.protocol.spec.game.rounds import get_round
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.seats import get_seat, is_missed
from touchstone.protocol.spec.game.state import Fall, GameRound, GameState, Seat
from touchstone.protocol.spec.game.terms import RING_ROUNDS, GameTerms
from touchstone.protocol.spec.game.timing import get_duty_until, is_late_draw, is_over, is_unsealed
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class RoundMoney:
    """What rounds give and take, in wei: paid to the seat, burned from the escrow, fees from the stake."""

    paid: int = 0
    burned: int = 0
    fees: int = 0

    def __add__(self, other: "RoundMoney") -> "RoundMoney":
        return RoundMoney(self.paid + other.paid, self.burned + other.burned, self.fees + other.fees)


def compute_round_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    """Pay and fees of a seat for a round."""
    sums = list_round_sums(state, seat, game_round, block)
    paid, burned, fees = (
        sum(wei for reason, wei in sums.items() if reason in reasons) for reasons in (PAID, BURNED_PAY, FEES)
    )
    return RoundMoney(paid, burned, fees)


def list_round_sums(state: GameState, seat: Seat, game_round: GameRound, block: int) -> Sums:
    """Returns pay and fees of a seat for a round by reason, in wei, as a settlement in `block` finds them."""
    if seat.role == SeatRole.SOLVER:
        return _close_sums(seat, _list_solver_sums(state, seat, game_round, block))
    return _close_sums(seat, sum_audits(state, game_round).get(seat.number, {}))


def _close_sums(seat: Seat, sums: Sums) -> Sums:
    """What a seat gets of a round's pay and fees. A convicted one earns nothing: its pay is burned."""
    if seat.status != SeatStatus.CLOSED:
        return {reason: wei for reason, wei in sums.items() if wei}
    burned = sum(wei for reason, wei in sums.items() if reason in PAID | BURNED_PAY)
    kept = {reason: wei for reason, wei in sums.items() if reason not in PAID | BURNED_PAY | FEES}
    return add_sums(kept, {MoneyReason.CONVICTED_SEAT: burned})


def _list_solver_sums(state: GameState, seat: Seat, game_round: GameRound, block: int) -> Sums:
    """Of an undone round nothing but what a slash holds, and that is not the escrow's."""
    amounts, slot = state.terms.amounts, game_round.pool.solvers.index(seat.number)
    if slot not in game_round.claims:
        return {MoneyReason.MISSED_ROUND: amounts.dropped_fee} if is_missed(game_round, seat) else {}
    pay = compute_claim_pay(state, game_round, slot)
    if game_round.phase == RoundPhase.UNDONE:
        return {MoneyReason.UNDONE_ROUND: pay}
    fees = amounts.unserved_fee * count_unserved(game_round, slot)
    return {judge_claim(state, game_round, slot, block): pay, MoneyReason.UNSERVED_FEE: fees}


def judge_claim(state: GameState, game_round: GameRound, slot: int, block: int) -> MoneyReason:
    """Returns why a claim of a round that was not undone is paid or is not. Paid is one that was accepted,
    served, not rejected late, and not paid by a slash, of which the escrow's part is burned already."""
    claim = game_round.claims[slot]
    if count_unserved(game_round, slot):
        return MoneyReason.UNSERVED_CLAIM
    if claim.is_convicted:
        return MoneyReason.CONVICTED_CLAIM
    if slot in game_round.restored:
        return MoneyReason.RESTORED_CLAIM
    fate = get_claim_fate(state, game_round, slot, block)
    if fate in (ClaimFate.UNDECIDED, ClaimFate.LATE_UNDECIDED):
        return MoneyReason.OPEN_CLAIM
    if fate == ClaimFate.VOID:
        return _judge_void(state, game_round, slot, block)
    is_rejected = is_rejected_late(get_votes(game_round, slot, state.terms.draws))
    return MoneyReason.LATE_REJECTED_CLAIM if is_rejected else MoneyReason.ACCEPTED_CLAIM


def _judge_void(state: GameState, game_round: GameRound, slot: int, block: int) -> MoneyReason:
    if game_round.claims[slot].is_void:
        return MoneyReason.CONVICTED_SEAT
    if is_unsealed(state, game_round, block):
        return MoneyReason.MISSED_DRAW
    fates = (compute_draw_fate(get_votes(game_round, slot, draw)) for draw in range(state.terms.draws))
    return MoneyReason.REJECTED_CLAIM if DrawFate.FAILED in fates else MoneyReason.UNDECIDED_CLAIM


_sums_of_audits: dict[int, tuple[GameRound, GameTerms, Mapping[int, Sums]]] = {}
"""What `sum_audits` has found, by the identity of the round: all seats ask for the same rounds."""


def sum_audits(state: GameState, game_round: GameRound) -> Mapping[int, Sums]:
    """Returns what the votes of a round earn and cost, in wei by reason, by the number of the seat."""
    kept = _sums_of_audits.get(id(game_round))
    if kept is not None and kept[0] is game_round and kept[1] is state.terms:
        return kept[2]
    found = defaultdict[int, Counter[MoneyReason]](Counter)
    for number, reason, wei in _list_audit_wei(state, game_round):
        found[number][reason] += wei
    if len(_sums_of_audits) >= RING_ROUNDS:
        _sums_of_audits.clear()
    _sums_of_audits[id(game_round)] = game_round, state.terms, found
    return found


def _list_audit_wei(state: GameState, game_round: GameRound) -> Iterator[tuple[int, MoneyReason, int]]:
    """For each vote the number of its seat, and what it earns or costs. Paid is what counted and was opened,
    in undone rounds too: by then it stood."""
    amounts = state.terms.amounts
    for (slot, draw), votes in game_round.votes.items():
        is_late = is_late_draw(state, draw)
        reason = MoneyReason.LATE_AUDIT if is_late else MoneyReason.AUDIT
        for rank, vote in votes.items():
            is_charged = vote.word == VoteWord.UNSERVED and is_unserved(votes)
            if not vote.is_opened and not is_charged:
                continue
            seat = get_drawn_seat(state, game_round, slot, draw, rank) or 0
            yield seat, reason, (amounts.late_pay if is_late else amounts.audit_pay) * vote.is_opened
            yield seat, MoneyReason.UNSERVED_VOTE, amounts.unserved_fee * is_charged


def find_fall(state: GameState, game_round: GameRound) -> Fall | None:
    """The fall that made a round undone: the first one that reached it."""
    if game_round.phase != RoundPhase.UNDONE:
        return None
    return next(fall for fall in state.falls if fall.first_round <= game_round.index <= fall.last_round)


def compute_restitution(state: GameState, seat: Seat, game_round: GameRound, block: int) -> tuple[int, int]:
    """The number of the fall that made a round undone, and the seat's share of what is held for it. A
    convicted seat has none, nor has a claim that a slash has paid. What no seat takes is burned at the
    end."""
    fall = find_fall(state, game_round)
    slot = game_round.pool.solvers.index(seat.number) if seat.role == SeatRole.SOLVER else -1
    is_claim = slot in game_round.claims and slot not in game_round.restored
    if fall is None or not fall.owed or not is_claim or seat.status == SeatStatus.CLOSED:
        return 0, 0
    is_accepted = get_claim_fate(state, game_round, slot, block) == ClaimFate.ACCEPTED
    pay = compute_claim_pay(state, game_round, slot) * is_accepted
    return fall.number, pay * fall.held // fall.owed


def is_in_pool(game_round: GameRound, seat: Seat) -> bool:
    """Whether a round's pool holds the seat."""
    return is_held(game_round.pool, seat)


def get_settle_flaw(state: GameState, seat: Seat, until_round: int, block: int) -> str | None:
    """Why a seat cannot settle up to a round at `block`, None where it can. A seat settles its part of an
    epoch at once, and waits for whatever is open there."""
    if until_round not in state.rounds:
        return "RoundUnknown"
    rounds = [state.rounds[index] for index in range(seat.settled, until_round + 1)]
    is_early = any(is_in_pool(one, seat) and not is_duty_over(state, one, block) for one in rounds)
    if is_early or is_questioned(state, seat.number, until_round) or has_later(state, seat, until_round):
        return "NotSettleable"
    return "ContestRuns" if is_contested(state, until_round) else None


def has_later(state: GameState, seat: Seat, until_round: int) -> bool:
    """Whether a later round of the same epoch was opened with the seat in its pool."""
    later = (one for index, one in state.rounds.items() if index > until_round)
    epoch = get_epoch(until_round)
    return any(get_epoch(one.index) == epoch and is_in_pool(one, seat) for one in later)


def is_contested(state: GameState, until_round: int) -> bool:
    """Whether a contest of a round in an epoch up to that of `until_round` has not ended."""
    return any(get_epoch(one.round) <= get_epoch(until_round) for one in state.contests.values())


def get_settled_until(state: GameState, seat: Seat, block: int) -> int:
    """The last round up to which a seat can settle at `block`; seat.settled - 1 where none."""
    last = state.next_round - 1
    for index in range(seat.settled, state.next_round):
        if is_in_pool(state.rounds[index], seat) and not is_duty_over(state, state.rounds[index], block):
            last = get_epoch_start(get_epoch(index)) - 1
            break
    questions = list_questions(state, seat.number)
    open_in = [one.statement.round for one in questions] + [one.round for one in state.contests.values()]
    waits = (get_epoch_start(get_epoch(index)) - 1 for index in open_in)
    return max(min([last, *waits]), seat.settled - 1)


def is_duty_over(state: GameState, game_round: GameRound, block: int) -> bool:
    """Whether nothing that a seat said or did in a round can cost it anything any more."""
    until = get_duty_until(state, game_round)
    return until is not None and block > until


def apply_settle(draft: Draft, call: SettleSeat, sender: str) -> None:
    """Any account may send it; the money goes to the seat's account."""
    get_round(draft.state, call.until_round)
    seat = get_seat(draft.state, call.seat)
    require(call.until_round >= seat.settled, "AlreadySettled", seat.settled, call.until_round)
    flaw = get_settle_flaw(draft.state, seat, call.until_round, draft.block)
    require(flaw is None, flaw or "", actual=call.until_round)
    _pay(draft, seat, range(seat.settled, call.until_round + 1))
    draft.emit(SeatSettled(call.seat, call.until_round))


def _pay(draft: Draft, seat: Seat, indices: range) -> None:
    """Fees of all rounds are taken together, as far as the stake reaches. What a slash makes good is burned
    of the escrow: else the submitter kept it, and a slash among friends burned nothing."""
    state, money = draft.state, RoundMoney()
    for game_round in (state.rounds[index] for index in indices):
        if is_in_pool(game_round, seat):
            money += compute_round_money(state, seat, game_round, draft.block)
            fall, wei = compute_restitution(state, seat, game_round, draft.block)
            draft.move(restitution_of(fall), credit_of(seat.account), wei)
            draft.move(ESCROW, BURNED, wei)
    draft.move(ESCROW, credit_of(seat.account), money.paid)
    draft.move(ESCROW, BURNED, money.burned)
    draft.move(stake_of(seat.number), BURNED, min(money.fees, get_stake(state, seat.number)))


# --- Freeing and closing ------------------------------------------------------------------------------------
def is_epoch_done(state: GameState) -> bool:
    """Whether the oldest epoch is over and every seat has settled it."""
    end = get_epoch_start(state.freed_epochs + 1)
    is_settled = all(seat.settled >= end for seat in state.seats.values())
    return state.next_round >= end and is_settled and not is_contested(state, end - 1)


def apply_free_epoch(draft: Draft, call: FreeEpoch, sender: str) -> None:
    """Any account may send it: the ring has places for sixteen rounds more."""
    require(is_epoch_done(draft.state), "NotSettleable", "an epoch that all seats have settled")
    draft.emit(EpochFreed(draft.state.freed_epochs))


def is_closable(state: GameState, block: int) -> bool:
    """Whether no round is to come, every seat is paid out and no contest is open."""
    return is_over(state, block) and not state.seats and not state.contests


def apply_close(draft: Draft, call: CloseGame, sender: str) -> None:
    """What is left of the escrow is the submitter's; what no seat took of the restitutions is burned. Credits
    stay until their accounts withdraw them."""
    require(is_closable(draft.state, draft.block), "TaskRuns")
    for fall in draft.state.falls:
        pot = restitution_of(fall.number)
        draft.move(pot, BURNED, draft.state.purse.get_wei(pot))
    draft.move(ESCROW, credit_of(draft.state.terms.submitter), draft.state.purse.get_wei(ESCROW))
    draft.emit(GameClosed())
