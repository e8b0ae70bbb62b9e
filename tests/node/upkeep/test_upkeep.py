"""What nodes send of their own accord while a task waits for its first members."""

from typing import cast

from tests.kit.nodes import make_view
from tests.protocol.spec.game.simulation import SUBMITTER, make_world
from touchstone.node.upkeep.upkeep_duties import find_next_block, list_calls
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.state import GameState


def list_names(state: GameState, block: int) -> list[str]:
    """What a node would send in `block`."""
    return [type(one).__name__ for one in list_calls(make_view(), cast(LoggedGame, state), block)]


def test_a_task_that_nobody_has_joined_yet_is_neither_closed_nor_waited_for() -> None:
    """On a test network whose clock skips what nobody waits for, its time to be joined would be over at
    once."""
    world = make_world(0, 0, 0)
    end = world.state.paused_since + world.state.terms.windows.dispute
    assert get_next_block(world.state, world.block) == end
    assert find_next_block(world.state, world.block) is None
    assert list_names(world.state, end + 1) == []


def test_it_is_closed_once_its_submitter_halts_it() -> None:
    world = make_world(0, 0, 0)
    world.send(calls.HaltTask(), SUBMITTER)
    assert "CloseTask" in list_names(world.state, world.block + 1)
