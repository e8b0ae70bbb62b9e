"""Training states in the store of an auditor: load, keep, look at, fetch."""

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.actions.states import StoredState
from protocol.actions.tensors import load_tensor, open_tensor
from protocol.adapters.blobs import BlobRef, get_chunk_level, refer_state
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.session import Peer
from protocol.compute.digest import build_state_trees
from protocol.compute.room import relax
from protocol.compute.step import TrainingState
from protocol.spec.containers import StateHeader


@dataclass(frozen=True)
class StateShelf:
    """States of one model size in a store."""

    store: BlobStore
    parameter_count: int

    def refer(self, header: StateHeader) -> tuple[BlobRef, BlobRef, BlobRef]:
        """The blobs of a state: W, m, v."""
        return refer_state(header, self.parameter_count)

    def keep(self, state: TrainingState) -> StateHeader:
        """Hash a state, once, and put its tensors into the store. Raises ProtocolFault where one is not
        finite."""
        trees = build_state_trees(state)
        tensors = (trees.weights, trees.first_moment, trees.second_moment)
        for ref, tree in zip(self.refer(trees.header), tensors, strict=True):
            self.store.put_hashed(ref, tree.data, get_chunk_level(tree.levels))
            relax()
        return trees.header

    def load(self, header: StateHeader) -> TrainingState:
        """A state from the store. Raises InvalidInput where a tensor is not there."""
        weights, first, second = (load_tensor(self.store, ref) for ref in self.refer(header))
        return TrainingState(weights, first, second, header.local_step, header.global_step)

    def open(self, header: StateHeader) -> StoredState:
        """A state that is looked at piece by piece. Raises as `load` does."""
        return StoredState(header, tuple(open_tensor(self.store, ref) for ref in self.refer(header)))

    async def fetch(self, client: BlobClient, peers: Sequence[Peer], header: StateHeader) -> None:
        """Have a state in the store, from the first of `peers` that shows each tensor. Raises ProtocolFault
        or EnvironmentFault."""
        for ref in self.refer(header):
            await client.fetch_from_any(peers, ref)
