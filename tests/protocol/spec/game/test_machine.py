"""The machine as a whole: refusals, what upkeep promises, and where it says to look again."""

import re
from pathlib import Path

import pytest

from protocol.spec.game import calls, machine, refusals
from protocol.spec.game.calls import GameCall
from protocol.spec.game.machine import apply, fold_all, get_state_at
from protocol.spec.game.refusals import REMEDIES, GameRefusal
from protocol.spec.game.upkeep import get_next_block, list_upkeep
from tests.protocol.spec.game.test_silence import play
from tests.protocol.spec.game.world import (
    World,
    check_game_call,
    commit,
    make_quiet_world,
    make_world,
    solver,
)

SOURCES = Path(machine.__file__).parent
KINDS = [one for one in vars(calls).values() if isinstance(one, type) and issubclass(one, GameCall)]


def test_every_refusal_is_given_somewhere_and_tested_somewhere() -> None:
    product = "".join(path.read_text() for path in SOURCES.glob("*.py") if path.name != "refusals.py")
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for name in REMEDIES:
        is_built = re.search("(Window|Amount)Too(Short|Long|Small|Large)|OutsideWindow", name)
        assert is_built or f'"{name}"' in product, f"{name} is never given"
        assert f'"{name}"' in tests, f"{name} is not tested"


def test_a_refusal_says_what_was_expected_found_and_what_to_do() -> None:
    refusal = check_game_call(make_world().state, calls.PayOut(99), "x", 100)
    assert isinstance(refusal, GameRefusal) and refusal.name == "SeatUnknown"
    assert "99" in str(refusal) and refusals.REMEDIES["SeatUnknown"] in str(refusal)


def test_every_call_has_a_rule() -> None:
    assert set(machine._RULES) == set(KINDS) - {GameCall}


def test_a_state_at_a_block_is_what_a_call_of_that_block_finds() -> None:
    world = make_quiet_world()
    assert get_state_at(world.state, 183).rounds[0].closed is None
    later = get_state_at(world.state, 184)
    assert later.rounds[0].closed == 183 and world.state.rounds[0].closed is None
    logged = apply(world.state, calls.LeaveSeat(solver(0)), "solver0", 184)
    assert fold_all(world.state, logged[:1], 184) == later, "the close comes first"


def test_all_upkeep_that_is_listed_passes() -> None:
    world, blocks = make_world(solvers=4, rounds=1), 0
    world.unserving, world.false_claims = {"solver1"}, {("solver2", 0)}
    while not world.state.is_closed:
        for call in list_upkeep(world.state, world.block):
            assert check_game_call(world.state, world.seal(call), "x", world.block) is None, call
        world.play_block()
        assert not list_upkeep(world.state, world.block), "all was done"
        world.block, blocks = world.block + 1, blocks + 1
    assert blocks > 500


@pytest.mark.parametrize("silent", [None, "solver0"])
def test_who_jumps_to_the_next_block_misses_nothing(silent: str | None) -> None:
    """Looking in every block gives the same events as looking where `get_next_block` says."""
    jumping = play_keepers(silent, is_jumping=True)
    walking = play_keepers(silent, is_jumping=False)
    assert jumping.log == walking.log and jumping.state.is_closed


def play_keepers(silent: str | None, is_jumping: bool) -> World:
    world = make_quiet_world(rounds=1)
    for account in ("solver0", "solver1", "solver2"):
        if account != silent:
            commit(world, account)
    while not world.state.is_closed:
        world.play_block()
        later = get_next_block(world.state, world.block) if is_jumping else world.block + 1
        world.block = later or world.block + 1
    return world


def test_the_same_play_gives_the_same_events() -> None:
    assert play(None, 0).log == play(None, 0).log
