"""What a slash has left is nobody's money, and no fee of others."""

from tests.protocol.spec.game.cashier import Cashier, open_cashier
from tests.protocol.spec.game.simulation import Simulation, post
from tests.protocol.spec.game.test_findings import CLAIM, CONVICTED
from tests.protocol.spec.game.test_posting import make_judged
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.timing import get_duty_until


def make_convicted() -> tuple[Simulation, Cashier]:
    """A friend convicts solver0 of its claim; the root of round 0 is posted without it."""
    world = make_judged(rounds=1)
    cashier = open_cashier(world)
    world.send(calls.DisputeStatement(CLAIM, 80), "whistle0")
    world.send(calls.EndDispute(0, outcome=CONVICTED), "whistle0")
    assert post(world, (1, 2), (1, 2)) is None
    return world, cashier


def test_a_held_stake_is_not_locked_for_its_account() -> None:
    world, cashier = make_convicted()
    cashier.take(world.log)
    assert cashier.compute(world.block)["solver0"].change == -2_000, "it will never see any of it again"


def test_what_is_burned_of_it_is_no_fee_of_the_seat_that_settles_next() -> None:
    world, cashier = make_convicted()
    world.jump((get_duty_until(world.state, world.state.rounds[0]) or 0) + 1)
    convicted, honest = world.get_seat("solver0").number, world.get_seat("solver1").number
    world.send(calls.SettleSeat(convicted, 0), "x")
    world.send(calls.PayOut(convicted), "x")
    world.send(calls.SettleSeat(honest, 0), "x")
    cashier.take(world.log)
    money = cashier.compute(world.block)["solver1"]
    assert MoneyReason.FEE not in money.sums, money.sums
    assert money.change == 100 - 2_000, "its pay and its stake"
