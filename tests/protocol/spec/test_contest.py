"""A contest as its events tell it: whose move it is, down to the leaf that the contract computes."""

from dataclasses import replace
from typing import Any

import pytest

from protocol.spec import game_events
from protocol.spec.contest import (
    FANOUT_LEVELS,
    ContestState,
    Turn,
    compute_nodes_below,
    compute_padding,
    find_differing,
    is_move_of,
    process_contest_event,
    start_contest,
)
from protocol.spec.merkle import compute_levels, hash_node
from protocol.spec.params import ZERO_WORD
from tests.protocol.spec.simulator import make_account, make_word

POSTER, RIVAL, OTHER = (make_account(name) for name in ("poster", "rival", "other"))
TASK = make_word("task")
DEPTH = 6


def where(block: int = 10, rival: str = RIVAL) -> dict[str, Any]:
    return {"block_number": block, "task": TASK, "round": 0, "rival": rival}


CONTESTED = game_events.Contested(
    **where(), weights_root=bytes(32), momentum_root=bytes(32), tensor=1, clock_block=20
)
STARTED = start_contest(CONTESTED, DEPTH)


def post_nodes(**changes: Any) -> game_events.NodesPosted:
    given = {**where(), "level": 0, "index": 0, "nodes": (ZERO_WORD,), "clock_block": 30, **changes}
    return game_events.NodesPosted(**given)


def name_child(level: int, index: int, **changes: Any) -> game_events.ChildNamed:
    return game_events.ChildNamed(**{**where(), "level": level, "index": index, "clock_block": 40, **changes})


def test_the_poster_moves_first_unless_the_root_is_a_leaf() -> None:
    assert (STARTED.turn, STARTED.tensor, STARTED.clock_block) == (Turn.POSTER, 1, 20)
    assert start_contest(CONTESTED, 0).turn == Turn.LEAF


def test_moves_alternate_down_to_the_leaf() -> None:
    state = process_contest_event(STARTED, post_nodes(), DEPTH)
    assert (state.turn, state.clock_block, state.nodes) == (Turn.RIVAL, 30, (ZERO_WORD,))
    state = process_contest_event(state, name_child(4, 9), DEPTH)
    assert (state.turn, state.level, state.index, state.nodes) == (Turn.POSTER, 4, 9, ())
    state = process_contest_event(state, post_nodes(), DEPTH)
    state = process_contest_event(state, name_child(DEPTH, 38), DEPTH)
    assert (state.turn, state.index, state.clock_block) == (Turn.LEAF, 38, 40)
    ended = game_events.ContestEnded(**where(), loser=POSTER, reason=bytes(32))
    assert process_contest_event(state, ended, DEPTH).turn == Turn.NONE


@pytest.mark.parametrize("other", [{"rival": OTHER}, {"round": 1}, {"task": bytes(32)}])
def test_other_contests_are_other_contests(other: dict[str, Any]) -> None:
    assert process_contest_event(STARTED, post_nodes(**other), DEPTH) == STARTED


@pytest.mark.parametrize(
    ("turn", "movers"),
    [
        (Turn.POSTER, {POSTER}),
        (Turn.RIVAL, {RIVAL}),
        (Turn.LEAF, {POSTER, RIVAL}),
        (Turn.NONE, set()),
    ],
)
def test_whose_move_it_is(turn: Turn, movers: set[str]) -> None:
    state: ContestState = replace(STARTED, turn=turn)
    assert {one for one in (POSTER, RIVAL, OTHER) if is_move_of(state, one, POSTER)} == movers


def fold(nodes: list[bytes]) -> bytes:
    while len(nodes) > 1:
        nodes = [hash_node(*nodes[i : i + 2]) for i in range(0, len(nodes), 2)]
    return nodes[0]


@pytest.mark.parametrize("leaf_count", [1, 2, 5, 16, 17, 42])
def test_nodes_fold_to_their_parent_at_every_step_down(leaf_count: int) -> None:
    levels = compute_levels([make_word("leaf", i) for i in range(leaf_count)])
    depth, node, level, index = len(levels) - 1, levels[-1][0], 0, 0
    while level < depth:
        down = min(FANOUT_LEVELS, depth - level)
        nodes = compute_nodes_below(levels, level, index)
        assert len(nodes) == 1 << down and fold(nodes) == node
        # Always to the right: past the last leaf there is padding only.
        level, index, node = level + down, (index << down) + len(nodes) - 1, nodes[-1]
    assert node == (levels[0][index] if index < leaf_count else ZERO_WORD)


def test_padding_is_what_missing_leaves_fold_to() -> None:
    assert compute_padding(0) == ZERO_WORD
    assert compute_padding(2) == fold([ZERO_WORD] * 4)


def test_the_first_difference_counts() -> None:
    a, b = make_word("a"), make_word("b")
    assert find_differing([a, a, a], [a, b, b]) == 1 and find_differing([a], [a]) is None
    with pytest.raises(ValueError, match="shorter|longer"):
        find_differing([a], [a, b])
