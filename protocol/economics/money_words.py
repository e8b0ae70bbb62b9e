"""Says in a sentence what an account has in a task. Node, status and explorer show the same sentence."""

from collections.abc import Iterator

from touchstone.protocol.economics.account_locks import LockKind
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.economics.duty_ends import estimate_end, estimate_release
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.money_reasons import MoneyKind
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.tokens import format_tokens

NOTHING = "nothing is earned, locked or lost in this task"


def describe_money(money: AccountMoney, wait: str = "", subject: str = "you have") -> str:
    """Returns what an account has earned, has locked and has lost, as one sentence without a full stop.
    Amounts of zero are left out, but what is earned. `wait` says when the locked money comes back, for
    example "in about 2 h"; empty if that is not known. `subject` begins the sentence."""
    parts = list(_list_parts(money, wait))
    earned = money.earned + money.sum_settled(MoneyKind.SETTLED)
    if not parts and not earned:
        return NOTHING
    return ", ".join([f"{subject} earned {_format(earned)} tokens", *parts])


def _list_parts(money: AccountMoney, wait: str) -> Iterator[str]:
    lost = money.sum_settled(MoneyKind.LOST)
    if money.earned:
        is_all = not money.sum_settled(MoneyKind.SETTLED)
        yield "none of it settled yet" if is_all else f"{_format(money.earned)} of it not settled yet"
    if money.locked:
        yield f"{_format(money.locked)} are locked{f' and come back {wait}' if wait else ''}"
    if money.owed:
        yield f"fees of {_format(money.owed)} are to come"
    if spent := money.sum_settled(MoneyKind.SPENT):
        yield f"{_format(spent)} are spent"
    if lost:
        yield f"{_format(lost)} are lost"


def _format(wei: int) -> str:
    whole, dot, rest = format_tokens(wei).removesuffix(" tokens").partition(".")
    return f"{int(whole):,}{dot}{rest}"


def estimate_unlock(state: GameState, money: AccountMoney, block: int) -> int | None:
    """Estimates the block in which all that an account has locked can come back, if its seats stay until the
    task is over and nobody queries or disputes anything more. None if nothing comes back. `state` is as a
    call of `block` finds it."""
    ends = list[int]()
    for lock in money.locks:
        if lock.kind == LockKind.STAKE:
            seat = state.seats[lock.number]
            if seat.status != SeatStatus.CONVICTED:
                ends.append(estimate_release(state, seat, block))
        elif lock.kind == LockKind.ESCROW:
            stakes = (estimate_release(state, seat, block) for seat in state.seats.values())
            ends.append(max(stakes, default=estimate_end(state, block)))
        else:
            ends.append(lock.until or block)
    return max(ends, default=None)
