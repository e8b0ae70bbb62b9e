"""Moves training states between tensors, roots and the store: keeps, loads, fetches and opens them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from touchstone.node.kit.stored_tensors import StoredState, keep_state_trees, load_tensor, open_tensor
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobRef, refer_state
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.digest import StateTrees, build_state_trees
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.openings import StateLeaves
from touchstone.protocol.spec.state_headers import StateHeader


@dataclass(frozen=True)
class StateStore:
    """States of one model size in a store."""

    store: BlobStore
    parameter_count: int

    def refer(self, header: StateHeader) -> tuple[BlobRef, BlobRef, BlobRef]:
        """Returns the references of a state's blobs: W, m, v."""
        return refer_state(header, self.parameter_count)

    def has(self, header: StateHeader) -> bool:
        """Returns whether all three tensors of a state are in the store."""
        return all(map(self.store.has, self.refer(header)))

    def has_blob(self, ref: BlobRef) -> bool:
        """Returns whether a blob is in the store."""
        return self.store.has(ref)

    def get_size_bytes(self, key: BlobKey) -> int | None:
        """Returns the length of a blob in bytes; None if it is not in the store."""
        return self.store.get_size_bytes(key)

    def keep(self, state: TrainingState, *, is_cached: bool = True) -> StateHeader:
        """Copies a state to this machine's main memory, hashes it once, and puts its three tensors into the
        store. `is_cached` is passed to `fill_file`. Raises ProtocolFault if a tensor is not finite."""
        trees = build_state_trees(state.bring_home())
        self.put(trees, is_cached=is_cached)
        return trees.header

    def put(self, trees: StateTrees, *, is_cached: bool = True) -> None:
        """Puts the tensors of a hashed state into the store."""
        keep_state_trees(self.store, trees, is_cached=is_cached)

    def load(self, header: StateHeader) -> TrainingState:
        """Returns a state from the store. Raises InvalidInput if a tensor is missing."""
        weights, first, second = (load_tensor(self.store, ref) for ref in self.refer(header))
        return TrainingState(weights, first, second, header.local_step, header.global_step)

    def open(self, header: StateHeader) -> StoredState:
        """Opens a state to read it piece by piece. Raises as `load` does."""
        return StoredState(header, tuple(open_tensor(self.store, ref) for ref in self.refer(header)))

    def open_leaves(self, header: StateHeader, indices: Sequence[int]) -> list[StateLeaves]:
        """Opens the same leaves of W, m and v of a state, with their paths. Raises as
        `BlobStore.open_leaves` does."""
        proofs = [self.store.open_leaves(ref, indices) for ref in self.refer(header)]
        return [StateLeaves(*of_one_index) for of_one_index in zip(*proofs, strict=True)]

    async def fetch(self, client: BlobClient, peers: Sequence[Peer], header: StateHeader) -> None:
        """Fetches the missing tensors of a state into the store, each from the first of `peers` that has it.
        Raises ProtocolFault or EnvironmentFault."""
        for ref in self.refer(header):
            await client.fetch_from_any(peers, ref)

    async def fetch_and_load(
        self, client: BlobClient, peers: Sequence[Peer], header: StateHeader
    ) -> TrainingState:
        """Returns a state from the store, or from the first of `peers` that serves it. Raises as `fetch`
        does."""
        await self.fetch(client, peers, header)
        return await asyncio.to_thread(self.load, header)
