"""Fetches leaves of a task's dataset when a batch needs them."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from torch import Tensor, stack

from touchstone.node.kit.waiting import telling
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.store.chunk_leaves import RootList
from touchstone.protocol.adapters.store.leaf_runs import list_runs, measure_most, split_requests
from touchstone.protocol.adapters.store.leaf_source import LeafSource, run_apart
from touchstone.protocol.adapters.store.part_store import Outline
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.hedging import HEDGE_BYTES_PER_SECOND, PAUSE_S
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import AnotherCertificate
from touchstone.protocol.compute.batches import OUTSIDE_TOKEN, read_tokens
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.task_spec import TrainingSpec

log = logging.getLogger(__name__)


MOST_PEERS = 64
"""The most peers that are asked for the same leaves, one after the other."""


@dataclass
class DatasetParts:
    """Fetches leaves of a dataset. `list_peers` returns the peers to ask, in order. `get_head` returns the
    chain's head. `kept_blocks` is for how many blocks a leaf stays on this disk after its last use. Use it in
    one event loop only."""

    source: LeafSource
    client: BlobClient
    outline: Outline
    list_peers: Callable[[], Sequence[Peer]]
    get_head: Callable[[], int]
    kept_blocks: int
    notify: Callable[[str], None]
    fetched_bytes: int = 0
    """Bytes of leaves and proofs fetched so far, without chunk roots."""
    _liars: set[str] = field(default_factory=set)
    _asked: str = "nobody"
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, leaves: Iterable[int]) -> dict[int, LeafProof]:
        """Returns leaves by number, each with its path inside its chunk, from this disk or from peers. Raises
        EnvironmentFault if no peer serves one of them after all retries, or the disk is full."""
        wanted = sorted(set(leaves))
        found = await self._read(wanted)
        if len(found) == len(wanted):
            return found
        # One caller at a time: the next one finds what this one has fetched.
        async with self._asking:
            found |= await self._read([leaf for leaf in wanted if leaf not in found])
            had = set(found)
            try:
                if len(found) < len(wanted):
                    async with telling(self.notify, lambda: self._describe(wanted, found)):
                        await self.client.try_often(lambda: self._ask_all(wanted, found))
            finally:
                await self._keep({leaf: proof for leaf, proof in found.items() if leaf not in had})
        return found

    def _describe(self, wanted: Sequence[int], found: dict[int, LeafProof]) -> str:
        return (
            f"waiting for the dataset: {len(found)} of {len(wanted)} leaves that are needed now have come, "
            f"{self.fetched_bytes / 1e6:.1f} MB so far; asked last: {self._asked}"
        )

    async def _keep(self, leaves: dict[int, LeafProof]) -> None:
        """Writes leaves to the disk. Raises EnvironmentFault if the disk refuses, because nothing may be
        computed on leaves that this node could not show in a dispute."""
        if leaves and self.source.parts is not None:
            root, head = self.outline.ref.key.root, self.get_head()
            await run_apart(self.source.parts.put, root, leaves, head + self.kept_blocks, head)

    async def open_leaf(self, leaf: int) -> LeafProof:
        """Returns one leaf with its path to the root of the dataset. Raises as `get` does."""
        proof, ref = (await self.get([leaf]))[leaf], self.outline.ref
        if ref.chunk_count == 1:
            return proof
        return await run_apart(_lengthen, self.outline, leaf, proof)

    async def _read(self, leaves: Sequence[int]) -> dict[int, LeafProof]:
        until = self.get_head() + self.kept_blocks
        return await run_apart(self.source.read, self.outline, leaves, until)

    async def _ask_all(self, wanted: Sequence[int], found: dict[int, LeafProof]) -> None:
        """Asks peers one after the other for the leaves that are still missing. Slow peers are asked once
        more at the end, with more retries."""
        last, slow = "no peer is known that may have it", list[Peer]()
        peers = [peer for peer in self.list_peers() if peer.account not in self._liars][:MOST_PEERS]
        for peer in peers:
            try:
                last = await self._try(peer, wanted, found, is_hasty=len(peers) > 1) or last
            except TimeoutError:
                slow.append(peer)
                last = f"{peer} is slow"
            if len(found) == len(wanted):
                return
        for peer in slow:
            last = await self._try(peer, wanted, found, is_hasty=False) or last
        missing = [leaf for leaf in wanted if leaf not in found]
        if missing:
            raise _unserved(self.outline.ref, missing, len(peers), last)

    async def _try(
        self, peer: Peer, wanted: Sequence[int], found: dict[int, LeafProof], *, is_hasty: bool
    ) -> str:
        """Asks a peer as `_ask` does. Returns why its answer cannot be used; empty if it can."""
        self._asked = str(peer)
        try:
            await self._ask(peer, wanted, found, is_hasty=is_hasty)
        except (AnotherCertificate, EnvironmentFault) as fault:
            return str(fault)
        except ProtocolFault as fault:
            log.warning("%s", fault)
            self._liars.add(peer.account)
            return str(fault)
        return ""

    async def _ask(
        self, peer: Peer, wanted: Sequence[int], found: dict[int, LeafProof], *, is_hasty: bool
    ) -> None:
        ref, roots = self.outline.ref, self.outline.chunk_roots
        for runs in split_requests(list_runs(ref, (leaf for leaf in wanted if leaf not in found))):
            most = measure_most(ref, runs)
            async with asyncio.timeout(PAUSE_S + most / HEDGE_BYTES_PER_SECOND if is_hasty else None):
                leaves = await self.client.fetch_runs(peer, ref, runs, roots)
            found |= leaves
            self.fetched_bytes += measure_most(ref, list_runs(ref, leaves))


def _lengthen(outline: Outline, leaf: int, proof: LeafProof) -> LeafProof:
    """Returns the path from a leaf through its chunk up to the dataset's root."""
    ref, chunk = outline.ref, leaf // outline.ref.key.kind.chunk_leaves
    padding = ZERO_WORD
    for _ in range(ref.key.kind.chunk_depth):
        padding = merkle.hash_node(padding, padding)
    above = merkle.compute_path(merkle.stack_levels(list(outline.chunk_roots), padding), chunk, padding)
    return LeafProof(proof.data, (*proof.path, *above))


def _unserved(ref: BlobRef, missing: Sequence[int], peers: int, last: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="no peer serves a part of the dataset",
        expected=f"{len(missing)} leaves, the first of them leaf {missing[0]}, from one of {peers} peers",
        actual=last,
        where=str(ref.key),
        remedy="The node asks again. If this repeats, tell the submitter: its node has to serve the dataset.",
    )


async def open_outline(
    source: LeafSource, client: BlobClient, ref: BlobRef, peers: Callable[[], Sequence[Peer]]
) -> Outline:
    """Returns the roots of a dataset's chunks, from this disk or from the first peer that serves them. Raises
    EnvironmentFault or ProtocolFault if none does."""
    known = await run_apart(source.find_outline, ref.key)
    if known is not None and known.ref == ref and len(known.chunk_roots) == ref.chunk_count:
        return known
    outline = Outline(ref, (ref.key.root,))
    if ref.chunk_count > 1:
        outline = Outline(ref, RootList(b"".join(await client.fetch_roots_from_any(peers(), ref))))
    if source.parts is not None:
        await run_apart(source.parts.put_outline, outline)
    return outline


@dataclass
class PartedCorpus:
    """Rows of a task's dataset, read from parts; implements `compute.batches.Corpus`. `loop` is the event
    loop in which `parts` is used."""

    parts: DatasetParts
    spec: TrainingSpec
    loop: asyncio.AbstractEventLoop
    notify: Callable[[str], None]
    _is_told: bool = False

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        """Does what `Corpus.prepare` says."""
        await self.parts.get(leaf for start in starts for leaf in self._list_leaves(start, length))

    async def open_leaf(self, leaf: int) -> LeafProof:
        """Does what `Corpus.open_leaf` says."""
        return await self.parts.open_leaf(leaf)

    def read_rows(self, starts: Sequence[int], length: int) -> Tensor:
        """Reads rows as `Corpus.read_rows` says, in any thread but the loop's. It waits for rows that are not
        on this disk."""
        leaves = [leaf for start in starts for leaf in self._list_leaves(start, length)]
        found = self.parts.source.read(self.parts.outline, leaves)
        if any(leaf not in found for leaf in leaves):
            found = asyncio.run_coroutine_threadsafe(self.parts.get(leaves), self.loop).result()
        rows = stack([self._cut(found, start, length) for start in starts])
        self._notify_of_outside(int(rows.max()))
        return rows

    def _list_leaves(self, start: int, length: int) -> range:
        size, leaf = self.spec.token_bytes, self.parts.outline.ref.key.kind.leaf_bytes
        return range(start * size // leaf, ((start + length) * size - 1) // leaf + 1)

    def _cut(self, found: dict[int, LeafProof], start: int, length: int) -> Tensor:
        leaves, size = self._list_leaves(start, length), self.spec.token_bytes
        data = b"".join(found[leaf].data for leaf in leaves)
        first = start * size - leaves.start * self.parts.outline.ref.key.kind.leaf_bytes
        return read_tokens(data[first : first + length * size], size)

    def _notify_of_outside(self, largest: int) -> None:
        """Tells the operator, once, that the submitter's dataset has a token outside the vocabulary. The node
        goes on, because every node and the contract read it as the same valid token."""
        if largest >= self.spec.vocabulary_size and not self._is_told:
            self._is_told = True
            self.notify(
                f"FAULT OF THE TASK: its dataset has the number {largest}, and its vocabulary ends at "
                f"{self.spec.vocabulary_size - 1}. Every node takes such a number for token "
                f"{OUTSIDE_TOKEN}, so no stake is at risk; the model learns less from it."
            )
