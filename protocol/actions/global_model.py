"""The global model as this node computed it: nobody is believed about an outer step.

Round r starts from W and M of round r-1 merged with the pseudo-gradients of the accepted claims. Each is a
pure function of what is committed on chain, so a node computes it from the bytes, keeps it in its store,
and compares roots. A node that comes late fetches the roots that stand on chain from any peer; the bytes
must hash to them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from protocol.actions.network import Network
from protocol.actions.tensors import load_tensor
from protocol.adapters.blobs import BlobRef, refer_delta, refer_tensor
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.client import BlobClient
from protocol.compute.digest import outer_header, tensor_bytes
from protocol.compute.model import init_parameters
from protocol.compute.outer import OuterState, begin_outer, merge
from protocol.spec.containers import OuterHeader, TaskSpec
from protocol.spec.errors import ProtocolFault
from protocol.spec.round import RoundState, get_included


@dataclass
class GlobalModel:
    """Loads, computes and keeps the outer states of one task. `get_round` reads a round's state as the
    chain tells it; `show_tensor` lets peers have a tensor by its root."""

    spec: TaskSpec
    store: BlobStore
    client: BlobClient
    network: Network
    get_round: Callable[[int], RoundState]
    show_tensor: Callable[[bytes], None]

    async def load(self, header: OuterHeader) -> OuterState:
        """The outer state under these roots: from the store, else from any peer that shows it."""
        if header == self._initial_header():
            return await asyncio.to_thread(self._begin)
        return OuterState(await self._fetch(header.weights_root), await self._fetch(header.momentum_root))

    async def load_weights(self, header: OuterHeader) -> Tensor:
        """W alone of the outer state under these roots; from where `load` has it."""
        if header == self._initial_header():
            return (await asyncio.to_thread(self._begin)).weights
        return await self._fetch(header.weights_root)

    async def load_start(self, index: int) -> OuterState:
        """The outer state that round `index` starts from."""
        return await self.load(get_start(self.get_round(index)))

    async def compute_next(self, index: int) -> tuple[OuterHeader, OuterState]:
        """The outer state after round `index`, from its start and the committed pseudo-gradients; kept
        in the store. Every claim of the round has its final verdict."""
        round_state = self.get_round(index)
        before = await self.load_start(index)
        deltas = [await self._fetch_delta(round_state, slot) for slot in get_included(round_state)]
        terms = self.spec.terms
        after = await asyncio.to_thread(
            merge, before, deltas, terms.outer_learning_rate, terms.outer_momentum
        )
        return await asyncio.to_thread(self._keep, after), after

    async def _fetch_delta(self, round_state: RoundState, slot: int) -> bytes:
        claim = round_state.claims[slot]
        ref = refer_delta(claim.delta_root, self.spec.terms.parameter_count)
        peers = [self.network.find(claim.solver), *self.network.others(claim.solver)]
        await self.client.fetch_from_any(peers, ref)
        return await asyncio.to_thread(self.store.get, ref)

    async def _fetch(self, root: bytes) -> Tensor:
        ref: BlobRef = refer_tensor(root, self.spec.terms.parameter_count)
        if not self.store.has(ref):
            await self.client.fetch_from_any(self.network.others(""), ref)
        return await asyncio.to_thread(load_tensor, self.store, ref)

    def _keep(self, state: OuterState) -> OuterHeader:
        header = outer_header(state.weights, state.momentum)
        self.store.put_tensor(header.weights_root, tensor_bytes(state.weights))
        self.store.put_tensor(header.momentum_root, tensor_bytes(state.momentum))
        self.show_tensor(header.weights_root)
        self.show_tensor(header.momentum_root)
        return header

    def _initial_header(self) -> OuterHeader:
        return OuterHeader(self.spec.terms.initial_weights_root, self.spec.terms.zero_root)

    def _begin(self) -> OuterState:
        state = begin_outer(init_parameters(self.spec.training.model, self.spec.training.initial_seed))
        header = self._keep(state)
        if header != self._initial_header():
            raise ProtocolFault(
                what="the task's initial roots are not those of its seed",
                expected=header.weights_root.hex(),
                actual=self.spec.terms.initial_weights_root.hex(),
                remedy="Do not stake on this task.",
            )
        return state


def get_start(round_state: RoundState) -> OuterHeader:
    """The outer state that a round starts from."""
    return OuterHeader(round_state.weights_root, round_state.momentum_root)
