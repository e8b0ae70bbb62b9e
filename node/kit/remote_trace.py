"""Reads the trace of another node's step, and fetches only what a search looks at."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from touchstone.node.kit.stored_tensors import FETCHED_BYTES
from touchstone.node.kit.trace_storage import TraceLayout, load_buffer, refer_buffer
from touchstone.protocol.adapters.files.unchanged_files import FilePrint
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobKey, BlobRef, refer_roots
from touchstone.protocol.adapters.store.chunk_trees import get_chunk_level, open_leaves
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.bounds.fault_proof import ClaimedLeaf
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.spec.merkle import hash_leaf


@dataclass
class RemoteTrace:
    """The trace of another node, opened by `open_trace`. Parts are fetched when they are needed, and lie in
    the store: at most `limit_bytes` of them, and always the last tensor. Older blobs of the store stay."""

    store: BlobStore
    client: BlobClient
    peer: Peer
    layout: TraceLayout
    roots: tuple[bytes, ...]
    """The root of each buffer, as the contract will take it."""
    listed: tuple[bytes, ...]
    """The roots as the claimant listed them under the trace root. It may list anything there."""
    limit_bytes: int = FETCHED_BYTES
    received_bytes: int = 0
    """Bytes fetched so far."""
    _fetched: OrderedDict[BlobKey, tuple[int, FilePrint]] = field(default_factory=OrderedDict)
    """For each fetched blob, its bytes and what was written, because this node may store something else under
    the same name later."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.size_bytes for buffer in self.layout)

    def refer(self, buffer: int) -> BlobRef:
        """Returns the blob of a buffer."""
        return refer_buffer(self.roots[buffer], self.layout[buffer])

    async def fetch(self, buffer: int) -> Tensor:
        """Returns a whole buffer, as `load_buffer` gives it; its numbers may be anything. Raises
        ProtocolFault, naming the claimant, if it sends something else. Raises EnvironmentFault if it sends
        nothing; then its leaves can be demanded on chain."""
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
        """Returns the first leaf of a buffer that differs from this node's own, with a proof under the
        claimant's root. Fetches the chunk roots and one chunk. Raises as `fetch` does."""
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
        """Removes everything that was fetched. It can be fetched again."""
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
    """Fetches and checks the list of buffer roots, and returns the trace under the root that the claimant
    posted.

    `known` are roots that replace those in the list: of the state before the step and of the constants.
    Raises as `RemoteTrace.fetch` does."""
    ref = refer_roots(trace_root, len(layout))
    is_here = store.has(ref)
    await client.fetch(peer, ref)
    listed = store.get_roots(trace_root)
    roots = tuple(known.get(number, root) for number, root in enumerate(listed))
    received = 0 if is_here else ROOT_BYTES * len(layout)
    return RemoteTrace(store, client, peer, layout, roots, listed, limit_bytes, received)
