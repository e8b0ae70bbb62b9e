"""Computes the global model, and defines what nodes ask each other about models and merges.

The questions are signed requests with a small JSON body:

/outer   the outer header of an outer root         checked by its hash
/work    the work leaf of a claim, with its path   checked against the claim's root
/merge   a merge signature over these claims       checked against the seat's account

A node believes no other node about an outer step. Round r starts from W and M of the round before, merged
with the pseudo-gradients of the merged claims. The chain fixes all of these, so each node computes the result
itself, keeps it in its store, and compares roots. A node that comes late asks any peer for the outer header
of an outer root, and checks that its hash is that root.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

from msgspec import Meta
from torch import Tensor

from touchstone.node.kit.peers import Peers
from touchstone.node.kit.stored_tensors import keep_tree, load_tensor
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.start_weights import StartWeights
from touchstone.node.records.claim_records import ClaimBook
from touchstone.protocol.adapters.messages import ClaimPath, Count, Form, Message, Signature, Word
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind, refer_tensor
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.hedging import ask_in_turn
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.digest import build_tensor_tree, tensor_bytes
from touchstone.protocol.compute.outer.nesterov_step import OuterState, begin_outer
from touchstone.protocol.spec.commitments import compute_outer_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.state_headers import OuterHeader

OUTER, WORK, MERGE = "outer", "work", "merge"
"""The names of the request handlers."""
MAX_BYTES = 16 * 1024
CLAIMS_MAX = 64

ClaimRoots = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
ClaimSlots = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
Answer = TypeVar("Answer")


class AskOuter(Message, frozen=True):
    """Asks for the two roots that an outer root of the task is the hash of."""

    task: Word
    root: Word


class OuterAnswer(Message, frozen=True):
    """The roots of the global model and of the outer momentum."""

    weights_root: Word
    momentum_root: Word


class AskWork(Message, frozen=True):
    """Asks for the work leaf of a claim. The answer is `WorkSaid`, the same that auditors get."""

    task: Word
    round: Count
    slot: Count
    claim_root: Word


class WorkSaid(Message, frozen=True):
    """The work leaf of a claim, with its path in the claim's tree."""

    delta_root: Word
    carried_root: Word
    path: ClaimPath


class AskMerge(Message, frozen=True):
    """Asks for a signature of this statement: merging the claims of these slots, in shard order, into the
    base root gives `root`."""

    task: Word
    round: Count
    base_root: Word
    slots: ClaimSlots
    claim_roots: ClaimRoots
    root: Word


class MergeAnswer(Message, frozen=True):
    """The signature of a `MergeSignature`."""

    signature: Signature


def make_form(kind: type[Answer]) -> Form[Answer]:
    """Returns the parser of a message of this kind."""
    return Form(kind, MAX_BYTES, f"the message {kind.__name__} is malformed")


def read_message(kind: type[Answer], body: bytes, culprit: str) -> Answer:
    """Returns a stranger's message, parsed. Raises ProtocolFault if it is malformed."""
    return make_form(kind).decode(body, culprit)


def get_initial_header(view: View) -> OuterHeader:
    """Returns the outer header of the root that the task begins with."""
    terms = view.spec.terms
    return OuterHeader(terms.initial_weights_root, terms.zero_root)


@dataclass(frozen=True)
class GlobalModel:
    """Finds the global models of outer roots: known, computed, or fetched from peers."""

    get_view: GetView
    store: BlobStore
    client: BlobClient
    peers: Peers
    claims: ClaimBook
    start: StartWeights

    async def load_outer(self, root: bytes) -> OuterHeader:
        """Returns the outer header of an outer root: known, or from the first peer that knows it. Raises
        EnvironmentFault or ProtocolFault if no peer does."""
        initial, known = get_initial_header(self.get_view()), self.claims.outer
        if root == compute_outer_root(initial):
            return initial
        if root not in known:
            known[root] = await self._ask_all(root)
        return known[root]

    async def _ask_all(self, root: bytes) -> OuterHeader:
        peers = self.peers.list()
        if not peers:
            raise _make_unknown(root)
        return await ask_in_turn(
            [partial(ask_outer, self.client, self.get_view().task, root, peer) for peer in peers]
        )

    async def answer_outer(self, account: str, body: bytes) -> OuterAnswer:
        """Returns the outer header of an outer root, if this node computed or fetched it."""
        asked = read_message(AskOuter, body, account)
        if asked.task != self.get_view().task or asked.root not in self.claims.outer:
            raise _make_unknown(asked.root)
        header = self.claims.outer[asked.root]
        return OuterAnswer(header.weights_root, header.momentum_root)

    async def load_weights(self, header: OuterHeader) -> Tensor:
        """Returns W of an outer state, from the store or from any peer that serves it."""
        if header == get_initial_header(self.get_view()):
            return (await self._begin()).weights
        return await self._load(header.weights_root)

    async def load_outer_state(self, header: OuterHeader) -> OuterState:
        """Returns W and M of an outer state, from the store or from any peer that serves them."""
        if header == get_initial_header(self.get_view()):
            return await self._begin()
        return OuterState(await self._load(header.weights_root), await self._load(header.momentum_root))

    async def _load(self, root: bytes) -> Tensor:
        ref = refer_tensor(root, self.get_view().spec.terms.parameter_count)
        if not self.store.has(ref):
            await self.peers.fetch(ref)
        return await asyncio.to_thread(load_tensor, self.store, ref)

    def keep_outer(self, state: OuterState) -> OuterHeader:
        """Hashes an outer state, once, and puts it into the store. Raises ProtocolFault if it is not
        finite."""
        trees = [build_tensor_tree(flat) for flat in (state.weights, state.momentum)]
        for tree in trees:
            keep_tree(self.store, BlobKind.TENSOR, tree)
        return OuterHeader(trees[0].root, trees[1].root)

    async def _begin(self) -> OuterState:
        """Returns the state before any training, with weights made from the seed or fetched. It does this
        once, unless the store has lost it. Raises as `StartWeights.load` does."""
        header, book = get_initial_header(self.get_view()), self.claims
        if book.begun == header:
            with suppress(InvalidInput, EnvironmentFault):
                return await asyncio.to_thread(self._load_kept, header)
        state = begin_outer(await self.start.load(self.get_view().spec))
        await asyncio.to_thread(self.store.put_tensor, header.momentum_root, tensor_bytes(state.momentum))
        book.begun = header
        return state

    def _load_kept(self, header: OuterHeader) -> OuterState:
        """Loads a tensor from the store. Raises as `load_tensor` does."""
        count = self.get_view().spec.terms.parameter_count
        roots = (header.weights_root, header.momentum_root)
        return OuterState(*(load_tensor(self.store, refer_tensor(root, count)) for root in roots))


async def ask_outer(client: BlobClient, task: bytes, root: bytes, peer: Peer) -> OuterHeader:
    """Returns the outer header of an outer root, as a peer tells it. Raises ProtocolFault if its hash is
    another root, EnvironmentFault if the peer does not answer now."""
    said = await client.ask(peer, OUTER, AskOuter(task, root), make_form(OuterAnswer))
    header = OuterHeader(said.weights_root, said.momentum_root)
    if compute_outer_root(header) != root:
        raise ProtocolFault(
            what="two roots do not hash to the outer root",
            expected=root.hex(),
            actual=compute_outer_root(header).hex(),
            culprit=peer.account,
            remedy="Ask another peer.",
        )
    return header


def _make_unknown(root: bytes) -> EnvironmentFault:
    return EnvironmentFault(
        what="no peer has the data of an outer root",
        expected=f"the two roots under {root.hex()}",
        actual="none",
        remedy="Ask a peer that merged the round.",
    )
