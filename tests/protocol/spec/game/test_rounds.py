"""START, OPEN, COMMIT, the close, the seals. Round 0 opens in block 103 here, so train_min is over with 143
and train_max with 183."""

from tests.protocol.spec.game.world import (
    KEEPER,
    SUBMITTER,
    World,
    commit,
    make_quiet_world,
    make_word,
    make_world,
    solver,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.purse import stake_of
from touchstone.protocol.spec.game.silence import is_missed
from touchstone.protocol.spec.game.timing import compute_closing_block, compute_draw_window
from touchstone.protocol.spec.round_seeds import compute_round_beacon, compute_round_seed

RANDOM = make_word("randomness")


# --- START --------------------------------------------------------------------------------------------------
def test_start_freezes_two_pools_and_asks_for_the_next_grid_block() -> None:
    world = make_world()
    world.send(calls.StartRounds(), "x")
    start = world.state.start
    assert start is not None and (start.first_round, start.beacon_block) == (0, 102), "100 + delay 1, grid 2"
    assert world.state.pools[0] == world.state.pools[1]
    assert world.state.pools[0].solvers == (solver(0), solver(1), solver(2))
    assert world.try_send(calls.StartRounds(), "x") == "StartPending"
    for block, name in ((102, "OutsideWindow"), (103, None)):
        world.jump(block)
        assert world.try_send(calls.SealStart(randomness=RANDOM), "x") == name
    assert world.state.rounds[0].trained_from == world.state.rounds[0].opened == 103
    domain = world.state.terms.domain
    assert world.state.rounds[0].beacon == compute_round_beacon(domain, 0, RANDOM)
    assert world.state.beacons[1] == compute_round_beacon(domain, 1, RANDOM)


def test_a_halted_task_opens_nothing() -> None:
    world = make_world()
    world.send(calls.StartRounds(), "x")
    world.send(calls.HaltTask(), SUBMITTER)
    world.jump(103)
    assert world.try_send(calls.SealStart(randomness=RANDOM), "x") == "TaskHalted"
    assert world.try_send(calls.StartRounds(), "x") == "TaskHalted"
    assert make_world().try_send(calls.SealStart(), "x") == "NothingToSeal"
    for number in list(world.state.seats):
        assert world.try_send(calls.CloseGame(), "x") == "TaskRuns", "a seat is not paid out"
        world.send(calls.PayOut(number), "x")
    assert world.try_send(calls.CloseGame(), "x") is None


# --- COMMIT and the close -----------------------------------------------------------------------------------
def close_of(world: World) -> int:
    return compute_closing_block(world.state, world.state.rounds[0])


def test_two_thirds_are_rounded_up_and_wait_for_train_min() -> None:
    world = make_quiet_world(solvers=4)
    commit(world, "solver0"), commit(world, "solver1")
    assert close_of(world) == 183, "two of four are not two thirds: three are"
    world.jump(120)
    commit(world, "solver2")
    assert close_of(world) == 143, "train_min after OPEN"


# --- The freeze ---------------------------------------------------------------------------------------------
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


# --- Seals --------------------------------------------------------------------------------------------------
def test_the_draw_can_be_sealed_from_its_block_until_reserves_count() -> None:
    world = make_quiet_world(solvers=3)
    for i in range(3):
        commit(world, f"solver{i}")
    assert compute_draw_window(world.state, 103) == (105, 112), "grid block 104; 103 + 30 // 3 - 1"
    world.cheats |= {KEEPER}
    for block, name in ((103, "NothingToSeal"), (104, "OutsideWindow"), (113, "OutsideWindow"), (112, None)):
        world.block = block
        assert world.try_send(calls.SealAudits(0, randomness=RANDOM), "x") == name
    assert world.state.rounds[0].seed == compute_round_seed(world.state.terms.domain, 0, RANDOM)
    assert world.try_send(calls.SealAudits(0, randomness=make_word("s")), "x") == "NothingToSeal", (
        "drawn once"
    )
    assert world.try_send(calls.SealAudits(7), "x") == "RoundUnknown"


def test_a_beacon_that_nobody_seals_closes_the_round_and_charges_nobody() -> None:
    world = make_quiet_world(solvers=3, rounds=4)
    for index, block in ((0, 113), (1, 124)):
        for i in range(3):
            commit(world, f"solver{i}", index)
        world.jump(block)
        world.send(calls.LetStand(index), "x")
    world.jump(126 + 201)
    assert world.try_send(calls.SealRound(2, randomness=RANDOM), "x") == "OutsideWindow"
    world.send(calls.LetStand(2), "x")
    lapsed = world.state.rounds[2]
    assert (lapsed.phase, lapsed.closed, lapsed.beacon) == (RoundPhase.STANDING, 326, None)
    assert not any(is_missed(lapsed, seat) for seat in world.state.seats.values()), "nobody could commit"
    assert 3 in world.state.rounds, "the next round opens"
    world.play()
    assert world.state.is_closed
    assert world.state.purse.get_wei(stake_of(solver(0))) == 0
