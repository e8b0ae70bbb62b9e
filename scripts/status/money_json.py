"""What an account has in a task, for programs (docs/schemas/status.json): amounts in wei, as texts."""

from typing import Any

from touchstone.protocol.economics.account_locks import Lock
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.economics.unsettled_rounds import RoundEntry
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.money_reasons import MoneyKind, Sums, sum_kind
from touchstone.scripts.account.task_names import NUMBER_BITS
from touchstone.scripts.command_line.command_results import Document, spell_id
from touchstone.scripts.status.money_tables import ROW_KINDS


def describe_money(task: bytes, money: AccountMoney) -> Document:
    """The same for programs (docs/schemas/status.json): amounts in wei, as texts."""
    totals = {
        "locked": money.locked,
        "earned": money.earned,
        "open": money.open,
        "owed": money.owed,
        **{kind.value: money.sum_settled(kind) for kind in ROW_KINDS},
    }
    return {
        "task": spell_id(task),
        "account": money.account,
        **{f"{name}_wei": str(wei) for name, wei in totals.items()},
        "locks": [_describe_lock(lock) for lock in money.locks],
        "rounds": [_describe_entry(one) for one in money.rounds],
        "reasons": _describe_sums(money.sums),
    }


def _describe_lock(lock: Lock) -> dict[str, Any]:
    return {"kind": lock.kind.value, "wei": str(lock.wei), "until_block": lock.until}


def _describe_entry(one: RoundEntry) -> dict[str, Any]:
    return {
        "role": SeatRole(one.seat >> NUMBER_BITS).name.lower(),
        "number": one.seat & (1 << NUMBER_BITS) - 1,
        "round": one.round,
        "settled_block": one.settled,
        "due_block": one.due,
        "reasons": _describe_sums(one.sums),
    }


def _describe_sums(sums: Sums) -> dict[str, str]:
    return {reason.value: str(wei) for reason, wei in sums.items()}


def sum_account(money: AccountMoney) -> tuple[int, int, int]:
    """Returns the wei that are earned, settled and lost, for a table of all seats."""
    return money.earned, sum_kind(money.sums, MoneyKind.SETTLED), sum_kind(money.sums, MoneyKind.LOST)
