"""Proves several leaves at once: the siblings that a set of leaves needs to reach a Merkle root."""

from collections.abc import Iterator, Mapping, Sequence

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels, compute_depth, compute_path, fold_path, hash_node
from touchstone.protocol.spec.params import ZERO_WORD


def compute_set_path(levels: Levels, indices: Sequence[int]) -> list[bytes]:
    """Returns the siblings that the leaves at rising `indices` need to reach the root, padding included.
    First come those in the left half up to where both halves meet, then those in the right half, then those
    above. Each half is ordered the same way."""
    if not indices or list(indices) != sorted({*indices}):
        raise InvalidInput(
            what="the indices of the leaves are empty, repeated or not in order",
            expected="one index or more, rising",
            actual=list(indices),
            remedy="Pass each index once, in order.",
        )
    return _open_part(levels, indices, len(levels) - 1)


def _open_part(levels: Levels, indices: Sequence[int], height: int) -> list[bytes]:
    """Adds the siblings below the node at `height` that all the leaves have in common."""
    path = compute_path(levels, indices[0])[:height]
    if len(indices) == 1:
        return path
    fork, left, right = _split_set(indices)
    return _open_part(levels, left, fork) + _open_part(levels, right, fork) + path[fork + 1 :]


def _split_set(indices: Sequence[int]) -> tuple[int, Sequence[int], Sequence[int]]:
    """Returns the highest bit in which rising indices differ, the indices without it and those with it."""
    fork = (indices[0] ^ indices[-1]).bit_length() - 1
    middle = sum(index >> fork == indices[0] >> fork for index in indices)
    return fork, indices[:middle], indices[middle:]


def fold_set(leaves: Mapping[int, bytes], depth: int, path: Sequence[bytes]) -> bytes | None:
    """Returns the root that one or more leaves, by index, lead to in a tree of this depth. None unless the
    path has exactly the needed siblings."""
    siblings = iter(path)
    root = _fold_part(leaves, sorted(leaves), depth, siblings)
    return root if next(siblings, None) is None else None


def _fold_part(
    leaves: Mapping[int, bytes], indices: Sequence[int], height: int, siblings: Iterator[bytes]
) -> bytes:
    node, start = leaves[indices[0]], 0
    if len(indices) > 1:
        fork, left, right = _split_set(indices)
        halves = [_fold_part(leaves, half, fork, siblings) for half in (left, right)]
        node, start = hash_node(*halves), fork + 1
    path = [next(siblings, b"") for _ in range(height - start)]
    return fold_path(node, indices[0] >> start, path)


def is_valid_set(root: bytes, leaves: Mapping[int, bytes], count: int, path: Sequence[bytes]) -> bool:
    """Returns whether these are leaves, by index, of the tree over exactly `count` leaves with this root."""
    if not leaves or ZERO_WORD in leaves.values() or not 0 <= min(leaves) <= max(leaves) < count:
        return False
    return fold_set(leaves, compute_depth(count), path) == root
