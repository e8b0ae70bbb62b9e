"""Nodes of a contested tree, down to the leaf that the contract computes."""

import pytest

from tests.protocol.spec.game.simulation import make_word
from touchstone.protocol.spec.contest_tree import (
    FANOUT_LEVELS,
    compute_nodes_below,
    compute_padding,
    find_differing,
)
from touchstone.protocol.spec.merkle import compute_levels, hash_node
from touchstone.protocol.spec.params import ZERO_WORD


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
