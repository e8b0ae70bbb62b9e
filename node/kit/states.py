"""Training states between tensors, roots and the store: kept, loaded, fetched, opened leaf by leaf."""

import asyncio
from collections.abc import Sequence

from touchstone.node.kit.party import Party
from touchstone.node.kit.stored_tensors import StoredState, keep_state_trees, load_tensor, open_tensor
from touchstone.protocol.adapters.store.blobs import refer_state
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.digest import build_state_trees
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.openings import StateLeaves
from touchstone.protocol.spec.state_headers import StateHeader


def keep_state(party: Party, state: TrainingState, *, is_cached: bool = True) -> StateHeader:
    """Hash a state, once, and put its three tensors into the store; first it is brought home. is_cached:
    as for `fill_file`."""
    trees = build_state_trees(state.bring_home())
    keep_state_trees(party.store, trees, is_cached=is_cached)
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
