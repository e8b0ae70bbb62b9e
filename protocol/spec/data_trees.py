"""Builds Merkle trees over raw bytes, cut into leaves: little-endian float32 tensors, datasets."""

from touchstone.protocol.spec.merkle import (
    GrowingRoot,
    Levels,
    compute_depth,
    compute_levels,
    hash_leaf,
    hash_node,
)
from touchstone.protocol.spec.params import LEAF_BYTES, ZERO_WORD


def count_tensor_leaves(parameter_count: int) -> int:
    """Returns the number of leaves of a flat float32 vector: 256 elements (LEAF_BYTES) each, the last one
    padded."""
    return -(-4 * parameter_count // LEAF_BYTES)


def split_leaves(data: bytes | memoryview) -> list[bytes]:
    """Cuts raw bytes into pieces of LEAF_BYTES, the last one padded with zero bytes. Empty data has no
    leaves."""
    view = memoryview(data).cast("B")
    pieces = [bytes(view[start : start + LEAF_BYTES]) for start in range(0, len(view), LEAF_BYTES)]
    if pieces:
        pieces[-1] = pieces[-1].ljust(LEAF_BYTES, b"\0")
    return pieces


def compute_data_levels(data: bytes | memoryview) -> Levels:
    """Returns all levels of the tree over raw bytes (a tensor in little-endian float32, a dataset) in
    LEAF_BYTES leaves."""
    return compute_levels([hash_leaf(piece) for piece in split_leaves(data)])


def compute_data_root(data: bytes | memoryview) -> bytes:
    """Returns the root of the tree over raw bytes (at least one) in LEAF_BYTES leaves. It holds only a few
    leaves in memory at a time."""
    view, growing = memoryview(data).cast("B"), GrowingRoot()
    for start in range(0, len(view), LEAF_BYTES):
        growing.add(hash_leaf(bytes(view[start : start + LEAF_BYTES]).ljust(LEAF_BYTES, b"\0")))
    return growing.finish()


def compute_zero_tensor_root(parameter_count: int) -> bytes:
    """Returns the root of the tensor tree of a zero vector: the moments of a new solver. It takes O(depth)
    hashes."""
    count = count_tensor_leaves(parameter_count)
    full, padding = hash_leaf(bytes(LEAF_BYTES)), ZERO_WORD
    last = full  # The rightmost node of a level; all others are full subtrees.
    for _ in range(compute_depth(count)):
        last = hash_node(full, last) if count % 2 == 0 else hash_node(last, padding)
        full, padding, count = hash_node(full, full), hash_node(padding, padding), (count + 1) // 2
    return last
