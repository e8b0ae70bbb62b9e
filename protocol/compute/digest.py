"""Computes roots of states, and leaves with their proofs, for claims and disputes.

The trees are those of `protocol/spec/merkle.py`; only their hashing is written for speed (`tree_hashing.py`).
"""

from dataclasses import dataclass
from hashlib import sha256
from math import isfinite

import torch
from torch import Tensor

from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tree_hashing import hash_tree
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path
from touchstone.protocol.spec.merkle_ranges import compute_range_path
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES, LEAF_PREFIX
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader

PART_ELEMENTS = 1 << 22
"""Elements that are checked at a time."""


@dataclass(frozen=True)
class ByteTree:
    """A Merkle tree over `data` cut into leaves of `leaf_bytes`, the last one padded with zero bytes."""

    data: memoryview
    leaf_bytes: int
    levels: Levels

    @property
    def root(self) -> bytes:
        """The 32-byte root."""
        return self.levels[-1][0]

    @property
    def leaf_count(self) -> int:
        """The number of leaves."""
        return len(self.levels[0])

    def open_leaf(self, index: int) -> tuple[bytes, list[bytes]]:
        """Returns leaf `index` (leaf_bytes bytes, padding included) and its path. Raises InvalidInput if
        there is no such leaf."""
        path = compute_path(self.levels, index)
        return self._read(index, index), path

    def open_run(self, first: int, last: int) -> tuple[bytes, list[bytes]]:
        """Returns leaves first .. last (inclusive), concatenated, and their siblings
        (`merkle_ranges.compute_range_path`). Raises InvalidInput if there are none."""
        path = compute_range_path(self.levels, first, last)
        return self._read(first, last), path

    def _read(self, first: int, last: int) -> bytes:
        leaves = bytes(self.data[first * self.leaf_bytes : (last + 1) * self.leaf_bytes])
        return leaves.ljust((last + 1 - first) * self.leaf_bytes, b"\0")


@dataclass(frozen=True)
class StateTrees:
    """The three tensor trees of one state, with its counters."""

    weights: ByteTree
    first_moment: ByteTree
    second_moment: ByteTree
    local_step: int
    global_step: int

    @property
    def header(self) -> StateHeader:
        """The header that `commitments.compute_state_root` hashes."""
        roots = (self.weights.root, self.first_moment.root, self.second_moment.root)
        return StateHeader(*roots, self.local_step, self.global_step)


def tensor_bytes(flat: Tensor) -> memoryview:
    """Returns the little-endian bytes of a flat float32 tensor without a copy. Do not change the tensor while
    they are in use."""
    return flat.detach().contiguous().view(torch.uint8).numpy().data


def require_finite(flat: Tensor, where: str = "") -> None:
    """Raises ProtocolFault naming the first element that is NaN or infinite."""
    for start, part in enumerate(torch.split(flat, PART_ELEMENTS)):
        # One pass without another tensor. If there is a NaN, it is both the smallest and the largest.
        if not isfinite(sum(map(float, part.aminmax()))):
            _refuse_infinite(part, start * PART_ELEMENTS, where)
        relax()


def _refuse_infinite(part: Tensor, start: int, where: str) -> None:
    is_finite = torch.isfinite(part)
    if not bool(is_finite.all()):
        index = int((~is_finite).to(torch.uint8).argmax())
        raise ProtocolFault(
            what="a tensor holds a number that is not finite",
            expected="finite float32 elements only",
            actual=float(part[index]),
            where=f"{where} element {start + index}".strip(),
            remedy="Refuse the state; the training that made it has diverged or is forged.",
        )


def build_tensor_tree(flat: Tensor) -> ByteTree:
    """Returns the tree over a flat finite float32 vector of at least one element (docs/spec.md, section
    1)."""
    if flat.dtype != torch.float32 or flat.dim() != 1 or not flat.numel():
        raise InvalidInput(
            what="only a flat vector has a tensor tree",
            expected="float32 [n], n >= 1",
            actual=f"{flat.dtype} {list(flat.shape)}",
            remedy="Flatten the parameters in canonical order.",
        )
    require_finite(flat)
    return build_byte_tree(tensor_bytes(flat), LEAF_BYTES)


def tensor_root(flat: Tensor) -> bytes:
    """Returns the root of the tree over a flat finite float32 vector."""
    return build_tensor_tree(flat).root


def build_byte_tree(data: bytes | memoryview, leaf_bytes: int = LEAF_BYTES) -> ByteTree:
    """Returns the tree over raw bytes (a tensor, a dataset, a pseudo-gradient) in leaves of `leaf_bytes`."""
    view = memoryview(data).cast("B")
    if not len(view):
        raise InvalidInput(
            what="a tree needs a leaf", expected="some bytes", actual="none", remedy="Pass the data."
        )
    return ByteTree(view, leaf_bytes, hash_tree(view, leaf_bytes))


def build_delta_tree(delta: bytes) -> ByteTree:
    """Returns the tree over an encoded pseudo-gradient; its root is the claim's delta root (docs/spec.md,
    section 5)."""
    return build_byte_tree(delta, DELTA_LEAF_BYTES)


def build_state_trees(state: TrainingState) -> StateTrees:
    """Returns the trees of W, m and v. Raises ProtocolFault if an element is not finite."""
    return StateTrees(
        build_tensor_tree(state.weights),
        build_tensor_tree(state.first_moment),
        build_tensor_tree(state.second_moment),
        state.local_step,
        state.global_step,
    )


def state_header(state: TrainingState) -> StateHeader:
    """Returns the header of a state: its roots and counters."""
    return build_state_trees(state).header


def outer_header(weights: Tensor, momentum: Tensor) -> OuterHeader:
    """Returns the outer header: the roots of the global model and the outer momentum."""
    return OuterHeader(tensor_root(weights), tensor_root(momentum))


def zero_root(count: int) -> bytes:
    """Returns the root of `count` zeros, the moments of a new solver. It hashes only one leaf, because all
    leaves are equal."""
    leaf = sha256(LEAF_PREFIX + bytes(LEAF_BYTES)).digest()
    return compute_levels([leaf] * count_tensor_leaves(count))[-1][0]
