"""States between tensors, roots and the store: hash, keep, load, fetch, open leaves."""

import asyncio
from collections.abc import Sequence

from protocol.actions.runtime.party import Party
from protocol.actions.stored_tensors import StoredState, keep_tree, load_tensor, open_tensor
from protocol.adapters.blobs import BlobKind, refer_state
from protocol.adapters.wire.session import Peer
from protocol.compute.digest import build_state_trees
from protocol.compute.program.step import TrainingState
from protocol.spec.containers import StateHeader, StateLeaves


def keep_state(party: Party, state: TrainingState) -> StateHeader:
    """Hash a state, once, and put its three tensors into the store; first it is brought home."""
    trees = build_state_trees(state.bring_home())
    for tree in (trees.weights, trees.first_moment, trees.second_moment):
        keep_tree(party.store, BlobKind.TENSOR, tree)
    return trees.header


def has_state(party: Party, header: StateHeader) -> bool:
    """Whether all three tensors of a state are in the store."""
    count = party.task.spec.terms.parameter_count
    return all(party.store.has(ref) for ref in refer_state(header, count))


def load_state(party: Party, header: StateHeader) -> TrainingState:
    """A state from the store. Raises InvalidInput where a tensor is not there."""
    count = party.task.spec.terms.parameter_count
    weights, first, second = (load_tensor(party.store, ref) for ref in refer_state(header, count))
    return TrainingState(weights, first, second, header.local_step, header.global_step)


def open_state(party: Party, header: StateHeader) -> StoredState:
    """A state of the store that is looked at piece by piece. Raises as `load_state` does."""
    refs = refer_state(header, party.task.spec.terms.parameter_count)
    return StoredState(header, tuple(open_tensor(party.store, ref) for ref in refs))


async def fetch_state(party: Party, peers: list[Peer], header: StateHeader) -> TrainingState:
    """A state from the store or from the first of `peers` that shows it. Raises as `fetch_tensors` does."""
    await fetch_tensors(party, peers, header)
    return await asyncio.to_thread(load_state, party, header)


async def fetch_tensors(party: Party, peers: list[Peer], header: StateHeader) -> None:
    """Have the tensors of a state in the store, from the first of `peers` that shows each where it is not.
    Raises ProtocolFault or EnvironmentFault."""
    for ref in refer_state(header, party.task.spec.terms.parameter_count):
        await party.client.fetch_from_any(peers, ref)


def open_state_leaves(party: Party, header: StateHeader, indices: Sequence[int]) -> list[StateLeaves]:
    """The same leaves of W, m and v of a state in the store, with their paths. Raises as
    `BlobStore.open_leaves` does."""
    refs = refer_state(header, party.task.spec.terms.parameter_count)
    proofs = [party.store.open_leaves(ref, indices) for ref in refs]
    return [StateLeaves(*of_one_index) for of_one_index in zip(*proofs, strict=True)]
