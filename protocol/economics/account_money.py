"""Computes an account's money in a task at a block: locked, earned, settled, lost, and why.

Settled money is in the book (`money_book.py`). Money that is earned and not settled is the pay of a
settlement if nothing more happens; `round_pay.py` and `restitution.py` compute it.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from touchstone.protocol.economics.account_locks import Lock, list_locks
from touchstone.protocol.economics.unsettled_rounds import RoundEntry, list_unsettled
from touchstone.protocol.spec.game.money_book import MoneyBook
from touchstone.protocol.spec.game.money_reasons import (
    FEES,
    PAID,
    MoneyKind,
    MoneyReason,
    Sums,
    add_sums,
    sum_kind,
)
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.state import GameState, Seat


@dataclass(frozen=True)
class AccountMoney:
    """The money of an account in a task. `rounds` are the rounds of its seats, settled ones first. `sums` is
    all settled money, in wei by reason. `stake` is what its seat has at stake, from which fees are taken."""

    account: str
    locks: tuple[Lock, ...] = ()
    rounds: tuple[RoundEntry, ...] = ()
    sums: Sums = field(default_factory=dict)
    stake: int = 0

    @property
    def locked(self) -> int:
        """Returns the wei of all stakes, bonds and escrows."""
        return sum(lock.wei for lock in self.locks)

    @property
    def earned(self) -> int:
        """Returns the wei that settlements pay if nothing more happens."""
        return self._sum_unsettled(PAID | {MoneyReason.RESTITUTION})

    @property
    def owed(self) -> int:
        """Returns the wei of fees that settlements take if nothing more happens."""
        return min(self.stake, self._sum_unsettled(FEES))

    def _sum_unsettled(self, reasons: Iterable[MoneyReason]) -> int:
        sums = self.sum_unsettled()
        return sum(sums.get(reason, 0) for reason in reasons)

    @property
    def open(self) -> int:
        """Returns the pay in wei of claims that audits have not decided yet."""
        return self._sum_unsettled({MoneyReason.OPEN_CLAIM})

    def sum_settled(self, kind: MoneyKind) -> int:
        """Returns the settled wei of one kind."""
        return sum_kind(self.sums, kind)

    def sum_unsettled(self) -> Sums:
        """Returns what unsettled rounds give and take, in wei by reason."""
        sums: Sums = {}
        for one in self.rounds:
            sums = add_sums(sums, one.sums if one.settled is None else {})
        return sums

    @property
    def change(self) -> int:
        """Returns the change of the account's credit by this task: all that the task gave minus all that it
        took, in wei."""
        lost = self.sum_settled(MoneyKind.LOST) + self.sum_settled(MoneyKind.SPENT)
        return self.sum_settled(MoneyKind.SETTLED) - lost - self.locked


def compute_money(state: GameState, book: MoneyBook, block: int) -> dict[str, AccountMoney]:
    """Returns the money of all accounts that have, or had, money in the task. `state` is as a call of `block`
    finds it (`get_state_at`)."""
    return _compute(state, book, block, tuple(state.seats.values()), None)


def compute_account(state: GameState, book: MoneyBook, account: str, block: int) -> AccountMoney:
    """Returns the money of one account, as `compute_money` does."""
    seats = tuple(seat for seat in state.seats.values() if seat.account == account)
    return _compute(state, book, block, seats, account).get(account, AccountMoney(account))


def _compute(
    state: GameState, book: MoneyBook, block: int, seats: tuple[Seat, ...], only: str | None
) -> dict[str, AccountMoney]:
    locks, rounds = defaultdict[str, list[Lock]](list), defaultdict[str, list[RoundEntry]](list)
    for account, lock in list_locks(state, block, seats):
        if only in (None, account):
            locks[account].append(lock)
    for account, found in book.accounts.items():
        if only in (None, account):
            entries = (RoundEntry(*at, one.sums, settled=one.block) for at, one in found.rounds.items())
            rounds[account] += sorted(entries, key=lambda entry: (entry.round, entry.seat))
    for seat, entry in list_unsettled(state, block, seats):
        rounds[seat.account].append(entry)
    stakes = {seat.account: get_stake(state, seat.number) for seat in seats}
    return {
        account: AccountMoney(
            account,
            tuple(locks[account]),
            tuple(rounds[account]),
            book.find(account).sums,
            stakes.get(account, 0),
        )
        for account in {**locks, **rounds, **stakes}
    }
