"""Opens the dataset of a task: whole, or in parts that come with their proofs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from touchstone.node.joining.seat_taking import DISPUTE_MOVES
from touchstone.node.joining.task_inputs import DatasetParts, PartedCorpus, open_outline
from touchstone.node.joining.task_reading import refer_dataset
from touchstone.node.joining.task_step import sort_peers
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Notify
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.waiting import telling, telling_bytes
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.store.leaf_source import LeafSource
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.task_spec import TaskSpec


@dataclass(frozen=True)
class DatasetSource:
    """Opens the dataset of a task that this node joins. `is_whole` says that the operator wants all of it on
    the disk."""

    store: BlobStore
    parts: PartStore | None
    peers: Peers
    notify: Notify
    is_whole: bool

    async def open(self, spec: TaskSpec) -> PartedCorpus:
        """Returns the dataset of a task. Later this node fetches the parts that its samples need. If the
        configuration says `whole_dataset` and the account has no seat yet, it fetches everything now. With a
        seat it does not wait for slow peers, because it has disputes to answer. Raises ProtocolFault or
        EnvironmentFault if nobody serves the outline, InvalidInput if there is no peer."""
        game = self.peers.chain_state.games[self.peers.task]
        ref, source = refer_dataset(spec.training), LeafSource(self.store, self.parts)
        if self.is_whole and not has_duties(game, self.peers.account):
            await self.fetch_whole(spec)
        elif self.is_whole and not self.store.has(ref):
            self.notify(
                "WARNING: not all of the dataset is here. The node has a seat or a bond, so it goes on."
            )
        peers = partial(self.peers.list, first=spec.terms.submitter)
        async with telling(
            self.notify, lambda: f"waiting for the outline of the dataset from {len(peers())} peers"
        ):
            outline = await open_outline(source, self.peers.client, ref, peers)
        kept = count_kept_blocks(game.terms)
        parts = DatasetParts(
            source,
            self.peers.client,
            outline,
            peers,
            lambda: self.peers.chain_state.head_block,
            kept,
            self.notify,
        )
        return PartedCorpus(parts, spec.training, asyncio.get_running_loop(), self.notify)

    async def fetch_whole(self, spec: TaskSpec) -> BlobRef:
        """Fetches the whole dataset into the store, from the submitter or any other peer that has it."""
        submitter, ref = spec.terms.submitter, refer_dataset(spec.training)
        if not self.store.has(ref):
            async with telling_bytes(self.peers.client, self.notify, ref, "the dataset"):
                await self.peers.fetch(ref, first=submitter)
        return ref

    async def fetch(self, spec: TaskSpec) -> bytes:
        """Returns all raw tokens in memory."""
        return await asyncio.to_thread(self.store.get, await self.fetch_whole(spec))


async def open_data(
    client: BlobClient,
    store: BlobStore,
    state: ChainState,
    task: bytes,
    spec: TaskSpec,
    notify: Callable[[str], None],
) -> PartedCorpus:
    """Returns the dataset of a task for an account that does not join it. Parts are fetched from the task's
    nodes when they are read, and not kept. `notify` shows the operator a fault of the dataset. Raises
    EnvironmentFault if no node serves it."""
    peers, source = partial(sort_peers, state, task, spec), LeafSource(store)
    outline = await open_outline(source, client, refer_dataset(spec.training), peers)
    parts = DatasetParts(source, client, outline, peers, lambda: state.head_block, 0, notify)
    return PartedCorpus(parts, spec.training, asyncio.get_running_loop(), notify)


def count_kept_blocks(terms: GameTerms) -> int:
    """Returns for how many blocks a leaf may still be needed. It is needed until the round takes no more
    commitments, then while a statement about it can be disputed or queried, and until that dispute or query
    has ended."""
    w = terms.windows
    return w.train_max + 2 * w.dispute + 3 * w.audit_max + w.query + w.post + DISPUTE_MOVES * w.respond
