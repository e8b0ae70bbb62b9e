"""Keeps the book of a task's money: what each account has won, lost and spent in it, and why.

It is made from the task's events:

    events (WeiMoved, SeatSettled, PayRestored) --> MoneyBook --> `account_money.py`, with the present state

The state has money that is locked, or earned and not settled; the book has the rest. So for each account

    settled - lost - spent - locked = what its credit got from the task - what the task took of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from touchstone.protocol.spec.game.epochs import get_epoch_start
from touchstone.protocol.spec.game.events import EpochFreed, GameEvent, PayRestored, SeatSettled, WeiMoved
from touchstone.protocol.spec.game.money_reasons import FEES, PAID, MoneyReason, Sums, add_sums
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.round_pay import list_round_sums
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.terms import RING_ROUNDS
from touchstone.protocol.spec.game.vault import Pot, PotKind

UNNAMED = ""
"""Stands for the account of money whose event comes before the event that names the account."""
Noted = tuple[str, MoneyReason, int]
"""(account, reason, wei)"""


@dataclass(frozen=True)
class SettledRound:
    """A round that a seat has settled, in `block`. `sums` is what the round gave and took, in wei."""

    block: int
    sums: Sums


@dataclass(frozen=True)
class AccountBook:
    """The book of one account. `sums` is wei by reason since the task was posted. `rounds` are settled rounds
    by seat and round; a round is forgotten when the epoch eight epochs later is freed."""

    sums: Sums = field(default_factory=dict)
    rounds: Mapping[tuple[int, int], SettledRound] = field(default_factory=dict)


@dataclass(frozen=True)
class MoneyBook:
    """The book of a task. `accounts` has the book of each account. `burned` is burned wei by the kind of pot
    that it came from. `settling` is wei that the running settlement has paid to its seat, and taken from its
    stake."""

    accounts: Mapping[str, AccountBook] = field(default_factory=dict)
    burned: Mapping[PotKind, int] = field(default_factory=dict)
    settling: tuple[int, int] = (0, 0)

    def find(self, account: str) -> AccountBook:
        """Returns the book of one account; an empty one if it has none."""
        return self.accounts.get(account, AccountBook())


def note_event(book: MoneyBook, state: GameState, event: GameEvent, block: int) -> MoneyBook:
    """Returns the book after an event of `block`. `state` is the state before the event. A movement of money
    names the accounts on both sides."""
    note = _NOTES.get(type(event))
    return book if note is None else note(book, state, event, block)


def name_account(book: MoneyBook, account: str) -> MoneyBook:
    """Returns the book in which `account` gets the money that had no account so far."""
    accounts = {who: one for who, one in book.accounts.items() if who != UNNAMED}
    book, unnamed = replace(book, accounts=accounts), book.find(UNNAMED)
    return _add(book, ((account, reason, wei) for reason, wei in unnamed.sums.items()))


def _add(book: MoneyBook, noted: Iterable[Noted]) -> MoneyBook:
    accounts = dict(book.accounts)
    for account, reason, wei in noted:
        found = accounts.get(account, AccountBook())
        accounts[account] = replace(found, sums=add_sums(found.sums, {reason: wei}))
    return replace(book, accounts=accounts)


def _note_moved(book: MoneyBook, state: GameState, event: WeiMoved, block: int) -> MoneyBook:
    source, target = event.source.kind, event.target.kind
    if target == PotKind.BURNED:
        book = replace(book, burned={**book.burned, source: book.burned.get(source, 0) + event.wei})
    if _is_settling(state, event):
        paid, fees = book.settling
        is_paid = source == PotKind.ESCROW
        book = replace(book, settling=(paid + event.wei * is_paid, fees + event.wei * (not is_paid)))
    return _add(book, _list_noted(state, event))


def _is_settling(state: GameState, event: WeiMoved) -> bool:
    """Returns whether a settlement pays its seat or takes its fees; SeatSettled then says for what. Without a
    seat, the escrow goes back to its submitter."""
    kinds = (event.source.kind, event.target.kind)
    is_pay = kinds == (PotKind.ESCROW, PotKind.CREDIT) and bool(state.seats)
    return is_pay or kinds == (PotKind.STAKE, PotKind.BURNED)


def _list_noted(state: GameState, event: WeiMoved) -> Iterator[Noted]:
    """Yields what a movement means to accounts, except the settling seat. Stakes and bonds that are put down
    or returned stay their accounts' money, so they are not noted."""
    source, target, wei = event.source, event.target, event.wei
    if source.kind == PotKind.BOND:
        yield from _list_of_bond(state, source, target, wei)
    match source.kind, target.kind:
        case PotKind.ESCROW, PotKind.CREDIT if state.seats:
            yield state.terms.submitter, MoneyReason.PAID_MEMBERS, wei
        case PotKind.ESCROW, PotKind.BURNED:
            yield state.terms.submitter, MoneyReason.BURNED_ESCROW, wei
        case PotKind.STAKE, PotKind.SLASHED:
            yield state.seats[int(source.key)].account, MoneyReason.CONVICTION, wei
        case ((PotKind.SLASHED | PotKind.HELD), PotKind.CREDIT):
            yield str(target.key), MoneyReason.SLASH_SHARE, wei
        case PotKind.RESTITUTION, PotKind.CREDIT:
            yield str(target.key), MoneyReason.RESTITUTION, wei
        case PotKind.CREDIT, PotKind.REVENUE:
            yield str(source.key), MoneyReason.PAID_REVENUE, wei
        case PotKind.REVENUE, PotKind.CREDIT:
            yield str(target.key), MoneyReason.REVENUE, wei


def _list_of_bond(state: GameState, bond: Pot, target: Pot, wei: int) -> Iterator[Noted]:
    """Yields what the end of a bond means: it is returned whole, or lost in two parts."""
    owner, reason = _find_owner(state, int(bond.key))
    is_credit = target.kind == PotKind.CREDIT
    if is_credit and (target.key, wei) == (owner, state.vault.get_wei(bond)):
        return
    yield owner, reason, wei
    if is_credit:
        yield str(target.key), MoneyReason.BOND_SHARE, wei


def _find_owner(state: GameState, number: int) -> tuple[str, MoneyReason]:
    if number in state.queries:
        return state.queries[number].asker, MoneyReason.ANSWERED_QUERY
    if number in state.disputes:
        return state.disputes[number].opener, MoneyReason.LOST_DISPUTE
    return state.contests[number].contester, MoneyReason.LOST_CONTEST


def _note_settled(book: MoneyBook, state: GameState, event: SeatSettled, block: int) -> MoneyBook:
    """Notes what was paid and taken round by round, by the same rules as the settlement."""
    seat, (paid, fees) = state.seats[event.seat], book.settling
    rounds = dict[tuple[int, int], SettledRound]()
    for index in range(seat.settled, event.until_round + 1):
        if index in state.rounds and is_in_pool(state.rounds[index], seat):
            sums, paid, fees = _split(state, seat, index, block, paid, fees)
            rounds[seat.number, index] = SettledRound(block, sums)
    # Restitution is noted when it moves.
    noted = [
        (seat.account, reason, wei)
        for one in rounds.values()
        for reason, wei in one.sums.items()
        if reason != MoneyReason.RESTITUTION
    ]
    noted += [(seat.account, MoneyReason.PAY, paid), (seat.account, MoneyReason.FEE, fees)]
    book = replace(_add(book, noted), settling=(0, 0))
    found = book.find(seat.account)
    found = replace(found, rounds={**found.rounds, **rounds})
    return replace(book, accounts={**book.accounts, seat.account: found})


def _split(
    state: GameState, seat: Seat, index: int, block: int, paid: int, fees: int
) -> tuple[Sums, int, int]:
    """Returns the sums of a round, as far as `paid` and `fees` reach, and the rest of both. Fees are taken
    only as far as the stake reaches."""
    sums = dict(list_round_sums(state, seat, state.rounds[index], block))
    for reason, wei in sums.items():
        if reason in PAID:
            sums[reason] = min(wei, paid)
            paid -= sums[reason]
        elif reason in FEES:
            sums[reason] = min(wei, fees)
            fees -= sums[reason]
    restitution = compute_restitution(state, seat, state.rounds[index], block)
    return add_sums(sums, {MoneyReason.RESTITUTION: restitution}), paid, fees


def _note_restored(book: MoneyBook, state: GameState, event: PayRestored, block: int) -> MoneyBook:
    """Notes pay that came out of a slash."""
    reasons = {MoneyReason.SLASH_SHARE: -event.wei, MoneyReason.RESTORED_PAY: event.wei}
    return _add(book, ((event.account, reason, wei) for reason, wei in reasons.items()))


def _note_freed(book: MoneyBook, state: GameState, event: EpochFreed, block: int) -> MoneyBook:
    least = get_epoch_start(event.epoch + 1) - RING_ROUNDS
    if least <= 0:
        return book
    accounts = {
        account: replace(one, rounds={at: found for at, found in one.rounds.items() if at[1] >= least})
        for account, one in book.accounts.items()
    }
    return replace(book, accounts=accounts)


_NOTES: Mapping[type[GameEvent], Callable[[MoneyBook, GameState, Any, int], MoneyBook]] = {
    WeiMoved: _note_moved,
    SeatSettled: _note_settled,
    PayRestored: _note_restored,
    EpochFreed: _note_freed,
}
