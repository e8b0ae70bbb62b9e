"""Positional SHA-256 Merkle trees (docs/spec.md, section 1): a proof binds the leaf, its index, the depth and
the count.

Libraries that sort the two children prove membership only; here the place of a leaf is what a dispute is
about. `0x00` and `0x01` keep leaves and nodes apart (RFC 6962, section 2.1), and the fixed depth refuses a
node shown as a leaf. The tree is padded to a power of two with the zero word, which is therefore never a
leaf.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import LEAF_BYTES, LEAF_PREFIX, NODE_PREFIX, ZERO_WORD

Levels = Sequence[Sequence[bytes]]
"""Of a tree: hashes of 32 bytes, leaves first."""


def hash_leaf(data: bytes | memoryview) -> bytes:
    """Leaf of raw data: sha256(0x00 || data). `data` is any length, one-dimensional bytes."""
    digest = sha256(LEAF_PREFIX)
    digest.update(data)
    return digest.digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Inner node of two 32-byte children: sha256(0x01 || left || right)."""
    return sha256(NODE_PREFIX + left + right).digest()


def compute_depth(count: int) -> int:
    """ceil(log2 count): the number of siblings in every path of a tree over `count` >= 1 leaves."""
    if count < 1:
        raise InvalidInput(
            what="a tree needs a leaf", expected="count >= 1", actual=count, remedy="Pass the leaves."
        )
    return (count - 1).bit_length()


def compute_levels(leaves: Sequence[bytes]) -> Levels:
    """All levels, leaves first and `[root]` last; each without its padding. Leaves are 32 bytes, none of them
    zero."""
    if {*map(len, leaves)} - {32} or ZERO_WORD in leaves:
        index = next(i for i, leaf in enumerate(leaves) if len(leaf) != 32 or leaf == ZERO_WORD)
        raise InvalidInput(
            what="not a leaf hash",
            expected="32 bytes, not all zero",
            actual=bytes(leaves[index]).hex(),
            where=f"leaf {index}",
            remedy="Hash data with hash_leaf first.",
        )
    return stack_levels(leaves)


def stack_levels(nodes: Sequence[bytes], padding: bytes = ZERO_WORD) -> Levels:
    """All levels from `nodes` of one height up, unchecked. `padding`: the node of that height over nothing,
    which the zero word is among leaves."""
    levels = [list(nodes)]
    for _ in range(compute_depth(len(nodes))):
        levels.append(_compute_parents(levels[-1], padding))
        padding = hash_node(padding, padding)
    return levels


def _compute_parents(nodes: list[bytes], padding: bytes) -> list[bytes]:
    padded = nodes if len(nodes) % 2 == 0 else [*nodes, padding]
    # `hash_node`, written out: a state has ten thousand nodes, and calls would be half of their cost.
    return [
        sha256(NODE_PREFIX + left + right).digest()
        for left, right in zip(padded[::2], padded[1::2], strict=True)
    ]


def compute_root(leaves: Sequence[bytes]) -> bytes:
    """Root over n >= 1 leaf hashes; the root over one leaf is that leaf."""
    return compute_levels(leaves)[-1][0]


class GrowingRoot:
    """The root over leaves that come one by one: one node a level is held, however many there are."""

    def __init__(self, padding: bytes = ZERO_WORD) -> None:
        """padding: as in `stack_levels`, where subtrees of one height come in the place of leaves."""
        self._nodes: list[bytes | None] = []
        self._count, self._padding = 0, padding

    def add(self, leaf: bytes) -> None:
        """Take the next leaf hash: 32 bytes, not all zero."""
        node, self._count = leaf, self._count + 1
        for level, left in enumerate(self._nodes):
            if left is None:
                self._nodes[level] = node
                return
            node, self._nodes[level] = hash_node(left, node), None
        self._nodes.append(node)

    def finish(self) -> bytes:
        """The root so far. Raises InvalidInput before the first leaf."""
        root, padding = b"", self._padding
        for left in self._nodes[: compute_depth(self._count)]:
            if left is not None:
                root = hash_node(left, root or padding)
            elif root:
                root = hash_node(root, padding)
            padding = hash_node(padding, padding)
        return root or self._nodes[-1] or b""


def compute_path(levels: Levels, index: int, padding: bytes = ZERO_WORD) -> list[bytes]:
    """The siblings of leaf `index` from the leaf upwards, padding included (as in `stack_levels`)."""
    if not 0 <= index < len(levels[0]):
        raise InvalidInput(
            what="no such leaf",
            expected=f"index below {len(levels[0])}",
            actual=index,
            remedy="Pass an index of this tree.",
        )
    path = []
    for nodes in levels[:-1]:
        sibling = index ^ 1
        path.append(nodes[sibling] if sibling < len(nodes) else padding)
        index >>= 1
        padding = hash_node(padding, padding)
    return path


def fold_path(leaf: bytes, index: int, path: Sequence[bytes]) -> bytes:
    """The root that a leaf and its path lead to; the sibling stands on the left where bit j of `index` is
    set."""
    node = leaf
    for sibling in path:
        node = hash_node(sibling, node) if index & 1 else hash_node(node, sibling)
        index >>= 1
    return node


def is_valid_path(root: bytes, leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bool:
    """Whether `leaf` is leaf `index` of the tree over exactly `count` leaves with this root."""
    if leaf == ZERO_WORD or not 0 <= index < count or len(path) != compute_depth(count):
        return False
    return fold_path(leaf, index, path) == root


def verify_path(root: bytes, leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> None:
    """Raises ProtocolFault, with the figures, unless the path is valid (see is_valid_path)."""
    if is_valid_path(root, leaf, index, count, path):
        return
    found = fold_path(leaf, max(index, 0), path).hex()
    raise ProtocolFault(
        what="the Merkle proof does not hold",
        expected=f"root {root.hex()} with {compute_depth(max(count, 1))} siblings and an index below {count}",
        actual=f"root {found} with {len(path)} siblings, index {index}",
        where=f"leaf {index} ({leaf.hex()})",
        remedy="Refuse the data and keep the message: it is evidence.",
    )


# --- Runs of leaves -----------------------------------------------------------------------------------------
def compute_range_path(levels: Levels, first: int, last: int) -> list[bytes]:
    """The siblings that leaves first .. last (inclusive) need to reach the root, level by level upwards: on
    each the left one where the first index is odd, then the right one where the last index is even, padding
    included."""
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
    """The root that a run of leaves from index `first` on leads to in a tree of this depth; None unless the
    path has exactly the siblings that it needs."""
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
    """The own path of each leaf of a run in a tree of this depth, from the path of the run, which must be
    valid (`fold_range`)."""
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
    """Whether `leaves` are leaves `first` and following of the tree over exactly `count` leaves with this
    root."""
    if not leaves or ZERO_WORD in leaves or not 0 <= first <= first + len(leaves) <= count:
        return False
    return fold_range(leaves, first, compute_depth(count), path) == root


# --- Sets of leaves -----------------------------------------------------------------------------------------
def compute_set_path(levels: Levels, indices: Sequence[int]) -> list[bytes]:
    """The siblings that the leaves at rising `indices` need to reach the root, padding included: those of the
    left half up to where both halves meet, those of the right half, those above; in each half likewise."""
    if not indices or list(indices) != sorted({*indices}):
        raise InvalidInput(
            what="no set of leaves",
            expected="one index or more, rising",
            actual=list(indices),
            remedy="Pass each index once, in order.",
        )
    return _open_part(levels, indices, len(levels) - 1)


def _open_part(levels: Levels, indices: Sequence[int], height: int) -> list[bytes]:
    """Below the node at `height` that all the leaves have in common."""
    path = compute_path(levels, indices[0])[:height]
    if len(indices) == 1:
        return path
    fork, left, right = _split_set(indices)
    return _open_part(levels, left, fork) + _open_part(levels, right, fork) + path[fork + 1 :]


def _split_set(indices: Sequence[int]) -> tuple[int, Sequence[int], Sequence[int]]:
    """The highest bit in which rising indices differ, those without it and those with it."""
    fork = (indices[0] ^ indices[-1]).bit_length() - 1
    middle = sum(index >> fork == indices[0] >> fork for index in indices)
    return fork, indices[:middle], indices[middle:]


def fold_set(leaves: Mapping[int, bytes], depth: int, path: Sequence[bytes]) -> bytes | None:
    """The root that one leaf or more, by index, lead to in a tree of this depth; None unless the path has
    exactly the siblings that they need."""
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
    """Whether these, by index, are leaves of the tree over exactly `count` leaves with this root."""
    if not leaves or ZERO_WORD in leaves.values() or not 0 <= min(leaves) <= max(leaves) < count:
        return False
    return fold_set(leaves, compute_depth(count), path) == root


# --- Raw data -----------------------------------------------------------------------------------------------
def count_tensor_leaves(parameter_count: int) -> int:
    """Leaves of a flat float32 vector: 256 elements (LEAF_BYTES) each, the last one padded."""
    return -(-4 * parameter_count // LEAF_BYTES)


def split_leaves(data: bytes | memoryview) -> list[bytes]:
    """Raw bytes cut into LEAF_BYTES pieces, the last one padded with zero bytes. Empty data has no leaves."""
    view = memoryview(data).cast("B")
    pieces = [bytes(view[start : start + LEAF_BYTES]) for start in range(0, len(view), LEAF_BYTES)]
    if pieces:
        pieces[-1] = pieces[-1].ljust(LEAF_BYTES, b"\0")
    return pieces


def compute_data_levels(data: bytes | memoryview) -> Levels:
    """All levels of the tree over raw bytes (a tensor in little-endian float32, a dataset) in LEAF_BYTES
    leaves."""
    return compute_levels([hash_leaf(piece) for piece in split_leaves(data)])


def compute_data_root(data: bytes | memoryview) -> bytes:
    """Root of the tree over raw bytes, at least one, in LEAF_BYTES leaves. However many there are, no more
    than some leaves are in memory."""
    view, growing = memoryview(data).cast("B"), GrowingRoot()
    for start in range(0, len(view), LEAF_BYTES):
        growing.add(hash_leaf(bytes(view[start : start + LEAF_BYTES]).ljust(LEAF_BYTES, b"\0")))
    return growing.finish()


def compute_zero_tensor_root(parameter_count: int) -> bytes:
    """Root of the tensor tree of a zero vector: the moments of a fresh solver. O(depth) hashes."""
    count = count_tensor_leaves(parameter_count)
    full, padding = hash_leaf(bytes(LEAF_BYTES)), ZERO_WORD
    last = full  # the rightmost node of a level; all others are full subtrees
    for _ in range(compute_depth(count)):
        last = hash_node(full, last) if count % 2 == 0 else hash_node(last, padding)
        full, padding, count = hash_node(full, full), hash_node(padding, padding), (count + 1) // 2
    return last
