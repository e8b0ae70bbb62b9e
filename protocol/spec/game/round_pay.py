"""Computes what a round pays and costs a seat, by reason."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.claim_status import (
    compute_draw_status,
    count_unserved,
    get_claim_status,
    get_votes,
    is_rejected_late,
    is_unserved,
)
from touchstone.protocol.spec.game.compensation import compute_claim_pay
from touchstone.protocol.spec.game.enums import ClaimStatus, DrawStatus, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.money_reasons import BURNED_PAY, FEES, PAID, MoneyReason, Sums, add_sums
from touchstone.protocol.spec.game.silence import is_missed
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat
from touchstone.protocol.spec.game.terms import RING_ROUNDS, GameTerms
from touchstone.protocol.spec.game.timing import is_draw_missed, is_late_draw
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class RoundMoney:
    """The money of rounds in wei: paid to the seat, burned from the escrow, fees from the stake."""

    paid: int = 0
    burned: int = 0
    fees: int = 0

    def __add__(self, other: "RoundMoney") -> "RoundMoney":
        return RoundMoney(self.paid + other.paid, self.burned + other.burned, self.fees + other.fees)


def compute_round_money(state: GameState, seat: Seat, game_round: GameRound, block: int) -> RoundMoney:
    """Returns pay and fees of a seat for a round."""
    sums = list_round_sums(state, seat, game_round, block)
    paid, burned, fees = (
        sum(wei for reason, wei in sums.items() if reason in reasons) for reasons in (PAID, BURNED_PAY, FEES)
    )
    return RoundMoney(paid, burned, fees)


def list_round_sums(state: GameState, seat: Seat, game_round: GameRound, block: int) -> Sums:
    """Returns pay and fees of a seat for a round by reason, in wei, as of a settlement in `block`."""
    if seat.role == SeatRole.SOLVER:
        return _close_sums(seat, _list_solver_sums(state, seat, game_round, block))
    return _close_sums(seat, sum_audits(state, game_round).get(seat.number, {}))


def _close_sums(seat: Seat, sums: Sums) -> Sums:
    """Returns a seat's part of a round's pay and fees. A convicted seat earns nothing; its pay is burned."""
    if seat.status != SeatStatus.CONVICTED:
        return {reason: wei for reason, wei in sums.items() if wei}
    burned = sum(wei for reason, wei in sums.items() if reason in PAID | BURNED_PAY)
    kept = {reason: wei for reason, wei in sums.items() if reason not in PAID | BURNED_PAY | FEES}
    return add_sums(kept, {MoneyReason.CONVICTED_SEAT: burned})


def _list_solver_sums(state: GameState, seat: Seat, game_round: GameRound, block: int) -> Sums:
    """Returns a solver's sums for a round. An undone round gives only restitution, nothing of the
    escrow."""
    amounts, slot = state.terms.amounts, game_round.pool.solvers.index(seat.number)
    if slot not in game_round.claims:
        return {MoneyReason.MISSED_ROUND: amounts.dropped_fee} if is_missed(game_round, seat) else {}
    pay = compute_claim_pay(state, game_round, slot)
    if game_round.phase == RoundPhase.UNDONE:
        return {MoneyReason.UNDONE_ROUND: pay}
    fees = amounts.unserved_fee * count_unserved(game_round, slot)
    return {judge_claim(state, game_round, slot, block): pay, MoneyReason.UNSERVED_FEE: fees}


def judge_claim(state: GameState, game_round: GameRound, slot: int, block: int) -> MoneyReason:
    """Returns why a claim of a round that was not undone is paid or not. It is paid if it was accepted,
    served, not rejected late, and not paid by a slash. If a slash paid it, the escrow's part is already
    burned."""
    claim = game_round.claims[slot]
    if claim.is_convicted:
        return MoneyReason.CONVICTED_CLAIM
    if slot in game_round.restored:
        return MoneyReason.RESTORED_CLAIM
    if count_unserved(game_round, slot):
        return MoneyReason.UNSERVED_CLAIM
    status = get_claim_status(state, game_round, slot, block)
    if status in (ClaimStatus.UNDECIDED, ClaimStatus.LATE_UNDECIDED):
        return MoneyReason.OPEN_CLAIM
    if status == ClaimStatus.VOID:
        return _judge_void(state, game_round, slot, block)
    is_rejected = is_rejected_late(get_votes(game_round, slot, state.terms.draws))
    return MoneyReason.LATE_REJECTED_CLAIM if is_rejected else MoneyReason.ACCEPTED_CLAIM


def _judge_void(state: GameState, game_round: GameRound, slot: int, block: int) -> MoneyReason:
    if is_draw_missed(state, game_round, block):
        return MoneyReason.MISSED_DRAW
    if game_round.claims[slot].is_void:
        return MoneyReason.CONVICTED_SEAT
    statuses = (compute_draw_status(get_votes(game_round, slot, draw)) for draw in range(state.terms.draws))
    return MoneyReason.REJECTED_CLAIM if DrawStatus.FAILED in statuses else MoneyReason.UNDECIDED_CLAIM


_sums_of_audits: dict[int, tuple[GameRound, GameTerms, Mapping[int, Sums]]] = {}
"""Results of `sum_audits` by the round object, because all seats ask for the same rounds."""


def sum_audits(state: GameState, game_round: GameRound) -> Mapping[int, Sums]:
    """Returns what the votes of a round earn and cost, in wei by reason, for each seat."""
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
    """Yields for each vote the number of its seat, and what it earns or costs. Votes that counted and were
    opened are paid, in undone rounds too, because the round was valid then."""
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
