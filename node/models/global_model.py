"""What nodes of this room ask each other, and the global model, which each node computes itself.

The questions are signed requests with a small JSON body:

/outer   what stands behind an outer root          checked by its hash
/work    the work leaf of a claim, with its path   checked against the claim's root
/merge   a merge signature over these claims       checked against the seat's account

A node believes no other node about an outer step. Round r starts from W and M of the round before it, merged
with the pseudo-gradients of the merged claims. Each is a pure function of what the chain has, so a node
computes it from the bytes, keeps it in its store, and compares roots. A node that comes late asks any peer
what stands behind an outer root: the answer must hash to it.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated, TypeVar

from msgspec import Meta
from torch import Tensor

from touchstone.node.joining.start_weights import load_start
from touchstone.node.kit.party import Party
from touchstone.node.kit.peers import list_peers
from touchstone.node.kit.stored_tensors import keep_tree, load_tensor
from touchstone.node.kit.view import View
from touchstone.protocol.adapters.messages import Count, Form, Message, Signature, Word
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
"""Names of the handlers."""
MAX_BYTES = 16 * 1024
CLAIMS_MAX = 64

ClaimRoots = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
ClaimSlots = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=CLAIMS_MAX)]
Answer = TypeVar("Answer")


class AskOuter(Message, frozen=True):
    """What stands behind this outer root of the task?"""

    task: Word
    root: Word


class OuterAnswer(Message, frozen=True):
    """The roots of the global model and of the outer momentum."""

    weights_root: Word
    momentum_root: Word


class AskWork(Message, frozen=True):
    """What does the work leaf of this claim say? The answer is `WorkSaid`, as an auditor gets it."""

    task: Word
    round: Count
    slot: Count
    claim_root: Word


class AskMerge(Message, frozen=True):
    """Please sign that merging the claims of these slots, in shard order, into the base root gives `root`."""

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
    """How a message of this kind is read."""
    return Form(kind, MAX_BYTES, f"the message {kind.__name__} is malformed")


def read_message(kind: type[Answer], body: bytes, culprit: str) -> Answer:
    """A stranger's message. Raises ProtocolFault for anything else."""
    return make_form(kind).decode(body, culprit)


async def ask_peer(party: Party, peer: Peer, handler: str, question: Message, kind: type[Answer]) -> Answer:
    """What a peer answers. Raises ProtocolFault for what no honest node says, EnvironmentFault where it does
    not answer now."""
    return await party.client.ask(peer, handler, question, make_form(kind))


def get_initial_header(view: View) -> OuterHeader:
    """What stands behind the root that the task begins with."""
    terms = view.spec.terms
    return OuterHeader(terms.initial_weights_root, terms.zero_root)


async def load_outer(party: Party, root: bytes) -> OuterHeader:
    """What stands behind an outer root: known, or from the first peer that knows it. Raises EnvironmentFault
    or ProtocolFault where no peer tells it."""
    initial, known = get_initial_header(party.view), party.task.claims.outer
    if root == compute_outer_root(initial):
        return initial
    if root not in known:
        known[root] = await _ask_all(party, root)
    return known[root]


async def _ask_all(party: Party, root: bytes) -> OuterHeader:
    peers = list_peers(party, party.task.task)
    if not peers:
        raise _make_unknown(root)
    return await ask_in_turn(
        [partial(ask_outer, party.client, party.task.task, root, peer) for peer in peers]
    )


async def ask_outer(client: BlobClient, task: bytes, root: bytes, peer: Peer) -> OuterHeader:
    """What a peer says stands behind an outer root. Raises ProtocolFault where that does not hash to it, and
    EnvironmentFault where the peer does not answer now."""
    said = await client.ask(peer, OUTER, AskOuter(task, root), make_form(OuterAnswer))
    header = OuterHeader(said.weights_root, said.momentum_root)
    if compute_outer_root(header) != root:
        raise ProtocolFault(
            what="two roots are not those of the outer root",
            expected=root.hex(),
            actual=compute_outer_root(header).hex(),
            culprit=peer.account,
            remedy="Ask another peer.",
        )
    return header


async def answer_outer(party: Party, account: str, body: bytes) -> OuterAnswer:
    """What stands behind an outer root that this node computed or fetched."""
    asked = read_message(AskOuter, body, account)
    if party.joined is None or asked.task != party.task.task or asked.root not in party.task.claims.outer:
        raise _make_unknown(asked.root)
    header = party.task.claims.outer[asked.root]
    return OuterAnswer(header.weights_root, header.momentum_root)


async def load_weights(party: Party, header: OuterHeader) -> Tensor:
    """W of the outer state under these roots: from the store, else from any peer that shows it."""
    if header == get_initial_header(party.view):
        return (await _begin(party)).weights
    return await _load(party, header.weights_root)


async def load_outer_state(party: Party, header: OuterHeader) -> OuterState:
    """W and M under these roots; from where `load_weights` has them."""
    if header == get_initial_header(party.view):
        return await _begin(party)
    return OuterState(await _load(party, header.weights_root), await _load(party, header.momentum_root))


async def _load(party: Party, root: bytes) -> Tensor:
    ref = refer_tensor(root, party.task.spec.terms.parameter_count)
    if not party.store.has(ref):
        await party.client.fetch_from_any(list_peers(party, party.task.task), ref)
    return await asyncio.to_thread(load_tensor, party.store, ref)


def keep_outer(party: Party, state: OuterState) -> OuterHeader:
    """Hash an outer state, once, and put it into the store. Raises ProtocolFault where it is not finite."""
    trees = [build_tensor_tree(flat) for flat in (state.weights, state.momentum)]
    for tree in trees:
        keep_tree(party.store, BlobKind.TENSOR, tree)
    return OuterHeader(trees[0].root, trees[1].root)


async def _begin(party: Party) -> OuterState:
    """The state before any training, its weights made from the seed or fetched: once, unless the store has
    lost it. Raises as `load_start` does."""
    header, book = get_initial_header(party.view), party.task.claims
    if book.begun == header:
        with suppress(InvalidInput, EnvironmentFault):
            return await asyncio.to_thread(_load_kept, party, header)
    state = begin_outer(await load_start(party, party.task.task, party.task.spec))
    await asyncio.to_thread(party.store.put_tensor, header.momentum_root, tensor_bytes(state.momentum))
    book.begun = header
    return state


def _load_kept(party: Party, header: OuterHeader) -> OuterState:
    """Raises as `load_tensor` does."""
    count = party.task.spec.terms.parameter_count
    roots = (header.weights_root, header.momentum_root)
    return OuterState(*(load_tensor(party.store, refer_tensor(root, count)) for root in roots))


def _make_unknown(root: bytes) -> EnvironmentFault:
    return EnvironmentFault(
        what="no peer here knows what stands behind an outer root",
        expected=f"the two roots under {root.hex()}",
        actual="none",
        remedy="Ask a peer that merged the round.",
    )
