"""The account of money adds up at each block, and pays what it promised."""

from functools import cache

from tests.protocol.spec.game.cashier import Cashier, open_cashier
from tests.protocol.spec.game.faulty_simulation import PARTIES, FaultySimulation, make_faulty
from tests.protocol.spec.game.mishaps import play_mishaps
from tests.protocol.spec.game.simulation import KEEPER, Simulation
from tests.protocol.spec.game.test_logs import play_contests, play_fall, play_questions
from touchstone.protocol.economics.account_locks import LockKind
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.economics.unsettled_rounds import RoundEntry
from touchstone.protocol.spec.game.events import SeatFreed
from touchstone.protocol.spec.game.money_reasons import FEES, KINDS, PAID, MoneyKind, MoneyReason, sum_kind
from touchstone.protocol.spec.game.settling import get_settled_until
from touchstone.protocol.spec.game.timing import is_over, list_late_missing

PROMISED = PAID | FEES | {MoneyReason.RESTITUTION}
Sums = dict[MoneyReason, int]


@cache
def play_faulty() -> tuple[FaultySimulation, tuple[FaultySimulation, ...]]:
    """The task in which each kind of thing happens, at its end and on its way."""
    world, forks = make_faulty(), list[FaultySimulation]()

    def keep(now: Simulation) -> bool:
        assert isinstance(now, FaultySimulation)
        if not forks or len(forks[-1].log) < len(now.log):
            forks.append(now.fork())
        return False

    world.play(until=keep)
    return world, tuple(forks)


def list_reasons(world: Simulation) -> set[MoneyReason]:
    """Checks the money at each block; returns all reasons that were seen."""
    cashier, seen = open_cashier(world), set[MoneyReason]()
    for block in sorted({block for block, _ in world.log}):
        cashier.take([one for one in world.log if one[0] <= block])
        found = cashier.check(block + 1)
        for account, money in found.items():
            cashier.check_single(block + 1, account)
            seen |= {*money.sums, *(reason for one in money.rounds for reason in one.sums)}
    assert cashier.state == world.state
    assert not world.state.is_closed or not any(money.locked for money in found.values())
    return seen


def test_it_adds_up_at_each_block_of_tasks_in_which_each_kind_of_thing_happens() -> None:
    seen = list_reasons(play_faulty()[0])
    for play in (play_fall, play_questions, play_contests, play_mishaps):
        seen |= list_reasons(play())
    assert seen == set(KINDS) - {
        MoneyReason.PAY, MoneyReason.FEE, MoneyReason.REVENUE, MoneyReason.PAID_REVENUE,
    }  # fmt: skip


# Promises
def is_quiet(world: FaultySimulation) -> bool:
    """Whether nothing is open that may take a promise back."""
    return not (world.state.contests or world.state.queries or world.state.disputes)


def keep_promised(entry: RoundEntry) -> Sums:
    return {reason: wei for reason, wei in entry.sums.items() if reason in PROMISED}


def list_promises(found: dict[str, AccountMoney], *, is_settled: bool) -> dict[tuple[str, int, int], Sums]:
    return {
        (account, one.seat, one.round): keep_promised(one)
        for account, money in found.items()
        for one in money.rounds
        if (one.settled is not None) == is_settled and keep_promised(one)
    }


def test_what_was_promised_is_what_is_settled_if_nothing_else_happens() -> None:
    """From a block on all are silent but who sends what any account may send."""
    promised = 0
    for world in [fork for fork in play_faulty()[1] if is_quiet(fork)][::6]:
        cashier = open_cashier(world)
        cashier.take(world.log)
        before = cashier.check(world.block + 1)
        silent = world.fork()
        silent.silenced = {party: world.block for party in PARTIES if party != KEEPER}
        silent.play()
        assert silent.state.is_closed
        cashier.take(silent.log)
        after = cashier.check(silent.block + 1)
        settled = list_promises(after, is_settled=True)
        promises = list_promises(before, is_settled=False)
        for at, sums in promises.items():
            assert settled[at] == sums, (world.block, at)
        earned = sum(sum_kind(sums, MoneyKind.SETTLED) for sums in promises.values())
        assert earned == sum(money.earned for money in before.values())
        promised += earned
        check_released(silent, before)
    assert promised > 10_000


def check_released(silent: Simulation, before: dict[str, AccountMoney]) -> None:
    """No stake comes back before its block."""
    freed = {event.seat: block for block, event in silent.log if isinstance(event, SeatFreed)}
    for lock in (lock for money in before.values() for lock in money.locks):
        assert lock.kind != LockKind.STAKE or lock.until is None or freed[lock.number] >= lock.until


def test_once_no_round_is_to_come_it_settles_in_the_block_that_is_told() -> None:
    told = 0
    for world in (fork for fork in play_faulty()[1] if is_quiet(fork)):
        now, block = world.get_now(), world.block
        if not is_over(now, block) or list_late_missing(now, block):
            continue
        cashier = open_cashier(world)
        cashier.take(world.log)
        for money in cashier.compute(block).values():
            for one in (one for one in money.rounds if one.settled is None):
                seat, due = now.seats[one.seat], one.due or 0
                assert get_settled_until(now, seat, due) >= one.round
                assert due == block or get_settled_until(now, seat, due - 1) < one.round
                told += 1
        for lock in (lock for money in cashier.compute(block).values() for lock in money.locks):
            if lock.kind == LockKind.STAKE and lock.until is not None:
                dues = [one.due or 0 for one in list_open_rounds(cashier, block) if one.seat == lock.number]
                assert lock.until == max(dues, default=block), "it comes back with the last settlement"
    assert told > 50


def list_open_rounds(cashier: Cashier, block: int) -> list[RoundEntry]:
    found = cashier.compute(block).values()
    return [one for money in found for one in money.rounds if one.settled is None]
