"""Lists the reasons why money of a task comes to an account or leaves it.

Values are names for programs; with spaces for underscores they are words for people.
"""

from collections.abc import Mapping
from enum import StrEnum


class MoneyKind(StrEnum):
    """What a reason does to the account that it names. SETTLED: the money is the account's credit. OPEN: pay
    of a claim that is still audited. UNPAID: pay that a claim could have had; the account has lost nothing.
    LOST: the account had it. SPENT: a submitter's payments out of its escrow, and revenue that the account
    paid."""

    SETTLED = "settled"
    OPEN = "open"
    UNPAID = "unpaid"
    LOST = "lost"
    SPENT = "spent"


class MoneyReason(StrEnum):
    """The reason. UNDECIDED_CLAIM: the time of its audits ran out. MISSED_DRAW: nobody recorded the
    randomness of the round. PAY, FEE: pay or fees of a settlement that the rounds do not explain (never
    seen)."""

    ACCEPTED_CLAIM = "accepted_claim"
    AUDIT = "audit"
    LATE_AUDIT = "late_audit"
    PAY = "pay"
    RESTITUTION = "restitution"
    RESTORED_PAY = "restored_pay"
    SLASH_SHARE = "slash_share"
    BOND_SHARE = "bond_share"
    REVENUE = "revenue"

    OPEN_CLAIM = "open_claim"
    REJECTED_CLAIM = "rejected_claim"
    LATE_REJECTED_CLAIM = "late_rejected_claim"
    UNDECIDED_CLAIM = "undecided_claim"
    MISSED_DRAW = "missed_draw"
    UNSERVED_CLAIM = "unserved_claim"
    CONVICTED_CLAIM = "convicted_claim"
    CONVICTED_SEAT = "convicted_seat"
    RESTORED_CLAIM = "restored_claim"
    UNDONE_ROUND = "undone_round"

    MISSED_ROUND = "missed_round"
    UNSERVED_FEE = "unserved_fee"
    UNSERVED_VOTE = "unserved_vote"
    FEE = "fee"
    CONVICTION = "conviction"
    ANSWERED_QUERY = "answered_query"
    LOST_DISPUTE = "lost_dispute"
    LOST_CONTEST = "lost_contest"

    PAID_MEMBERS = "paid_members"
    BURNED_ESCROW = "burned_escrow"
    PAID_REVENUE = "paid_revenue"


Sums = Mapping[MoneyReason, int]
"""Wei by reason; a missing reason means none."""

PAID = frozenset({MoneyReason.ACCEPTED_CLAIM, MoneyReason.AUDIT, MoneyReason.LATE_AUDIT})
"""What a settlement pays from the escrow for a round."""
FEES = frozenset({MoneyReason.MISSED_ROUND, MoneyReason.UNSERVED_FEE, MoneyReason.UNSERVED_VOTE})
"""What a settlement burns from the stake for a round."""
BURNED_PAY = frozenset(
    {
        MoneyReason.OPEN_CLAIM,
        MoneyReason.REJECTED_CLAIM,
        MoneyReason.LATE_REJECTED_CLAIM,
        MoneyReason.UNDECIDED_CLAIM,
        MoneyReason.UNSERVED_CLAIM,
        MoneyReason.CONVICTED_SEAT,
    }
)
"""Pay that a settlement burns from the escrow (no claim is open by then). The escrow keeps the pay of other
unpaid claims."""

_KINDS = {
    MoneyKind.SETTLED: (
        *PAID,
        MoneyReason.PAY,
        MoneyReason.RESTITUTION,
        MoneyReason.RESTORED_PAY,
        MoneyReason.SLASH_SHARE,
        MoneyReason.BOND_SHARE,
        MoneyReason.REVENUE,
    ),
    MoneyKind.OPEN: (MoneyReason.OPEN_CLAIM,),
    MoneyKind.UNPAID: (
        *(BURNED_PAY - {MoneyReason.OPEN_CLAIM}),
        MoneyReason.MISSED_DRAW,
        MoneyReason.CONVICTED_CLAIM,
        MoneyReason.RESTORED_CLAIM,
        MoneyReason.UNDONE_ROUND,
    ),
    MoneyKind.LOST: (
        *FEES,
        MoneyReason.FEE,
        MoneyReason.CONVICTION,
        MoneyReason.ANSWERED_QUERY,
        MoneyReason.LOST_DISPUTE,
        MoneyReason.LOST_CONTEST,
    ),
    MoneyKind.SPENT: (MoneyReason.PAID_MEMBERS, MoneyReason.BURNED_ESCROW, MoneyReason.PAID_REVENUE),
}
KINDS = {reason: kind for kind, reasons in _KINDS.items() for reason in reasons}


def sum_kind(sums: Sums, kind: MoneyKind) -> int:
    """Returns the wei of all reasons of one kind."""
    return sum(wei for reason, wei in sums.items() if KINDS[reason] == kind)


def add_sums(sums: Sums, more: Sums) -> dict[MoneyReason, int]:
    """Returns the sum of both, without reasons whose total is zero."""
    added = {reason: sums.get(reason, 0) + more.get(reason, 0) for reason in {**sums, **more}}
    return {reason: wei for reason, wei in added.items() if wei}
