"""States between tensors, roots and the store: hash, keep, load, fetch, open leaves."""

import asyncio

from protocol.actions.party import Party
from protocol.actions.tensors import load_tensor
from protocol.adapters.blobs import get_chunk_level, refer_state
from protocol.adapters.wire.session import Peer
from protocol.compute.digest import ByteTree, StateTrees, build_state_trees
from protocol.compute.room import relax
from protocol.compute.step import TrainingState
from protocol.spec.containers import LeafProof, StateHeader, StateLeaves


def keep_state(party: Party, state: TrainingState) -> StateHeader:
    """Hash a state, once, and put its three tensors into the store."""
    trees = build_state_trees(state)
    refs = refer_state(trees.header, party.spec.terms.parameter_count)
    for ref, tree in zip(refs, (trees.weights, trees.first_moment, trees.second_moment), strict=True):
        party.store.put_hashed(ref, tree.data, get_chunk_level(tree.levels))
        relax()
    return trees.header


def has_state(party: Party, header: StateHeader) -> bool:
    """Whether all three tensors of a state are in the store."""
    return all(party.store.has(ref) for ref in refer_state(header, party.spec.terms.parameter_count))


def load_state(party: Party, header: StateHeader) -> TrainingState:
    """A state from the store. Raises InvalidInput where a tensor is not there."""
    count = party.spec.terms.parameter_count
    weights, first, second = (load_tensor(party.store, ref) for ref in refer_state(header, count))
    return TrainingState(weights, first, second, header.local_step, header.global_step)


async def fetch_state(party: Party, peers: list[Peer], header: StateHeader) -> TrainingState:
    """A state from the store or from the first of `peers` that shows it. Raises ProtocolFault or
    EnvironmentFault."""
    for ref in refer_state(header, party.spec.terms.parameter_count):
        await party.client.fetch_from_any(peers, ref)
    return await asyncio.to_thread(load_state, party, header)


def open_state_leaves(trees: StateTrees, indices: list[int]) -> list[StateLeaves]:
    """The same leaves of W, m and v, with their paths."""
    return [
        StateLeaves(
            open_leaf(trees.weights, index),
            open_leaf(trees.first_moment, index),
            open_leaf(trees.second_moment, index),
        )
        for index in indices
    ]


def open_leaf(tree: ByteTree, index: int) -> LeafProof:
    """One leaf with its path."""
    data, path = tree.open_leaf(index)
    return LeafProof(data, tuple(path))
