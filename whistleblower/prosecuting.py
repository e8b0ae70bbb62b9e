"""Plays the opener's part of a dispute: finds the fault in a trace, proves it, or demands leaves.

A proof shows an operation beyond its bound, or an input that is not the task's. If the claimant does not
serve some data, the opener demands it on chain.

The claimant answers only for its own statement, so a step is computed from the state that the claimant says
it started from. If a claimant posted a trace that it does not have, it cannot show the demanded leaves, and
its silence convicts it.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random, SystemRandom
from typing import Any, TypeVar

from torch import Tensor

from touchstone.node.kit.config import Notify
from touchstone.node.kit.known_statements import get_now
from touchstone.node.kit.remote_trace import RemoteTrace, open_trace
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.trace_storage import TraceLayout, describe_layout
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.round_seats import get_shards
from touchstone.node.training.segments import Segments
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.bounds.fault_proof import (
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
)
from touchstone.protocol.compute.bounds.step_openings import prove_node
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.step_facts import compute_step_facts
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.tolerance_choice import get_tolerance
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.inner_dispute import (
    LEAVES_MAX,
    DemandedLeaf,
    DisputeStage,
    InnerDispute,
    PostedTrace,
)
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import LEAF_BYTES
from touchstone.protocol.spec.program import INPUTS, Program, Role, get_constant_roots
from touchstone.protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from touchstone.protocol.spec.shard_draws import draw_sample_start
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.whistleblower.claimant_waiting import BlocksLeft, get_half_time, start_waiting, wait_for
from touchstone.whistleblower.step_judging import find_start, format_name


def list_demands(
    program: Program, layout: TraceLayout, withheld: int | None, chance: Random | None = None
) -> list[DemandedLeaf]:
    """Lists at most LEAVES_MAX leaves to demand. `withheld` is the buffer that the claimant does not serve.
    If it is None, one leaf is drawn from the outputs of some nodes, always including the last node.

    A claimant without this buffer can show none of the leaves. They are random, so it cannot prepare only
    those. The last leaf is always demanded: a buffer with extra bytes behind its last element can be served
    to nobody, although no element is false."""
    chance = chance or SystemRandom()
    if withheld is None:
        numbers = range(len(program.nodes) - 1)
        drawn = chance.sample(numbers, min(LEAVES_MAX - 1, len(numbers)))
        nodes = sorted([*drawn, len(program.nodes) - 1])
        return [_draw_leaf(program, layout, node, 0, chance) for node in nodes]
    node, place = next(_list_places(program, withheld))
    last = layout[withheld].leaf_count - 1
    leaves = [*sorted(chance.sample(range(last), min(LEAVES_MAX - 1, last))), last]
    return [DemandedLeaf(node, place, leaf) for leaf in leaves]


def _list_places(program: Program, buffer: int) -> Iterator[tuple[int, int]]:
    """Yields each node that touches a buffer, with the place of the buffer in it: 0 is the output, 1 and up
    are operands."""
    for number, node in enumerate(program.nodes):
        for place, access in enumerate((node.output, *node.operands)):
            if access.buffer == buffer and program.buffers[buffer].role is not Role.CONSTANT:
                yield number, place


def _draw_leaf(program: Program, layout: TraceLayout, node: int, place: int, chance: Random) -> DemandedLeaf:
    buffer = (program.nodes[node].output, *program.nodes[node].operands)[place].buffer
    return DemandedLeaf(node, place, chance.randrange(layout[buffer].leaf_count))


CUT_SHARE = 4
"""The search in layers may wait for its tensors a quarter of the time at most. If the claimant shows them
slowly, the rest of the time is left for the search in order, which does not need them."""


LABELS, SCALARS = (INPUTS.index(role) for role in (Role.LABELS, Role.SCALARS))
"""The numbers of these two buffers, the same in every program."""


def open_scalars(view: View, start: StateHeader, which: int) -> LeafProof:
    """Returns the leaf with a scalar of the step: the learning rate (by the global step) or a bias correction
    (by the local step)."""
    leaves = compute_scalar_leaves(view.spec)
    place = start.local_step if which else start.global_step
    return LeafProof(leaves[place], tuple(compute_path(compute_scalar_levels(leaves), place)))


@dataclass(frozen=True)
class Withheld:
    """Data that the claimant does not serve: a buffer of the trace, or None for the list of buffer roots.
    `fault` says how this was noticed."""

    buffer: int | None
    fault: Exception


Fetched = TypeVar("Fetched")


Found = OperationFault | InputFault | Withheld | None


@dataclass(frozen=True)
class Prosecuting:
    """Makes the opener's moves after a step is named: finds the fault, proves it, or demands leaves."""

    get_view: GetView
    store: BlobStore
    client: BlobClient
    states: StateStore
    chain: GameChain
    cases: DisputeRecords
    corpus: Corpus
    notify: Notify
    segments: Segments

    async def prove_operation(self, dispute: InnerDispute, start: StateHeader, fault: OperationFault) -> None:
        """Makes the referee compute the wrong element."""
        facts = await asyncio.to_thread(compute_step_facts, self.get_view().spec)
        proof = (fault.node, fault.element, fault.openings)
        await self.chain.game.prove_operation(self.get_view().task, dispute.name, facts, start, *proof)

    async def prove_input(self, dispute: InnerDispute, start: StateHeader, fault: InputFault) -> None:
        """Shows the task's own token, label or scalar, which differs from the claimed one."""
        facts = await asyncio.to_thread(compute_step_facts, self.get_view().spec)
        if fault.buffer == SCALARS:
            datum = open_scalars(self.get_view(), start, fault.element)
        else:
            datum = await self.open_token(dispute, fault.element, fault.buffer == LABELS)
        place = (fault.buffer, fault.element, fault.opening, datum)
        await self.chain.game.prove_datum(self.get_view().task, dispute.name, facts, start, *place)

    async def open_token(self, dispute: InnerDispute, position: int, is_label: bool) -> LeafProof:
        """Returns the dataset's leaf with the token (or label) that belongs at a position of the batch."""
        view = self.get_view()
        training, ref = view.spec.training, dispute.statement
        game_round = get_now(view).rounds[ref.round]
        assert game_round.beacon is not None and dispute.step is not None
        inner_step = dispute.segment * view.spec.terms.segment_steps + dispute.step
        row, column = divmod(position, training.sequence_tokens)
        shard, length = get_shards(game_round)[ref.slot], training.sequence_tokens
        place = (shard, inner_step, row, training.token_count, length)
        first = draw_sample_start(game_round.beacon, *place)
        byte = (first + column + is_label) * training.token_bytes
        return await self.corpus.open_leaf(byte // LEAF_BYTES)

    async def prosecute(self, dispute: InnerDispute) -> None:
        """Searches the trace of a dispute for a fault, and proves it. Prints a message if there is none. If
        data is not served within half of the time, demands it on chain and raises ProtocolFault or
        EnvironmentFault."""
        trace, name = dispute.trace, format_name(dispute)
        assert trace is not None
        found = await self.find_fault(dispute, trace)
        if isinstance(found, Withheld):
            if dispute.stage == DisputeStage.PROVE:
                self.notify(f"dispute {name}: {found.fault}; demanding leaves of the trace on chain")
                await self.demand(dispute, found.buffer)
            raise found.fault
        if found is None:
            self.notify(f"dispute {name}: every number of the trace is inside its bound")
            self.cases.searched.add(dispute.name)
        elif isinstance(found, OperationFault):
            self.notify(
                f"dispute {name}: element {found.element} of node {found.node.number} is wrong: proving it"
            )
            await self.prove_operation(dispute, trace.start, found)
        else:
            self.notify(
                f"dispute {name}: element {found.element} of buffer {found.buffer} "
                "differs from the task's data"
            )
            await self.prove_input(dispute, trace.start, found)

    async def demand(self, dispute: InnerDispute, withheld: int | None) -> None:
        """Demands leaves of the data that is not served. The claimant shows them on chain, or is
        convicted."""
        facts = await asyncio.to_thread(compute_step_facts, self.get_view().spec)
        program = get_program(self.get_view().spec.training).program
        leaves = [
            {"node": prove_node(program, one.node), "place": one.place, "leaf_index": one.leaf_index}
            for one in list_demands(program, describe_layout(program), withheld)
        ]
        await self.chain.game.demand_leaves(self.get_view().task, dispute.name, facts, leaves)

    async def find_fault(self, dispute: InnerDispute, trace: PostedTrace) -> Found:
        """Returns the first fault of the claimed step, or what the claimant did not serve in time."""
        view = self.get_view()
        built = get_program(view.spec.training)
        withheld: list[int] = []
        until = _get_waited_until(view, dispute)
        try:
            peer = self.get_view().chain_state.network.find(
                get_now(self.get_view()).seats[dispute.seat].account
            )
            start = await self._find_step_start(dispute, peer, trace, until)
            remote = await wait_for(self.get_view, until, self.open_remote(built, peer, trace))
            try:
                return await self._search_remote(dispute, built, start, remote, withheld, until)
            finally:
                share = f"{remote.received_bytes} of {remote.size_bytes} bytes of the trace"
                self.notify(f"dispute {format_name(dispute)}: fetched {share}")
                remote.evict()
        except GateShut:
            raise
        except (ProtocolFault, EnvironmentFault) as fault:
            return Withheld(withheld[0] if withheld else None, fault)

    async def _search_remote(
        self,
        dispute: InnerDispute,
        built: BuiltProgram,
        start: TrainingState,
        remote: RemoteTrace,
        withheld: list[int],
        until: int,
    ) -> OperationFault | InputFault | None:
        loop = asyncio.get_running_loop()

        def watch(buffer: int, fetching: Coroutine[Any, Any, Fetched]) -> Fetched:
            """Fetches a buffer for the searching thread, and notes the buffer if the claimant does not serve
            it."""
            try:
                return asyncio.run_coroutine_threadsafe(
                    wait_for(self.get_view, until, fetching), loop
                ).result()
            except (ProtocolFault, EnvironmentFault):
                withheld.append(buffer)
                raise

        def fetch(buffer: int) -> Tensor:
            """Fetches a whole buffer."""
            return watch(buffer, remote.fetch(buffer))

        blocks_left = BlocksLeft(max(1, (until - self.get_view().head_block) // CUT_SHARE))

        def hurry(fetching: Coroutine[Any, Any, Fetched]) -> Fetched:
            """Fetches optional data, while blocks are left for it."""
            return asyncio.run_coroutine_threadsafe(
                blocks_left.wait(self.get_view, until, fetching), loop
            ).result()

        def fetch_cut(buffer: int) -> Tensor:
            """Fetches a whole buffer for the search in layers."""
            return hurry(remote.fetch(buffer))

        def find_leaf(buffer: int, own: ByteTree) -> ClaimedLeaf:
            """Finds the first leaf that differs from this node's own."""
            return watch(buffer, remote.find_leaf(buffer, own))

        def try_leaf(buffer: int, own: ByteTree) -> ClaimedLeaf:
            """Finds this leaf for the search in layers, which can fetch the whole buffer instead."""
            return hurry(remote.find_leaf(buffer, own))

        spec = self.get_view().spec
        batches = self.segments.get_batches(dispute.statement.round, dispute.statement.slot)
        batch = await asyncio.to_thread(batches, get_inner_step(self.get_view(), dispute))
        scalars = compute_scalars(spec.training, start.local_step, start.global_step)
        claimed = ClaimedTrace(
            remote.roots, fetch, remote.listed, fetch_cut=fetch_cut, try_leaf=try_leaf, find_leaf=find_leaf
        )
        search = partial(get_tolerance(spec).prove, built, start, batch, scalars, claimed)
        return await loop.run_in_executor(self.cases.searchers, search)

    async def _find_step_start(
        self, dispute: InnerDispute, peer: Peer, trace: PostedTrace, until: int
    ) -> TrainingState:
        """Returns the state before the named step: the claimant's, or this node's own if both have the same
        root."""
        try:
            return await wait_for(
                self.get_view, until, self.states.fetch_and_load(self.client, [peer], trace.start)
            )
        except (ProtocolFault, EnvironmentFault):
            own = await asyncio.to_thread(self._recompute_start, dispute, trace)
            if own is None:
                raise
            return own

    def _recompute_start(self, dispute: InnerDispute, trace: PostedTrace) -> TrainingState | None:
        assert dispute.step is not None
        place = (dispute.statement.round, dispute.statement.slot)
        try:
            start = find_start(self.get_view(), dispute)
            if self.states.has(start):
                state = self.segments.compute_state(place, dispute.segment, start, dispute.step)
                return self.states.load(trace.start) if self.states.keep(state) == trace.start else None
        except (EnvironmentFault, InvalidInput):
            return None
        return None

    async def open_remote(self, built: BuiltProgram, peer: Peer, trace: PostedTrace) -> RemoteTrace:
        """Opens the claimant's trace. Roots that the contract knows are taken from there, not from the
        claimant."""
        start = trace.start
        known = dict(enumerate((start.weights_root, start.first_moment_root, start.second_moment_root)))
        known |= get_constant_roots(built.program)
        layout = describe_layout(built.program)
        return await open_trace(self.store, self.client, peer, trace.root, layout, known)


def _get_waited_until(view: View, dispute: InnerDispute) -> int:
    """Returns the block at which this node stops waiting for data. Leaves can be demanded in the stage PROVE
    only; later this node waits until the clock ends."""
    is_demandable = dispute.stage == DisputeStage.PROVE
    return start_waiting(view, get_half_time(view, dispute) if is_demandable else dispute.clock)


def get_inner_step(view: View, dispute: InnerDispute) -> int:
    """Returns the named step's number in its round."""
    assert dispute.step is not None
    return dispute.segment * view.spec.terms.segment_steps + dispute.step
