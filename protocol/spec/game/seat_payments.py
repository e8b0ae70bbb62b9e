"""Moves members' money in and out: deposits, paid-out stakes, withdrawals.

All money goes through credits.
"""

from touchstone.protocol.spec.game.calls import Deposit, PayOut, WithdrawCredit
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.events import SeatFreed, SeatLeft
from touchstone.protocol.spec.game.open_questions import list_questions
from touchstone.protocol.spec.game.pools import get_stake, is_held
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.seats import get_seat, is_outbid
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import get_live_round, is_over, is_start_alive
from touchstone.protocol.spec.game.vault import OUTSIDE, credit_of, stake_of


def has_rounds_left(state: GameState, seat: Seat, block: int) -> bool:
    """Returns whether the seat is in a frozen pool that it has not settled. Pools of unopened rounds count
    while they may still open; a start that has expired holds no seat."""
    may_open = get_live_round(state) is not None or is_start_alive(state, block)
    until = state.terms.rounds if may_open else state.next_round
    pools = (pool for index, pool in state.pools.items() if seat.settled <= index < until)
    return any(is_held(pool, seat) for pool in pools)


def get_pay_out_flaw(state: GameState, seat: Seat, block: int) -> str | None:
    """Returns why a stake cannot be paid out yet; None if it can."""
    if seat.status == SeatStatus.ACTIVE and not is_over(state, block) and not is_outbid(state, seat):
        return "TaskRuns"
    is_busy = has_rounds_left(state, seat, block) or bool(list_questions(state, seat.number))
    return "SeatBusy" if is_busy else None


def apply_pay_out(draft: Draft, call: PayOut, sender: str) -> None:
    """Pays a stake to the seat's account, and frees the seat's number. Any account may send the call. Of a
    convicted seat nothing is left."""
    seat = get_seat(draft.state, call.seat)
    flaw = get_pay_out_flaw(draft.state, seat, draft.block)
    require(flaw is None, flaw or "", actual=call.seat)
    if seat.status == SeatStatus.ACTIVE:
        draft.emit(SeatLeft(call.seat))
    pay_stake(draft, seat)
    draft.emit(SeatFreed(call.seat))


def pay_stake(draft: Draft, seat: Seat) -> None:
    """Moves a stake to its account."""
    draft.move(stake_of(seat.number), credit_of(seat.account), get_stake(draft.state, seat.number))


def apply_deposit(draft: Draft, call: Deposit, sender: str) -> None:
    """Moves the sender's money into the task."""
    require(call.wei > 0, "NothingMoved", "1 wei or more", call.wei)
    draft.move(OUTSIDE, credit_of(sender), call.wei)


def apply_withdraw(draft: Draft, call: WithdrawCredit, sender: str) -> None:
    """Moves all credit of the sender out of the task."""
    wei = draft.state.vault.get_wei(credit_of(sender))
    require(wei > 0, "NothingMoved", "credit", 0)
    draft.move(credit_of(sender), OUTSIDE, wei)
