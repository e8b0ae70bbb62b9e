"""Hashes the leaves of large trees, and all levels above them, fast.

This runs at every segment boundary. A call of `hashlib` for a leaf of a kilobyte costs more than the hash,
and other threads wait for the interpreter meanwhile. So loops over large trees are compiled, and call OpenSSL
themselves.
"""

import _hashlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, overload

import numpy as np

from touchstone.protocol.compute.program.compiled_loops import UInt8s, compile_loop
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.merkle import Levels, compute_levels, hash_leaf, hash_node
from touchstone.protocol.spec.params import LEAF_PREFIX, NODE_PREFIX, ZERO_WORD

BLOCK_LEAVES = 64
"""Leaves that are prepared for hashing at a time."""


def hash_tree(view: memoryview, leaf_bytes: int) -> Levels:
    """Returns all levels of the tree over these bytes, `merkle.compute_levels` of their leaves."""
    levels = None
    if len(view) >= COMPILED_LEAVES * leaf_bytes:
        levels = _compute_levels_compiled(view, leaf_bytes)
    return levels or compute_levels(list(_hash_leaves(view, leaf_bytes)))


def _hash_leaves(view: memoryview, leaf_bytes: int) -> Iterator[bytes]:
    """Computes `merkle.hash_leaf` of every leaf. Prefixed leaves are prepared some at a time, in memory that
    stays in the processor's cache. Joining prefix and leaf one by one would take half of the time, and so
    would preparing all leaves at once."""
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
"""Trees with fewer leaves are hashed without the loop, which takes half a second to compile."""
CONTEXT_BYTES = 512
"""Room for a SHA256_CTX of OpenSSL, which has 112 bytes."""


def _compute_levels_compiled(view: memoryview, leaf_bytes: int) -> Levels | None:
    """Computes `merkle.compute_levels` over `_hash_leaves`; returns None if there is no OpenSSL to call."""
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
    """Hashes, one after the other in memory. As separate objects they would take twice as much."""

    def __init__(self, nodes: UInt8s) -> None:
        """Wraps `nodes`, [count, 32]."""
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
    """Returns a function of (prefix of one byte, rows one after the other, bytes of a row, out [rows, 32])
    that writes the SHA-256 of each prefixed row. Returns None if Python's hashlib is not linked with a
    callable OpenSSL, or its results are wrong, because a wrong root costs a stake."""
    functions = _find_openssl()
    if functions is None:
        return None
    begin, add, finish = functions

    def hash_rows(prefix: UInt8s, rows: UInt8s, width: int, context: UInt8s, out: UInt8s) -> None:
        """Hashes rows. The arguments are addresses of contiguous arrays."""
        for row in range(len(out)):
            begin(context.ctypes.data)
            add(context.ctypes.data, prefix.ctypes.data, 1)
            add(context.ctypes.data, rows.ctypes.data + row * width, width)
            finish(out.ctypes.data + 32 * row, context.ctypes.data)

    compiled = compile_loop(hash_rows)

    def call(prefix: bytes, rows: UInt8s, width: int, out: UInt8s) -> None:
        """Calls the compiled loop with memory of its own, because several threads hash at once."""
        rows.flags.writeable = False  # Make all arrays read-only: a loop is compiled again for writable ones.
        compiled(np.array(list(prefix), np.uint8), rows, width, np.empty(CONTEXT_BYTES, np.uint8), out)

    row, found = bytes(range(256)), np.zeros((1, 32), np.uint8)
    call(LEAF_PREFIX, np.frombuffer(row, np.uint8), len(row), found)
    return call if found.tobytes() == hash_leaf(row) else None


def _find_openssl() -> tuple[Any, Any, Any] | None:
    """Returns SHA256_Init, SHA256_Update and SHA256_Final of the library that hashlib is linked with, if it
    has them."""
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
