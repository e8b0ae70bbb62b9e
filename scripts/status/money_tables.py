"""Makes the tables of an account's money in a task for `touchstone status`."""

from collections.abc import Iterator

from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.economics.account_locks import Lock, LockKind
from touchstone.protocol.economics.account_money import AccountMoney, compute_account
from touchstone.protocol.economics.money_words import describe_money, estimate_unlock
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_reasons import FEES, KINDS, PAID, MoneyKind, MoneyReason, Sums
from touchstone.protocol.spec.game.pools import get_required_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.task_names import show_seat, show_task
from touchstone.scripts.account.task_words import is_task_closable, list_open
from touchstone.scripts.command_line.fitting_table import FittingTable
from touchstone.scripts.money.holdings import Holding, describe_release, find_holding

COMING = PAID | {MoneyReason.RESTITUTION}
ROW_KINDS = {
    MoneyKind.SETTLED: "settled",
    MoneyKind.SPENT: "spent",
    MoneyKind.LOST: "lost",
    MoneyKind.UNPAID: "not paid",
}
"""The headings of rows of money by kind."""


def find_money(game: LoggedGame, account: str, pace: Pace) -> AccountMoney:
    """Returns what an account has in a task now."""
    block = pace.head_block + 1
    return compute_account(get_state_at(game, block), game.money, account, block)


def has_money(money: AccountMoney) -> bool:
    """Returns whether an account has, or had, anything in a task."""
    return bool(money.locks or money.rounds or money.sums)


def format_sums(sums: Sums) -> str:
    """Returns the reasons with their amounts: `accepted claim 100, audit 20`."""
    listed = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{format_reason(reason)} {format_tokens(wei).split()[0]}" for reason, wei in listed)


def format_reason(reason: MoneyReason) -> str:
    """Returns the words for a reason."""
    return reason.value.replace("_", " ")


def make_money_table(task: bytes, game: LoggedGame, money: AccountMoney, pace: Pace) -> FittingTable:
    """Returns a row for each locked amount, and for what is earned, owed, settled, spent and lost, under a
    sentence that sums it up."""
    headings, right = ("", "tokens", "why, and until when"), frozenset({"tokens"})
    title = f"Your money in task {show_task(task)}: {describe_sum(game, money, pace)}"
    table = FittingTable(title, headings, right)
    for lock in money.locks:
        table.add_row(*_describe_lock(game, lock, pace))
    for name, wei, why in (*_list_unsettled(money, pace), *_list_settled(money)):
        table.add_row(name, format_tokens(wei).split()[0], why)
    return table


def describe_sum(game: LoggedGame, money: AccountMoney, pace: Pace) -> str:
    """Returns what an account has in a task as a sentence."""
    block = pace.head_block + 1
    due = estimate_unlock(get_state_at(game, block), money, block)
    return describe_money(money, "" if due is None else pace.show_wait(due))


def _describe_lock(game: LoggedGame, lock: Lock, pace: Pace) -> tuple[str, str, str]:
    amount = format_tokens(lock.wei).split()[0]
    if lock.kind == LockKind.STAKE:
        return _describe_stake(game, find_holding(game, game.seats[lock.number], pace), lock, pace)
    if lock.kind == LockKind.ESCROW:
        block = pace.head_block + 1
        when = "now: touchstone task close" if is_task_closable(game, block) else "back when all is settled"
        return "locked: escrow", amount, "; ".join([when, *list_open(game, block)])
    until = "" if lock.until is None else f"its clock ends with {pace.show_block(lock.until - 1)}"
    return f"locked: bond ({lock.kind.value})", amount, until


def _describe_stake(game: LoggedGame, holding: Holding, lock: Lock, pace: Pace) -> tuple[str, str, str]:
    seat, least_wei = holding.seat, get_required_stake(game, holding.seat.role)
    short = "" if lock.wei >= least_wei else f"to be in a round it needs {format_tokens(least_wei)}; "
    back, block = "", pace.head_block + 1
    if seat.status == SeatStatus.ACTIVE and lock.until is not None and not is_over(game, block):
        back = f"; if you leave now, it comes back with {pace.show_block(lock.until)} at the earliest"
    name = f"locked: {show_seat(seat)} ({seat.status.name.lower()})"
    return name, format_tokens(lock.wei).split()[0], short + describe_release(holding) + back


def _list_unsettled(money: AccountMoney, pace: Pace) -> Iterator[tuple[str, int, str]]:
    """Yields what future settlements will give and take."""
    sums, dues = money.sum_unsettled(), [one.due for one in money.rounds if one.due is not None]
    when = f"; {pace.show_wait(max(dues))}" if dues else ""
    for name, wei, reasons in (
        ("earned, not settled", money.earned, COMING),
        ("in audits", money.open, {MoneyReason.OPEN_CLAIM}),
        ("fees to come", money.owed, FEES),
    ):
        if wei:
            yield name, wei, format_sums({r: sums[r] for r in sums if r in reasons}) + when


def _list_settled(money: AccountMoney) -> Iterator[tuple[str, int, str]]:
    """Yields settled sums, and claims in unsettled rounds that will not be paid."""
    unpaid = {r: wei for r, wei in money.sum_unsettled().items() if KINDS[r] == MoneyKind.UNPAID}
    for kind, name in ROW_KINDS.items():
        sums = {reason: wei for reason, wei in money.sums.items() if KINDS[reason] == kind}
        if kind == MoneyKind.UNPAID:
            sums = {r: sums.get(r, 0) + unpaid.get(r, 0) for r in {**sums, **unpaid}}
        if sums:
            yield name, sum(sums.values()), format_sums(sums)


def make_rounds_table(money: AccountMoney, pace: Pace) -> FittingTable:
    """Returns a row for each round of this account's seats: what it gave and took, and when it is settled."""
    table = FittingTable("Your rounds", ("round", "gives and takes", "settled"))
    for one in money.rounds:
        when = f"block {one.settled}" if one.settled is not None else pace.show_wait(one.due or 0)
        table.add_row(str(one.round), format_sums(one.sums), when)
    return table
