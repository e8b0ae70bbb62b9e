"""Finds the nodes that an answer opens in a contest of a posted root, and the first that differs."""

from collections.abc import Sequence

from touchstone.protocol.spec.merkle import Levels, hash_node
from touchstone.protocol.spec.params import ZERO_WORD

FANOUT_LEVELS = 4
"""Levels that one answer opens: 16 nodes. So three answers reach any leaf of a million parameters."""


def compute_nodes_below(levels: Levels, level: int, index: int) -> list[bytes]:
    """Returns the nodes at most FANOUT_LEVELS below a node of a tree, left to right, padded where leaves are
    missing.

    `levels` go from the leaves up, as `merkle.compute_levels` gives them; `level` counts from the root."""
    depth = len(levels) - 1
    down = min(FANOUT_LEVELS, depth - level)
    height, first = depth - level - down, index << down
    row, padding = levels[height], compute_padding(height)
    return [row[place] if place < len(row) else padding for place in range(first, first + (1 << down))]


def compute_padding(height: int) -> bytes:
    """Returns the node at `height` above the leaves that has no leaves below."""
    padding = ZERO_WORD
    for _ in range(height):
        padding = hash_node(padding, padding)
    return padding


def find_differing(own: Sequence[bytes], posted: Sequence[bytes]) -> int | None:
    """Returns the position of the first node that differs, or None."""
    return next((i for i, (a, b) in enumerate(zip(own, posted, strict=True)) if a != b), None)
