"""Answers in a dispute about a step of this node: with roots, a trace, leaves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from touchstone.node.defending.step_serving import StepServing, show_trace
from touchstone.node.kit.known_statements import find_solver, get_now
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.trace_storage import TraceKeeper, describe_layout, load_buffer
from touchstone.node.kit.view import GetView
from touchstone.node.models.own_openings import open_boundary
from touchstone.node.records.compute import TracedStep
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.training.segments import (
    Segments,
    find_replay,
)
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.bounds.step_openings import open_demanded, prove_outputs
from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step_facts import compute_step_facts
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.inner_dispute import DemandedLeaf, InnerDispute
from touchstone.protocol.spec.openings import BufferOpening
from touchstone.protocol.spec.program import get_constant_roots
from touchstone.protocol.spec.state_headers import StateHeader


@dataclass(frozen=True)
class DisputeAnswers:
    """Makes the claimant's moves in a dispute about this node's own statement."""

    get_view: GetView
    store: BlobStore
    states: StateStore
    chain: GameChain
    cases: DisputeRecords
    recompute_queue: RecomputeQueue
    locks: Locks
    segments: Segments
    step_serving: StepServing

    async def post_roots(self, dispute: InnerDispute) -> None:
        """Posts the root of each step's state, start and end included, with the openings that tie them to the
        statement."""
        place = (dispute.statement.round, dispute.statement.slot)
        start = await self.segments.restore_own_start(dispute)
        work = (self.segments.compute_roots, place, dispute.segment, start)
        roots = await self.recompute_queue.compute(dispute.clock, *work)
        if dispute.statement.draw is None:
            await self._post_claim_roots(dispute, roots)
        else:
            await self._post_vote_roots(dispute, roots)

    async def _post_claim_roots(self, dispute: InnerDispute, roots: tuple[bytes, ...]) -> None:
        first = dispute.segment
        ends = [
            open_boundary(self.get_view(), dispute.statement.round, boundary)
            for boundary in (first, first + 1)
        ]
        require_end(ends[1].header, roots[-1])
        await self.chain.game.post_claim_roots(self.get_view().task, dispute.name, roots, *ends)

    async def _post_vote_roots(self, dispute: InnerDispute, roots: tuple[bytes, ...]) -> None:
        """Posts the roots for a vote, with two openings that the solver has shown: the start's from before
        the seal, the end's in exchange for it. For a REJECT_START the contract does not check an end, so any
        may be passed."""
        view = self.get_view()
        ref, replay = dispute.statement, find_replay(view, dispute.statement)
        require_end(replay.own_end, roots[-1])
        solver = find_solver(get_now(view), ref.round, ref.slot)
        ends = (solver, replay.start, replay.claimed_end or replay.start, replay.seal_salt)
        await self.chain.game.post_vote_roots(self.get_view().task, dispute.name, roots, *ends)

    async def post_trace(self, dispute: InnerDispute) -> None:
        """Runs the named step again, keeps the trace for others to read, and posts its root."""
        traced = await self.trace_named_step(dispute)
        facts = await asyncio.to_thread(compute_step_facts, self.get_view().spec)
        proof = await asyncio.to_thread(prove_outputs, traced.tree)
        ends = (traced.tree.root, traced.start, traced.end)
        await self.chain.game.post_trace(self.get_view().task, dispute.name, facts, *ends, proof)

    async def show_leaves(self, dispute: InnerDispute) -> None:
        """Shows those demanded leaves that are not shown yet."""
        traced = await self.trace_named_step(dispute)
        demands = dispute.demands[len(dispute.shown) :]
        work = (_open_leaves, self.store, traced.tree, demands)
        openings = await self.recompute_queue.compute(dispute.clock, *work)
        await self.chain.game.show_leaves(self.get_view().task, dispute.name, traced.start, openings)

    async def serve(self, dispute: InnerDispute) -> None:
        """Shows from now on the states of all steps of a disputed segment, and the trace of the named
        step."""
        if dispute.trace is not None:
            await self.trace_named_step(dispute)
        await self.step_serving.show_steps(dispute)

    async def trace_named_step(self, dispute: InnerDispute) -> TracedStep:
        """Returns this node's own trace of the named step. It is computed only once in a dispute."""
        book, name = self.cases, dispute.name
        async with self.locks["trace", name]:
            if name not in book.traces:
                start = await self.segments.restore_own_start(dispute)
                traced = await self.recompute_queue.compute(dispute.clock, self._trace, dispute, start)
                book.traces[name] = traced
                show_trace(self.get_view(), dispute, book.traces[name])
            return book.traces[name]

    def _trace(self, dispute: InnerDispute, start: StateHeader) -> TracedStep:
        assert dispute.step is not None
        spec, place = self.get_view().spec, (dispute.statement.round, dispute.statement.slot)
        before = self.segments.compute_state(place, dispute.segment, start, dispute.step)
        inner_step = dispute.segment * spec.terms.segment_steps + dispute.step
        program = get_program(spec.training).program
        keeper = TraceKeeper(self.store, describe_layout(program), get_constant_roots(program))
        run = self.cases.compute.retrace
        tree, end = run(before, spec.training, self.segments.get_batches(*place), inner_step, keeper.keep)
        keeper.finish()
        return TracedStep(tree, self.states.keep(before), self.states.keep(end))


def require_end(end: StateHeader, root: bytes) -> None:
    """Raises EnvironmentFault if a recomputed segment has another end than the statement says."""
    if compute_state_root(end) != root:
        raise EnvironmentFault(
            what="this machine computes other bits than when it made the statement that is disputed",
            expected=compute_state_root(end).hex(),
            actual=root.hex(),
            remedy="Bring back the versions of torch and of the drivers that the statement was made with.",
        )


def _open_leaves(store: BlobStore, tree: TraceTree, demands: Sequence[DemandedLeaf]) -> list[BufferOpening]:
    """Opens leaves of a kept trace. Runs the step again only if a buffer is lost or damaged."""
    layout, constants = describe_layout(tree.program), get_constant_roots(tree.program)

    def load(buffer: int) -> Tensor:
        """Loads a buffer. Constants come from the program, because no trace keeps them."""
        if buffer in constants:
            return tree.get(buffer)
        try:
            return load_buffer(store, tree.roots[buffer], layout[buffer])
        except (InvalidInput, EnvironmentFault):
            return tree.get(buffer)

    kept = replace(tree, get=load)
    return [open_demanded(kept, one.node, one.place, one.leaf_index) for one in demands]
