"""States as roots, and leaves with their proofs: what a claim commits to and a dispute opens.

The trees are those of `protocol/spec/merkle.py`; only their hashing is written for speed here, since it runs
at every segment boundary. A call of `hashlib` for a leaf of a kilobyte costs more than the hash, and other
threads wait for the interpreter meanwhile. So loops over large trees are compiled, and call OpenSSL
themselves.
"""

import _hashlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import isfinite
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.program.exact_loops import UInt8s, compile_loop
from touchstone.protocol.compute.program.step import TrainingState
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.containers import OuterHeader, StateHeader
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.merkle import (
    Levels,
    compute_levels,
    compute_path,
    compute_range_path,
    count_tensor_leaves,
    hash_leaf,
    hash_node,
)
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES, LEAF_PREFIX, NODE_PREFIX, ZERO_WORD

BLOCK_LEAVES = 64
"""Leaves that are laid out for hashing at a time."""
PART_ELEMENTS = 1 << 22
"""Elements that are looked at at a time."""


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
        """Number of leaves."""
        return len(self.levels[0])

    def open_leaf(self, index: int) -> tuple[bytes, list[bytes]]:
        """Leaf `index` (leaf_bytes bytes, padding included) and its path upwards. Raises InvalidInput if
        there is none."""
        path = compute_path(self.levels, index)
        return self._read(index, index), path

    def open_run(self, first: int, last: int) -> tuple[bytes, list[bytes]]:
        """Leaves first .. last (inclusive), one after another, and their siblings upwards
        (`merkle.compute_range_path`). Raises InvalidInput if there are none."""
        path = compute_range_path(self.levels, first, last)
        return self._read(first, last), path

    def _read(self, first: int, last: int) -> bytes:
        leaves = bytes(self.data[first * self.leaf_bytes : (last + 1) * self.leaf_bytes])
        return leaves.ljust((last + 1 - first) * self.leaf_bytes, b"\0")


@dataclass(frozen=True)
class StateTrees:
    """The three tensor trees of one state with its counters."""

    weights: ByteTree
    first_moment: ByteTree
    second_moment: ByteTree
    local_step: int
    global_step: int

    @property
    def header(self) -> StateHeader:
        """What `codec.compute_state_root` hashes."""
        roots = (self.weights.root, self.first_moment.root, self.second_moment.root)
        return StateHeader(*roots, self.local_step, self.global_step)


def tensor_bytes(flat: Tensor) -> memoryview:
    """Little-endian bytes of a flat float32 tensor without a copy; do not change the tensor while they are in
    use."""
    return flat.detach().contiguous().view(torch.uint8).numpy().data


def require_finite(flat: Tensor, where: str = "") -> None:
    """Raises ProtocolFault naming the first element that is NaN or infinite."""
    for start, part in enumerate(torch.split(flat, PART_ELEMENTS)):
        # One pass without a tensor of its own; a NaN is the smallest and the largest.
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
    """The tree over a flat finite float32 vector of at least one element (docs/spec.md, section 1)."""
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
    """Root of the tree over a flat finite float32 vector."""
    return build_tensor_tree(flat).root


def build_byte_tree(data: bytes | memoryview, leaf_bytes: int = LEAF_BYTES) -> ByteTree:
    """The tree over raw bytes (a tensor, a dataset, a pseudo-gradient) in leaves of `leaf_bytes`."""
    view = memoryview(data).cast("B")
    if not len(view):
        raise InvalidInput(
            what="a tree needs a leaf", expected="some bytes", actual="none", remedy="Pass the data."
        )
    levels = None
    if len(view) >= COMPILED_LEAVES * leaf_bytes:
        levels = _compute_levels_compiled(view, leaf_bytes)
    return ByteTree(view, leaf_bytes, levels or compute_levels(list(_hash_leaves(view, leaf_bytes))))


def build_delta_tree(delta: bytes) -> ByteTree:
    """The tree over an encoded pseudo-gradient; its root is the claim's delta root (docs/spec.md, section
    5)."""
    return build_byte_tree(delta, DELTA_LEAF_BYTES)


def _hash_leaves(view: memoryview, leaf_bytes: int) -> Iterator[bytes]:
    """`merkle.hash_leaf` of every leaf. Prefixed leaves are laid out some at a time, in one place that stays
    in the processor's cache: a join per leaf would cost half the time, and so would all of them at once."""
    raw = np.frombuffer(view, np.uint8)
    whole = len(raw) // leaf_bytes
    leaves = raw[: whole * leaf_bytes].reshape(whole, leaf_bytes)
    width = len(LEAF_PREFIX) + leaf_bytes
    memory = memoryview(bytearray((LEAF_PREFIX + bytes(leaf_bytes)) * BLOCK_LEAVES))
    block = np.frombuffer(memory, np.uint8).reshape(BLOCK_LEAVES, width)
    rows = [memory[start : start + width] for start in range(0, len(memory), width)]
    for start in range(0, whole, BLOCK_LEAVES):
        part = leaves[start : start + BLOCK_LEAVES]
        block[: len(part), 1:] = part
        relax()
        yield from (sha256(row).digest() for row in rows[: len(part)])
    if len(raw) > whole * leaf_bytes:
        yield hash_leaf(bytes(raw[whole * leaf_bytes :]).ljust(leaf_bytes, b"\0"))


COMPILED_LEAVES = 4096
"""Trees with fewer leaves are hashed without the loop, which takes a process half a second to compile."""
CONTEXT_BYTES = 512
"""A SHA256_CTX of OpenSSL has 112."""


def _compute_levels_compiled(view: memoryview, leaf_bytes: int) -> Levels | None:
    """The same as `merkle.compute_levels` over `_hash_leaves`; None where there is no OpenSSL to call."""
    hash_rows = _compile_hash_rows()
    if hash_rows is None:
        return None
    raw = np.frombuffer(view, np.uint8)
    whole, count = len(raw) // leaf_bytes, -(-len(raw) // leaf_bytes)
    nodes = np.empty((count, 32), np.uint8)
    for start in range(0, whole, COMPILED_LEAVES):
        stop = min(start + COMPILED_LEAVES, whole)
        hash_rows(LEAF_PREFIX, raw[start * leaf_bytes : stop * leaf_bytes], leaf_bytes, nodes[start:stop])
        relax()
    if count > whole:
        last = hash_leaf(bytes(raw[whole * leaf_bytes :]).ljust(leaf_bytes, b"\0"))
        nodes[whole] = np.frombuffer(last, np.uint8)
    levels, padding = [Words(nodes)], ZERO_WORD
    while len(nodes) > 1:
        if len(nodes) % 2:
            nodes = np.concatenate([nodes, np.frombuffer(padding, np.uint8)[None]])
        below, nodes = nodes.ravel(), np.empty((len(nodes) // 2, 32), np.uint8)
        hash_rows(NODE_PREFIX, below, 64, nodes)
        levels.append(Words(nodes))
        padding = hash_node(padding, padding)
    return levels


class Words(Sequence[bytes]):
    """Hashes one after the other in memory: as objects of their own they take twice as much."""

    def __init__(self, nodes: UInt8s) -> None:
        """nodes: [count, 32]."""
        self._words = nodes.tobytes()

    def __len__(self) -> int:
        return len(self._words) // 32

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        found = range(len(self))[place]
        if isinstance(found, range):
            return [self._words[32 * index : 32 * index + 32] for index in found]
        return self._words[32 * found : 32 * found + 32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self._words)

    def __iter__(self) -> Iterator[bytes]:
        return (self._words[start : start + 32] for start in range(0, len(self._words), 32))


@cache
def _compile_hash_rows() -> Callable[[bytes, UInt8s, int, UInt8s], None] | None:
    """(prefix of one byte, rows one after the other, bytes of a row, out [rows, 32]): SHA-256 of each row
    with the prefix before it. None where Python's hashlib is not linked with an OpenSSL that can be called,
    or what is called there does not hash: a library may refuse, and a wrong root costs a stake."""
    functions = _find_openssl()
    if functions is None:
        return None
    begin, add, finish = functions

    def hash_rows(prefix: UInt8s, rows: UInt8s, width: int, context: UInt8s, out: UInt8s) -> None:
        """Addresses are those of contiguous arrays."""
        for row in range(len(out)):
            begin(context.ctypes.data)
            add(context.ctypes.data, prefix.ctypes.data, 1)
            add(context.ctypes.data, rows.ctypes.data + row * width, width)
            finish(out.ctypes.data + 32 * row, context.ctypes.data)

    compiled = compile_loop(hash_rows)

    def call(prefix: bytes, rows: UInt8s, width: int, out: UInt8s) -> None:
        """With memory of its own: several threads hash at once."""
        rows.flags.writeable = False  # For all alike: a loop is compiled anew for what may be written to.
        compiled(np.array(list(prefix), np.uint8), rows, width, np.empty(CONTEXT_BYTES, np.uint8), out)

    row, found = bytes(range(256)), np.zeros((1, 32), np.uint8)
    call(LEAF_PREFIX, np.frombuffer(row, np.uint8), len(row), found)
    return call if found.tobytes() == hash_leaf(row) else None


def _find_openssl() -> tuple[Any, Any, Any] | None:
    """SHA256_Init, SHA256_Update and SHA256_Final of the library that hashlib is linked with, if it is one
    and shows them."""
    pointer = ctypes.c_void_p
    takes = {"Init": (pointer,), "Update": (pointer, pointer, ctypes.c_size_t), "Final": (pointer, pointer)}
    try:
        library = ctypes.CDLL(_hashlib.__file__)
        init, update, final = (getattr(library, f"SHA256_{name}") for name in takes)
    except (AttributeError, OSError):
        return None
    for function, types in zip((init, update, final), takes.values(), strict=True):
        function.argtypes, function.restype = types, ctypes.c_int
    return init, update, final


def build_state_trees(state: TrainingState) -> StateTrees:
    """The trees of W, m and v. Raises ProtocolFault where an element is not finite."""
    return StateTrees(
        build_tensor_tree(state.weights),
        build_tensor_tree(state.first_moment),
        build_tensor_tree(state.second_moment),
        state.local_step,
        state.global_step,
    )


def state_header(state: TrainingState) -> StateHeader:
    """The roots and counters of a state."""
    return build_state_trees(state).header


def outer_header(weights: Tensor, momentum: Tensor) -> OuterHeader:
    """The roots of the global model and the outer momentum."""
    return OuterHeader(tensor_root(weights), tensor_root(momentum))


def zero_root(count: int) -> bytes:
    """Root of `count` zeros: the moments of a fresh solver. Same as hashing them, but for the one leaf they
    all share."""
    leaf = sha256(LEAF_PREFIX + bytes(LEAF_BYTES)).digest()
    return compute_levels([leaf] * count_tensor_leaves(count))[-1][0]
