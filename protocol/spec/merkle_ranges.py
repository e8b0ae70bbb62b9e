"""Proves a run of leaves: the siblings that leaves first .. last need to reach a Merkle root."""

from collections.abc import Sequence

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels, compute_depth, hash_node
from touchstone.protocol.spec.params import ZERO_WORD


def compute_range_path(levels: Levels, first: int, last: int) -> list[bytes]:
    """Returns the siblings that leaves first .. last (inclusive) need to reach the root, level by level
    upwards. Each level gives the left sibling if the first index is odd, then the right sibling if the last
    index is even, padding included."""
    if not 0 <= first <= last < len(levels[0]):
        raise InvalidInput(
            what="no such run of leaves",
            expected=f"first <= last < {len(levels[0])}",
            actual=(first, last),
            remedy="Pass indices of this tree.",
        )
    path, padding = [], ZERO_WORD
    for nodes in levels[:-1]:
        if first & 1:
            path.append(nodes[first - 1])
        if not last & 1:
            path.append(nodes[last + 1] if last + 1 < len(nodes) else padding)
        first, last, padding = first >> 1, last >> 1, hash_node(padding, padding)
    return path


def fold_range(leaves: Sequence[bytes], first: int, depth: int, path: Sequence[bytes]) -> bytes | None:
    """Returns the root that a run of leaves from index `first` on leads to in a tree of this depth. None
    unless the path has exactly the needed siblings."""
    nodes, siblings = list(leaves), iter(path)
    for _ in range(depth):
        if first & 1:
            nodes.insert(0, next(siblings, b""))
        if len(nodes) & 1:
            nodes.append(next(siblings, b""))
        nodes = [hash_node(left, right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
        first >>= 1
    return nodes[0] if next(siblings, None) is None else None


def spread_range(
    leaves: Sequence[bytes], first: int, depth: int, path: Sequence[bytes]
) -> list[tuple[bytes, ...]]:
    """Returns the path of each leaf of a run in a tree of this depth, from the path of the run. That path
    must be valid (`fold_range`)."""
    nodes, start, siblings = list(leaves), first, iter(path)
    paths: list[list[bytes]] = [[] for _ in leaves]
    for level in range(depth):
        if start & 1:
            nodes.insert(0, next(siblings))
            start -= 1
        if len(nodes) & 1:
            nodes.append(next(siblings))
        for number, own in enumerate(paths):
            own.append(nodes[(first + number >> level ^ 1) - start])
        nodes = [hash_node(left, right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
        start >>= 1
    return [tuple(own) for own in paths]


def is_valid_range(
    root: bytes, leaves: Sequence[bytes], first: int, count: int, path: Sequence[bytes]
) -> bool:
    """Returns whether `leaves` are the leaves from `first` on in the tree over exactly `count` leaves with
    this root."""
    if not leaves or ZERO_WORD in leaves or not 0 <= first <= first + len(leaves) <= count:
        return False
    return fold_range(leaves, first, compute_depth(count), path) == root
