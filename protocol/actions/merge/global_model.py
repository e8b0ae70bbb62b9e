"""The global model as this node computed it: nobody is believed about an outer step.

Round r starts from W and M of the round before it merged with the pseudo-gradients of the merged claims. Each
is a pure function of what the chain has, so a node computes it from the bytes, keeps it in its store, and
compares roots. A node that comes late asks any peer what stands behind an outer root: the answer must hash to
it.
"""

import asyncio
from functools import partial

from torch import Tensor

from protocol.actions.merge.messages import OUTER, AskOuter, OuterAnswer, ask_peer, read_message
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.peers import list_peers
from protocol.actions.tensors import load_tensor
from protocol.adapters.blobs import refer_tensor
from protocol.adapters.wire.hedging import ask_in_turn
from protocol.adapters.wire.session import Peer
from protocol.compute.digest import outer_header, tensor_bytes
from protocol.compute.model import init_parameters
from protocol.compute.outer import OuterState, begin_outer
from protocol.spec.codec import compute_outer_root
from protocol.spec.containers import OuterHeader
from protocol.spec.errors import EnvironmentFault, ProtocolFault


def get_initial_header(party: Party) -> OuterHeader:
    """What stands behind the root that the task begins with."""
    terms = party.task.spec.terms
    return OuterHeader(terms.initial_weights_root, terms.zero_root)


async def load_outer(party: Party, root: bytes) -> OuterHeader:
    """What stands behind an outer root: known, or from the first peer that knows it. Raises EnvironmentFault
    or ProtocolFault where nobody says it."""
    initial, known = get_initial_header(party), party.task.claims.outer
    if root == compute_outer_root(initial):
        return initial
    if root not in known:
        known[root] = await _ask_all(party, root)
    return known[root]


async def _ask_all(party: Party, root: bytes) -> OuterHeader:
    async def ask(peer: Peer) -> OuterHeader:
        said = await ask_peer(party, peer, OUTER, AskOuter(party.task.task, root), OuterAnswer)
        return _check(root, said, peer.account)

    peers = list_peers(party, party.task.task)
    if not peers:
        raise _make_unknown(root)
    return await ask_in_turn([partial(ask, peer) for peer in peers])


def _check(root: bytes, said: OuterAnswer, culprit: str) -> OuterHeader:
    header = OuterHeader(said.weights_root, said.momentum_root)
    if compute_outer_root(header) != root:
        raise ProtocolFault(
            what="two roots are not those of the outer root",
            expected=root.hex(),
            actual=compute_outer_root(header).hex(),
            culprit=culprit,
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
    if header == get_initial_header(party):
        return (await asyncio.to_thread(_begin, party)).weights
    return await _load(party, header.weights_root)


async def load_outer_state(party: Party, header: OuterHeader) -> OuterState:
    """W and M under these roots; from where `load_weights` has them."""
    if header == get_initial_header(party):
        return await asyncio.to_thread(_begin, party)
    return OuterState(await _load(party, header.weights_root), await _load(party, header.momentum_root))


async def _load(party: Party, root: bytes) -> Tensor:
    ref = refer_tensor(root, party.task.spec.terms.parameter_count)
    if not party.store.has(ref):
        await party.client.fetch_from_any(list_peers(party, party.task.task), ref)
    return await asyncio.to_thread(load_tensor, party.store, ref)


def keep_outer(party: Party, state: OuterState) -> OuterHeader:
    """An outer state in the store, by its roots."""
    header = outer_header(state.weights, state.momentum)
    party.store.put_tensor(header.weights_root, tensor_bytes(state.weights))
    party.store.put_tensor(header.momentum_root, tensor_bytes(state.momentum))
    return header


def _begin(party: Party) -> OuterState:
    """The state before the first round, made from the task's seed. Raises ProtocolFault where the task names
    other roots."""
    training = party.task.spec.training
    state = begin_outer(init_parameters(training.model, training.initial_seed))
    header, expected = keep_outer(party, state), get_initial_header(party)
    if header != expected:
        raise ProtocolFault(
            what="the task's initial roots are not those of its seed",
            expected=expected.weights_root.hex(),
            actual=header.weights_root.hex(),
            remedy="Do not stake on this task.",
        )
    return state


def _make_unknown(root: bytes) -> EnvironmentFault:
    return EnvironmentFault(
        what="nobody here knows what stands behind an outer root",
        expected=f"the two roots under {root.hex()}",
        actual="none",
        remedy="Ask a peer that merged the round.",
    )
