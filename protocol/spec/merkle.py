"""Positional SHA-256 Merkle trees: a proof binds the leaf, its index, the depth and the count.

Rules: docs/spec.md, section 1. Libraries that sort the two children prove membership only, but here disputes
are about the place of a leaf. `0x00` and `0x01` separate leaves and nodes (RFC 6962, section 2.1), and the
fixed depth excludes a node shown as a leaf. The tree is padded to a power of two with the zero word, which is
therefore never a leaf.
"""

from collections.abc import Sequence
from hashlib import sha256

from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import LEAF_PREFIX, NODE_PREFIX, ZERO_WORD

Levels = Sequence[Sequence[bytes]]
"""The levels of a tree: hashes of 32 bytes, leaves first."""


def hash_leaf(data: bytes | memoryview) -> bytes:
    """Returns the leaf of raw data: sha256(0x00 || data). `data` is any length, one-dimensional bytes."""
    digest = sha256(LEAF_PREFIX)
    digest.update(data)
    return digest.digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Returns the inner node of two 32-byte children: sha256(0x01 || left || right)."""
    return sha256(NODE_PREFIX + left + right).digest()


def compute_depth(count: int) -> int:
    """Returns ceil(log2 count): the number of siblings in every path of a tree over `count` >= 1 leaves."""
    if count < 1:
        raise InvalidInput(
            what="a tree needs a leaf", expected="count >= 1", actual=count, remedy="Pass the leaves."
        )
    return (count - 1).bit_length()


def compute_levels(leaves: Sequence[bytes]) -> Levels:
    """Returns all levels, leaves first and `[root]` last; each without its padding. Leaves are 32 bytes, none
    of them zero."""
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
    """Returns all levels from `nodes` of one height up, unchecked. `padding` is the node of that height
    without leaves below; for leaves that is the zero word."""
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
    """Returns the root over n >= 1 leaf hashes. The root of one leaf is that leaf."""
    return compute_levels(leaves)[-1][0]


class GrowingRoot:
    """Computes the root over leaves that come one by one. It holds one node for each level, however many
    leaves there are."""

    def __init__(self, padding: bytes = ZERO_WORD) -> None:
        """Begins. `padding` is as in `stack_levels`, if subtrees of one height are added instead of
        leaves."""
        self._nodes: list[bytes | None] = []
        self._count, self._padding = 0, padding

    def add(self, leaf: bytes) -> None:
        """Adds the next leaf hash: 32 bytes, not all zero."""
        node, self._count = leaf, self._count + 1
        for level, left in enumerate(self._nodes):
            if left is None:
                self._nodes[level] = node
                return
            node, self._nodes[level] = hash_node(left, node), None
        self._nodes.append(node)

    def finish(self) -> bytes:
        """Returns the root so far. Raises InvalidInput before the first leaf."""
        root, padding = b"", self._padding
        for left in self._nodes[: compute_depth(self._count)]:
            if left is not None:
                root = hash_node(left, root or padding)
            elif root:
                root = hash_node(root, padding)
            padding = hash_node(padding, padding)
        return root or self._nodes[-1] or b""


def compute_path(levels: Levels, index: int, padding: bytes = ZERO_WORD) -> list[bytes]:
    """Returns the siblings of leaf `index` from the leaf upwards, padding included (as in `stack_levels`)."""
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
    """Returns the root that a leaf and its path lead to. Sibling j is on the left if bit j of `index` is
    set."""
    node = leaf
    for sibling in path:
        node = hash_node(sibling, node) if index & 1 else hash_node(node, sibling)
        index >>= 1
    return node


def is_valid_path(root: bytes, leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bool:
    """Returns whether `leaf` is leaf `index` of the tree over exactly `count` leaves with this root."""
    if leaf == ZERO_WORD or not 0 <= index < count or len(path) != compute_depth(count):
        return False
    return fold_path(leaf, index, path) == root


def verify_path(root: bytes, leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> None:
    """Raises ProtocolFault, with the values, unless the path is valid (see is_valid_path)."""
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
