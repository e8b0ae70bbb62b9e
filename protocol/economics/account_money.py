"""An account's money in a task, as it is at a block: locked until when, earned, settled, lost, and why.

What is over stands in the book (`money_book.py`). What is earned and not settled is what the settlement pays
if nothing more happens: `round_pay.py` and `restitution.py` say both.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
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
from touchstone.protocol.spec.game.pools import get_stake, is_held
from touchstone.protocol.spec.game.purse import ESCROW, bond_of
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.round_pay import list_round_sums
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat
from touchstone.protocol.spec.game.terms import compute_duty_blocks
from touchstone.protocol.spec.game.timing import get_duty_until, get_live_round, is_over, is_start_alive

PACE_ROUNDS = 8
"""So many of the last rounds tell how long a round takes."""


class LockKind(StrEnum):
    """What locked money is for."""

    STAKE = "stake"
    ESCROW = "escrow"
    ASK = "ask"
    DISPUTE = "dispute"
    CONTEST = "contest"


@dataclass(frozen=True)
class Lock:
    """Money that the contracts hold for an account. number: of the seat, or of the bond; until: the block
    before which it cannot come back. None: not while the task runs (an escrow), or never (a convicted
    seat)."""

    kind: LockKind
    number: int
    wei: int
    until: int | None


@dataclass(frozen=True)
class RoundEntry:
    """What a round gave and took of a seat, in wei by reason. settled: the block in which it was settled;
    due: else about the block in which it can be."""

    seat: int
    round: int
    sums: Sums
    settled: int | None = None
    due: int | None = None


@dataclass(frozen=True)
class AccountMoney:
    """What an account has in a task. rounds: of its seats, settled ones first; sums: all that is settled, in
    wei by reason; stake: what its seat has, out of which fees are taken."""

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
        """Returns the wei of claims that audits still decide."""
        return self._sum_unsettled({MoneyReason.OPEN_CLAIM})

    def sum_settled(self, kind: MoneyKind) -> int:
        """Returns the wei of one kind that is over."""
        return sum_kind(self.sums, kind)

    def sum_unsettled(self) -> Sums:
        """Returns what the rounds that are not settled give and take, in wei by reason."""
        sums: Sums = {}
        for one in self.rounds:
            sums = add_sums(sums, one.sums if one.settled is None else {})
        return sums

    @property
    def change(self) -> int:
        """Returns by how much the task has changed the account's credit: all that it gave less all that it
        took, in wei."""
        lost = self.sum_settled(MoneyKind.LOST) + self.sum_settled(MoneyKind.SPENT)
        return self.sum_settled(MoneyKind.SETTLED) - lost - self.locked


def compute_money(state: GameState, book: MoneyBook, block: int) -> dict[str, AccountMoney]:
    """Returns the money of all accounts that have, or had, some in the task. state: as a call of `block`
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
    for account, lock in _list_locks(state, block, seats):
        if only in (None, account):
            locks[account].append(lock)
    for account, found in book.accounts.items():
        if only in (None, account):
            entries = (RoundEntry(*at, one.sums, settled=one.block) for at, one in found.rounds.items())
            rounds[account] += sorted(entries, key=lambda entry: (entry.round, entry.seat))
    for seat, entry in _list_unsettled(state, block, seats):
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


# --- Locked -------------------------------------------------------------------------------------------------
def _list_locks(state: GameState, block: int, seats: Iterable[Seat]) -> Iterator[tuple[str, Lock]]:
    for seat in seats:
        if stake := get_stake(state, seat.number):
            until = find_release(state, seat, block)
            yield seat.account, Lock(LockKind.STAKE, seat.number, stake, until)
    opened = (
        *((ask.asker, LockKind.ASK, ask.number, ask.clock) for ask in state.asks.values()),
        *((one.opener, LockKind.DISPUTE, one.number, one.clock) for one in state.disputes.values()),
        *((one.contester, LockKind.CONTEST, one.number, one.clock) for one in state.contests.values()),
    )
    for account, kind, number, clock in opened:
        yield account, Lock(kind, number, state.purse.get_wei(bond_of(number)), clock + 1)
    if escrow := state.purse.get_wei(ESCROW):
        yield state.terms.submitter, Lock(LockKind.ESCROW, 0, escrow, None)


def find_release(state: GameState, seat: Seat, block: int, round_blocks: int = 0) -> int | None:
    """Returns the first block in which the stake of a seat can come back, if it leaves now and nobody asks or
    disputes anything. None: the seat was convicted. round_blocks: how long a round takes that has no root;
    without it no stake comes back earlier."""
    if seat.status == SeatStatus.CLOSED:
        return None
    return _find_over(state, seat, state.terms.rounds, block, round_blocks, is_staying=False)


def _find_over(
    state: GameState, seat: Seat, end: int, block: int, round_blocks: int, *, is_staying: bool
) -> int:
    """The first block after the duties of a seat in the rounds before `end`. is_staying: it sits in rounds to
    come."""
    duty, overs, to_come = compute_duty_blocks(state.terms.windows), [block], 0
    for index, game_round in state.rounds.items():
        if seat.settled <= index < end and is_in_pool(game_round, seat):
            until = get_duty_until(state, game_round)
            closed = game_round.closed or max(block, game_round.opened + round_blocks)
            overs.append((closed + duty if until is None else until) + 1)
    if get_live_round(state) is not None or is_start_alive(state, block):
        to_come = sum(
            is_held(pool, seat) for index, pool in state.pools.items() if state.next_round <= index < end
        )
    if is_staying and seat.status == SeatStatus.OPEN and not state.is_halted and not is_over(state, block):
        to_come = end - state.next_round
    if to_come > 0:
        overs.append(block + to_come * round_blocks + duty + 1)
    return max(overs)


# --- Earned -------------------------------------------------------------------------------------------------
def _list_unsettled(
    state: GameState, block: int, seats: tuple[Seat, ...]
) -> Iterator[tuple[Seat, RoundEntry]]:
    """What the rounds that are closed and not settled give and take, where it is something."""
    pace, dues = estimate_round_blocks(state), dict[tuple[int, int], int]()
    for index, game_round in sorted(state.rounds.items()):
        if game_round.closed is None:
            continue
        for seat in seats:
            if seat.settled > index or not is_in_pool(game_round, seat):
                continue
            sums = _list_sums(state, seat, game_round, block)
            if not sums:
                continue
            at = seat.number, get_epoch(index)
            if at not in dues:
                dues[at] = find_due(state, seat, index, block, pace)
            yield seat, RoundEntry(seat.number, index, sums, due=dues[at])


def _list_sums(state: GameState, seat: Seat, game_round: GameRound, block: int) -> Sums:
    _, restitution = compute_restitution(state, seat, game_round, block)
    sums = list_round_sums(state, seat, game_round, block)
    return add_sums(sums, {MoneyReason.RESTITUTION: restitution})


def find_due(state: GameState, seat: Seat, index: int, block: int, round_blocks: int) -> int:
    """Returns about the block in which a seat can settle a round: once all rounds of its epoch that hold the
    seat are over, those to come included, each of which takes `round_blocks`."""
    end = min(get_epoch_start(get_epoch(index) + 1), state.terms.rounds)
    return _find_over(state, seat, end, block, round_blocks, is_staying=True)


def estimate_round_blocks(state: GameState) -> int:
    """Returns how many blocks a round takes, from one opening to the next, by the last rounds; by the terms
    where fewer than two were opened."""
    opened = sorted(one.opened for one in state.rounds.values())[-PACE_ROUNDS:]
    if len(opened) < 2:
        return state.terms.windows.train_min + state.terms.windows.audit_max // 3
    return (opened[-1] - opened[0]) // (len(opened) - 1)
