"""Writes an account's money in a task for programs (docs/schemas/status.json): wei, as texts."""

from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.economics.unsettled_rounds import RoundEntry
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.money_reasons import MoneyKind, MoneyReason, Sums, sum_kind
from touchstone.scripts.account.task_names import NUMBER_BITS, get_number
from touchstone.scripts.documents.document_fields import Wei, format_id, spell_role
from touchstone.scripts.documents.overview_documents import LockFacts, MoneyFacts, SeatRoundFacts


def describe_money(task: bytes, money: AccountMoney) -> MoneyFacts:
    """Returns what an account has in a task."""
    return MoneyFacts(
        task=format_id(task),
        account=money.account,
        locked_wei=str(money.locked),
        earned_wei=str(money.earned),
        open_wei=str(money.open),
        owed_wei=str(money.owed),
        settled_wei=str(money.sum_settled(MoneyKind.SETTLED)),
        spent_wei=str(money.sum_settled(MoneyKind.SPENT)),
        lost_wei=str(money.sum_settled(MoneyKind.LOST)),
        unpaid_wei=str(money.sum_settled(MoneyKind.UNPAID)),
        locks=[LockFacts(lock.kind, str(lock.wei), lock.until) for lock in money.locks],
        rounds=[_describe_round(one) for one in money.rounds],
        reasons=_describe_sums(money.sums),
    )


def _describe_round(one: RoundEntry) -> SeatRoundFacts:
    return SeatRoundFacts(
        role=spell_role(SeatRole(one.seat >> NUMBER_BITS)),
        number=get_number(one.seat),
        round=one.round,
        settled_block=one.settled,
        due_block=one.due,
        reasons=_describe_sums(one.sums),
    )


def _describe_sums(sums: Sums) -> dict[MoneyReason, Wei]:
    return {reason: str(wei) for reason, wei in sums.items()}


def sum_account(money: AccountMoney) -> tuple[int, int, int]:
    """Returns earned, settled and lost wei, for a table of all seats."""
    return money.earned, sum_kind(money.sums, MoneyKind.SETTLED), sum_kind(money.sums, MoneyKind.LOST)
