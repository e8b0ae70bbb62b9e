"""START, OPEN, COMMIT, the close, the seals. Round 0 opens in block 103 here, so train_min is over with 143
and train_max with 183."""

from tests.protocol.spec.game.simulation import (
    Simulation,
    commit,
    make_quiet_world,
    make_word,
    solver,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.timing import compute_closing_block

RANDOM = make_word("randomness")


# COMMIT and the close
def close_of(world: Simulation) -> int:
    return compute_closing_block(world.state, world.state.rounds[0])


def test_two_thirds_are_rounded_up_and_wait_for_train_min() -> None:
    world = make_quiet_world(solvers=4)
    commit(world, "solver0"), commit(world, "solver1")
    assert close_of(world) == 183, "two of four are not two thirds: three are"
    world.jump(120)
    commit(world, "solver2")
    assert close_of(world) == 143, "train_min after OPEN"


# The freeze
def test_the_pool_after_next_is_frozen_as_the_closing_block_leaves_it() -> None:
    """The race: what the closing block still changes counts, what the next block changes does not."""
    world = make_quiet_world(solvers=3)
    world.jump(183)
    world.send(calls.JoinSeat(SeatRole.VERIFIER, 500), "in time")
    world.send(calls.LeaveSeat(solver(0)), "solver0")
    world.jump(184)
    world.send(calls.JoinSeat(SeatRole.VERIFIER, 500), "too late")
    world.send(calls.LeaveSeat(solver(1)), "solver1")
    pool = world.state.pools[2]
    assert pool.solvers == (solver(1), solver(2)), "solver0 left in time, solver1 too late"
    assert world.get_seat("in time").number in pool.verifiers
    assert world.get_seat("too late").number not in pool.verifiers
