"""What a node keeps of training in its store: tensors and states, looked at whole or piece by piece; traces.

The trace of a disputed step is kept by its claimant, and fetched by a challenger as far as needed. It is
large: half a gigabyte where the model has a million parameters. So no more than one tensor of it is ever in
memory here. All of it stands under the trace root: a list of the roots of its buffers, and each buffer's
bytes under its own. Which buffers there are follows from the program, so a challenger knows every length
before the first byte comes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.adapters.files.mapped_files import read_piece
from touchstone.protocol.adapters.files.unchanged_files import FilePrint
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import (
    ROOT_BYTES,
    BlobKey,
    BlobKind,
    BlobRef,
    refer_roots,
    refer_trace_tensor,
)
from touchstone.protocol.adapters.store.chunk_trees import get_chunk_level, open_leaves
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.bounds.fault import ClaimedLeaf
from touchstone.protocol.compute.digest import ByteTree, StateTrees, tensor_bytes
from touchstone.protocol.compute.program.step import TrainingState
from touchstone.protocol.compute.program.tensor_allocator import SHOWN_TYPES, relax, view_mapped
from touchstone.protocol.spec.containers import StateHeader
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels, hash_leaf
from touchstone.protocol.spec.program import ELEMENT_BYTES, INDEX_ROLES, Program, Role, leaf_bytes

FETCHED_BYTES = 1 << 30
"""of other nodes' traces on disk at a time, unless told otherwise."""


# --- Tensors and states -----------------------------------------------------------------------------------
def keep_tree(store: BlobStore, kind: BlobKind, tree: ByteTree, *, is_cached: bool = True) -> BlobRef:
    """Keep the bytes under a tree that was just built over them, without hashing them a second time. Raises
    as `BlobStore.put_hashed` does."""
    ref, roots = BlobRef(BlobKey(kind, tree.root), len(tree.data)), get_chunk_level(tree.levels, kind)
    store.put_hashed(ref, tree.data, roots, is_cached=is_cached)
    relax()
    return ref


def keep_state_trees(store: BlobStore, trees: StateTrees, *, is_cached: bool = True) -> None:
    """Keep the tensors of a state that was just hashed. Raises as `BlobStore.put_hashed` does."""
    for tree in (trees.weights, trees.first_moment, trees.second_moment):
        keep_tree(store, BlobKind.TENSOR, tree, is_cached=is_cached)


def load_tensor(store: BlobStore, ref: BlobRef) -> Tensor:
    """A flat finite float32 vector from the store, where its bytes stay: it is not to be written to. Raises
    InvalidInput where it is not there, EnvironmentFault where it is damaged."""
    return view_mapped(store.open_map(ref))


@dataclass(frozen=True)
class StoredTensor:
    """A flat finite float32 vector of the store, of which this process holds the pieces that it asks for."""

    mapped: memoryview

    @property
    def elements(self) -> int:
        """How many there are."""
        return len(self.mapped) // 4

    def cut(self, start: int, stop: int) -> Tensor:
        """A copy of elements start .. stop; fewer at the end, as a slice has."""
        piece = torch.empty(max(0, min(stop, self.elements) - start))
        read_piece(self.mapped, 4 * start, tensor_bytes(piece))
        return piece


def open_tensor(store: BlobStore, ref: BlobRef) -> StoredTensor:
    """A vector that is looked at piece by piece. Raises as `load_tensor` does."""
    return StoredTensor(store.open_map(ref))


@dataclass(frozen=True)
class StoredState:
    """A state in the store, of which this process holds the pieces that it asks for: a `PiecewiseState`."""

    header: StateHeader
    tensors: tuple[StoredTensor, ...]
    """W, m, v."""

    @property
    def local_step(self) -> int:
        """Steps since m and v were zero."""
        return self.header.local_step

    @property
    def global_step(self) -> int:
        """Steps in the task."""
        return self.header.global_step

    @property
    def elements(self) -> int:
        """Of each vector."""
        return self.tensors[0].elements

    def cut(self, start: int, stop: int) -> TrainingState:
        """A copy of elements start .. stop of each vector."""
        weights, first, second = (tensor.cut(start, stop) for tensor in self.tensors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)


# --- A trace: its buffers ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class TraceBuffer:
    """A buffer as a trace holds it: so many elements in a tree with leaves of `leaf_bytes`. role: says what
    the elements are, float32, uint32 indices or quantized integers."""

    elements: int
    leaf_bytes: int
    role: Role = Role.TENSOR

    @property
    def size_bytes(self) -> int:
        """Without the padding of the last leaf."""
        return ELEMENT_BYTES[self.role] * self.elements

    @property
    def leaf_count(self) -> int:
        """Leaves of its tree."""
        return -(-self.size_bytes // self.leaf_bytes)


TraceLayout = Sequence[TraceBuffer]
"""All buffers of a program, in order."""


# --- A trace: the claimant --------------------------------------------------------------------------------
def describe_layout(program: Program) -> TraceLayout:
    """The buffers of a program as its traces hold them."""
    return [
        TraceBuffer(buffer.size, leaf_bytes(program, number), buffer.role)
        for number, buffer in enumerate(program.buffers)
    ]


class TraceKeeper:
    """Puts the trace of a step into the store, tensor by tensor in any order; at last the list of roots."""

    def __init__(self, store: BlobStore, layout: TraceLayout, roots: Mapping[int, bytes]) -> None:
        """roots: the roots that are known already, by buffer: of constants, which are the same for every
        node, and of others. Raises EnvironmentFault where the disk does not take the trace."""
        store.require_space(sum(buffer.size_bytes for buffer in layout), "the trace of a step")
        self._store = store
        self._layout = layout
        self._roots = dict(roots)

    def keep(self, number: int, data: bytes | memoryview, levels: Levels) -> None:
        """Keep one tensor: its little-endian elements and all levels of its tree. Raises InvalidInput where
        it does not fit the layout, or its root is not the known one."""
        _require_fit(self._layout, number, data, levels)
        root, buffer = levels[-1][0], self._layout[number]
        if self._roots.setdefault(number, root) != root:
            known = self._roots[number].hex()
            raise _misfit("a tensor of the trace has another root", known, root.hex(), number)
        ref = refer_trace_tensor(root, buffer.size_bytes, buffer.leaf_bytes)
        self._store.put_hashed(ref, data, get_chunk_level(levels, ref.key.kind))
        relax()

    def finish(self) -> bytes:
        """Keep the list of roots; return the trace root. Raises InvalidInput where a buffer has none."""
        roots, count = self._roots, len(self._layout)
        if roots.keys() != set(range(count)):
            missing = next((n for n in range(count) if n not in roots), count)
            raise _misfit("a trace has a root for each buffer", count, len(roots), missing)
        return self._store.put_roots([roots[number] for number in range(count)]).key.root


def load_buffer(store: BlobStore, root: bytes, buffer: TraceBuffer) -> Tensor:
    """A buffer of a kept trace: flat float32, int64 where it holds indices, int8, int16 or int32 where it
    holds quantized values. Raises InvalidInput where it is not in the store, EnvironmentFault where it is
    damaged."""
    mapped = store.open_map(_refer(root, buffer))
    if buffer.role in INDEX_ROLES:
        return torch.from_numpy(np.frombuffer(mapped, dtype="<u4").astype(np.int64))
    return view_mapped(mapped, SHOWN_TYPES.get(buffer.role, torch.float32))


def _require_fit(layout: TraceLayout, number: int, data: bytes | memoryview, levels: Levels) -> None:
    if not 0 <= number < len(layout):
        raise _misfit("the trace has no such buffer", f"a number below {len(layout)}", number, number)
    buffer = layout[number]
    expected = f"{buffer.size_bytes} bytes in {buffer.leaf_count} leaves"
    actual = f"{len(data)} bytes in {len(levels[0])} leaves"
    if actual != expected:
        raise _misfit("a tensor of the trace has another length", expected, actual, number)


def _misfit(what: str, expected: object, actual: object, number: int) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=f"buffer {number}",
        remedy="Take buffers, lengths and constants from the task's program.",
    )


def _refer(root: bytes, buffer: TraceBuffer) -> BlobRef:
    return refer_trace_tensor(root, buffer.size_bytes, buffer.leaf_bytes)


# --- A trace: the challenger ------------------------------------------------------------------------------
@dataclass
class RemoteTrace:
    """The trace of another node, fetched as it is looked at. What was fetched lies in the store, at most
    `limit_bytes` of it (and always the last tensor); what was there before stays. Opened by `open_trace`."""

    store: BlobStore
    client: BlobClient
    peer: Peer
    layout: TraceLayout
    roots: tuple[bytes, ...]
    """Of each buffer, as the contract will take it."""
    listed: tuple[bytes, ...]
    """As they stand under the trace root: what lies beside them there is the claimant's to choose."""
    limit_bytes: int = FETCHED_BYTES
    received_bytes: int = 0
    """Fetched so far."""
    _fetched: OrderedDict[BlobKey, tuple[int, FilePrint]] = field(default_factory=OrderedDict)
    """Bytes, and what was written: by the same name something else of this node may lie there later."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size_bytes(self) -> int:
        """Of all buffers."""
        return sum(buffer.size_bytes for buffer in self.layout)

    def refer(self, buffer: int) -> BlobRef:
        """The blob of a buffer."""
        return _refer(self.roots[buffer], self.layout[buffer])

    async def fetch(self, buffer: int) -> Tensor:
        """A whole buffer, as `load_buffer` gives it; it may hold anything. Raises
        ProtocolFault, naming the claimant, where it delivers anything else, and EnvironmentFault where it
        does not deliver: then its leaves can be demanded on chain."""
        ref = self.refer(buffer)
        async with self._lock:
            if not self.store.has(ref):
                is_own = self.store.take_print(ref.key) is not None and ref.key not in self._fetched
                await self.client.fetch(self.peer, ref)
                self.received_bytes += ref.size_bytes
                found = self.store.take_print(ref.key)
                if found is not None and not is_own:
                    self._fetched[ref.key] = (ref.size_bytes, found)
            if ref.key in self._fetched:
                self._fetched.move_to_end(ref.key)
                self._evict(self.limit_bytes, keep=1)
            return await asyncio.to_thread(load_buffer, self.store, self.roots[buffer], self.layout[buffer])

    async def find_leaf(self, buffer: int, own: ByteTree) -> ClaimedLeaf:
        """The first leaf of a buffer that differs from the own one, proven under the claimant's root. Fetches
        the roots of its chunks and one chunk. Raises as `fetch` does."""
        ref = self.refer(buffer)
        roots = await self.client.fetch_chunk_roots(self.peer, ref)
        mine = get_chunk_level(own.levels, ref.key.kind)
        number = next(n for n, pair in enumerate(zip(roots, mine, strict=True)) if pair[0] != pair[1])
        chunk = await self.client.fetch_chunk(self.peer, ref, number, roots[number])
        self.received_bytes += len(chunk) + ROOT_BYTES * (len(roots) if len(roots) > 1 else 0)
        first = number * ref.key.kind.chunk_leaves
        leaves = range(first, min(first + ref.key.kind.chunk_leaves, self.layout[buffer].leaf_count))
        for index, proof in zip(leaves, open_leaves(ref, roots, chunk, leaves), strict=True):
            if hash_leaf(proof.data) != own.levels[0][index]:
                return ClaimedLeaf(index, proof.data, proof.path)
        raise AssertionError(f"chunk {number} of {ref.key} differs, and none of its leaves does")

    def evict(self) -> None:
        """Remove everything that was fetched; it can be fetched again."""
        self._evict(0, keep=0)

    def _evict(self, limit_bytes: int, keep: int) -> None:
        used = sum(size_bytes for size_bytes, _ in self._fetched.values())
        while used > limit_bytes and len(self._fetched) > keep:
            oldest, (size_bytes, found) = self._fetched.popitem(last=False)
            self.store.delete_unchanged(oldest, found)
            used -= size_bytes


async def open_trace(
    store: BlobStore,
    client: BlobClient,
    peer: Peer,
    trace_root: bytes,
    layout: TraceLayout,
    known: Mapping[int, bytes],
    limit_bytes: int = FETCHED_BYTES,
) -> RemoteTrace:
    """The claimant's trace under the root that it posted, with the list of roots fetched and judged.

    known: roots that no proof takes from the list, whatever stands there: of the state before the step and of
    the constants. Raises as `RemoteTrace.fetch` does."""
    ref = refer_roots(trace_root, len(layout))
    is_here = store.has(ref)
    await client.fetch(peer, ref)
    listed = store.get_roots(trace_root)
    roots = tuple(known.get(number, root) for number, root in enumerate(listed))
    received = 0 if is_here else ROOT_BYTES * len(layout)
    return RemoteTrace(store, client, peer, layout, roots, listed, limit_bytes, received)
