"""START, OPEN, COMMIT, the close, the seals. Round 0 opens in block 103 here, so train_min is over with 143
and train_max with 183."""

from typing import Any

import pytest

from tests.protocol.spec.game.world import (
    KEEPER,
    SUBMITTER,
    World,
    commit,
    make_quiet_world,
    make_word,
    make_world,
    seal_draw,
    solver,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.purse import stake_of
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.silence import is_missed
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.timing import compute_closing_block, compute_draw_window
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.round_seeds import compute_round_beacon, compute_round_seed

RANDOM, DIGEST = make_word("randomness"), make_word("digest")


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


@pytest.mark.parametrize("missing", [{"solvers": 0}, {"verifiers": 2}, {"whistleblowers": 2}])
def test_start_needs_the_least_numbers(missing: dict[str, int]) -> None:
    assert make_world(**missing).try_send(calls.StartRounds(), "x") == "PoolTooSmall"


def test_rounds_start_only_while_the_task_stands_still_and_has_rounds_left() -> None:
    assert make_quiet_world().try_send(calls.StartRounds(), "x") == "NotStanding"
    world = make_quiet_world(rounds=1)
    world.jump(184)
    world.send(calls.LetStand(0), "x")
    assert world.try_send(calls.StartRounds(), "x") == "TaskOver"


def test_a_start_that_nobody_seals_lapses_and_can_be_asked_again() -> None:
    world = make_world()
    world.send(calls.StartRounds(), "x")
    last = 102 + world.state.limits.seal_blocks
    world.jump(last)
    assert world.try_send(calls.StartRounds(), "x") == "StartPending"
    world.jump(last + 1)
    assert world.try_send(calls.SealStart(randomness=RANDOM), "x") == "OutsideWindow"
    assert world.try_send(calls.StartRounds(), "x") is None


def test_a_lapsed_start_holds_no_stake() -> None:
    world = make_world(solvers=1)
    world.send(calls.StartRounds(), "x")
    world.send(calls.LeaveSeat(solver(0)), "solver0")
    assert world.try_send(calls.PayOut(solver(0)), "x") == "SeatBusy"
    world.jump(102 + world.state.limits.seal_blocks + 1)
    assert world.try_send(calls.PayOut(solver(0)), "x") is None


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
@pytest.mark.parametrize(
    ("account", "changes", "name"),
    [
        ("solver0", {"base_root": b"other"}, "WrongBase"),
        ("solver0", {"beacon": b"other"}, "WrongBeacon"),
        ("solver0", {"segments": 0}, "WrongSegments"),
        ("solver0", {"segments": 7}, "WrongSegments"),
        ("verifier0", {}, "NotCommitter"),
        ("solver0", {}, None),
        ("solver0", {"segments": 1}, None),
    ],
)
def test_commit(account: str, changes: dict[str, Any], name: str | None) -> None:
    world = make_quiet_world()
    before = world.state
    assert commit(world, account, **changes) == name
    assert (world.state == before) == (name is not None)


def test_a_seat_commits_once() -> None:
    world = make_quiet_world()
    assert commit(world, "solver0") is None
    assert commit(world, "solver0", claim_root=b"another") == "AlreadyCommitted"
    claim = world.state.rounds[0].claims[0]
    assert claim.claim_root == make_word("claim", "solver0", 0), "the first one holds"


def test_who_joined_after_the_freeze_cannot_commit() -> None:
    world = make_quiet_world()
    world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000), "late")
    assert commit(world, "late") == "NotCommitter"


def close_of(world: World) -> int:
    return compute_closing_block(world.state, world.state.rounds[0])


def test_a_round_closes_with_the_block_in_which_all_have_committed() -> None:
    world = make_quiet_world(solvers=3)
    world.jump(110)
    for i in range(3):
        commit(world, f"solver{i}")
    assert close_of(world) == 110


def test_two_thirds_are_rounded_up_and_wait_for_train_min() -> None:
    world = make_quiet_world(solvers=4)
    commit(world, "solver0"), commit(world, "solver1")
    assert close_of(world) == 183, "two of four are not two thirds: three are"
    world.jump(120)
    commit(world, "solver2")
    assert close_of(world) == 143, "train_min after OPEN"


def test_two_thirds_after_train_min_close_with_their_own_block() -> None:
    world = make_quiet_world(solvers=3)
    commit(world, "solver0")
    world.jump(150)
    assert commit(world, "solver1") is None
    assert close_of(world) == 150
    assert commit(world, "solver2") is None, "the closing block still takes commitments"
    world.jump(151)
    assert commit(world, "solver2") == "OutsideWindow"


def test_the_block_after_the_close_takes_none() -> None:
    world = make_quiet_world(solvers=3)
    world.jump(183)
    assert commit(world, "solver0") is None
    world.jump(184)
    assert commit(world, "solver1") == "OutsideWindow"
    assert get_state_at(world.state, 183).rounds[0].closed is None
    assert get_state_at(world.state, 184).rounds[0].closed == 183


def test_a_convicted_seat_neither_commits_nor_holds_the_round_when_the_next_opens() -> None:
    world = make_quiet_world(solvers=3)
    commit(world, "solver0")
    world.send(calls.SealProof(DIGEST), "x")
    world.jump(104)
    proof = calls.ConvictSeat(StatementRef(0, 0), ProofKind.BOUNDARY_ZERO, DIGEST)
    world.send(proof, "x")
    assert world.get_seat("solver0").status == SeatStatus.CLOSED
    commit(world, "solver1"), commit(world, "solver2")
    assert close_of(world) == 104, "numbers are counted at OPEN: it had committed"
    world.play(until=lambda w: 1 in w.state.rounds)
    assert world.state.rounds[1].counted == 2
    assert commit(world, "solver0", 1) == "SeatClosed"
    assert commit(world, "solver1", 1) is commit(world, "solver2", 1) is None
    assert compute_closing_block(world.state, world.state.rounds[1]) == world.block


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


def test_the_freeze_does_not_wait_for_somebody_to_say_so() -> None:
    """Nobody touches the round for long after its close: the pool is the same."""
    world = make_quiet_world(solvers=3)
    world.jump(300)
    world.send(calls.LeaveSeat(solver(1)), "solver1")
    assert world.state.pools[2].solvers == (solver(0), solver(1), solver(2))
    assert world.state.rounds[0].closed == 183


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


def test_one_seed_deals_the_round_after_next() -> None:
    world = make_quiet_world(solvers=3)
    for i in range(3):
        commit(world, f"solver{i}")
    seal_draw(world)
    assert set(world.state.beacons) == {0, 1, 2}


def test_an_unsealed_round_is_void_and_the_next_but_one_asks_for_its_own_beacon() -> None:
    world = make_quiet_world(solvers=3, rounds=4)
    for i in range(3):
        commit(world, f"solver{i}")
    world.jump(113)
    assert [type(call) for call in list_upkeep(world.state, 113)] == [calls.LetStand]
    world.send(calls.LetStand(0), "x")
    assert world.state.rounds[1].opened == 113 and world.state.rounds[1].beacon is not None
    for i in range(3):
        commit(world, f"solver{i}", 1)
    world.jump(124)
    world.send(calls.LetStand(1), "x")
    third = world.state.rounds[2]
    assert (third.beacon, third.beacon_block, third.trained_from) == (None, 126, None)
    assert commit(world, "solver0", 2) == "WrongBeacon"
    world.jump(150)
    world.send(calls.SealRound(2, randomness=RANDOM), "x")
    assert world.try_send(calls.SealRound(2, randomness=RANDOM), "x") == "NothingToSeal"
    assert commit(world, "solver0", 2) is None
    assert compute_closing_block(world.state, world.state.rounds[2]) == 150 + 80, "training began now"


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
