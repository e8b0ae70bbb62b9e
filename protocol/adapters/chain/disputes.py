"""Proxies of the two games: DisputeGame on one claim, OuterContest on the outer step.

`contracts/interfaces/IDisputeGame.sol` and `IOuterContest.sol` are the manuals.
"""

from collections.abc import Sequence
from typing import NamedTuple

from protocol.adapters.chain.proxy import Proxy, Receipt
from protocol.adapters.chain.types import BoundaryProof, Turn
from protocol.spec.containers import (
    BufferOpening,
    LeafProof,
    NodeProof,
    StateHeader,
    StepFacts,
    TraceProof,
)
from protocol.spec.statuses import ClaimRef, Stage


class DisputeInfo(NamedTuple):
    """Where a dispute stands; `clock_block` is where the running clock ends."""

    stage: Stage
    clock_block: int
    claimant: str
    opener: str


class ActiveDispute(NamedTuple):
    """The dispute of a claimant on its turn, zero for none, and how many stand in the queue with it."""

    dispute: bytes
    queued: int


class Demands(NamedTuple):
    """Demands for leaves: made and answered, in their order; 0 as `clock_block`: none is open."""

    made: int
    answered: int
    clock_block: int


class TraceInfo(NamedTuple):
    """A posted trace: the step in the segment, the root of the state before it, the root of the trace."""

    step: int
    start_root: bytes
    trace_root: bytes


class DisputeGame(Proxy):
    """Disputes on one claim: "from state root A, k steps, I got state root C"."""

    contract = "DisputeGame"

    async def seal_opening(self, seal_hash: bytes) -> Receipt:
        """Commit to an opening, sha256(abi.encode(claim, opener, salt)), so that nobody runs ahead of it."""
        return await self._send("sealOpening", seal_hash)

    async def open_dispute(self, claim: ClaimRef, salt: bytes) -> Receipt:
        """Open the sealed dispute, at least one block later; exposes the bond. The id is in the event
        `DisputeOpened` of the receipt."""
        return await self._send("openDispute", claim, salt)

    async def post_step_roots(
        self, dispute: bytes, roots: Sequence[bytes], ends: Sequence[BoundaryProof]
    ) -> Receipt:
        """The claimant posts the k+1 state roots; `ends` opens both boundaries of a solver's segment, else is
        empty."""
        return await self._send("postStepRoots", dispute, roots, ends)

    async def name_step(self, dispute: bytes, step: int, roots: Sequence[bytes]) -> Receipt:
        """The opener names the step, 0 .. k-1, that it will prove wrong; `roots` are those posted."""
        return await self._send("nameStep", dispute, step, roots)

    async def post_trace(
        self,
        dispute: bytes,
        facts: StepFacts,
        trace_root: bytes,
        start: StateHeader,
        end: StateHeader,
        proof: TraceProof,
    ) -> Receipt:
        """The claimant posts the root of the named step's trace; `start` and `end` are the states around
        it."""
        return await self._send("postTrace", dispute, facts, trace_root, start, end, proof)

    async def demand_leaf(
        self, dispute: bytes, facts: StepFacts, node: NodeProof, place: int, leaf_index: int
    ) -> Receipt:
        """Demand one leaf of the buffer at a place of a node (0 its output, 1 and up its operands), prepaid
        from free stake. Anybody may. The number is in the event `LeafDemanded` of the receipt."""
        return await self._send("demandLeaf", dispute, facts, node, place, leaf_index)

    async def answer_demand(
        self, dispute: bytes, demand: int, start: StateHeader, opening: BufferOpening
    ) -> Receipt:
        """The claimant answers a demand; `start` is the state before the step."""
        return await self._send("answerDemand", dispute, demand, start, opening)

    async def prove_operation(
        self,
        dispute: bytes,
        facts: StepFacts,
        start: StateHeader,
        node: NodeProof,
        element: int,
        openings: bytes,
    ) -> Receipt:
        """Convict a claimant one element of whose trace lies beyond its bound. Anybody may."""
        return await self._send("proveOperation", dispute, facts, start, node, element, openings)

    async def prove_token(
        self,
        dispute: bytes,
        facts: StepFacts,
        is_label: bool,
        position: int,
        opening: BufferOpening,
        dataset: LeafProof,
    ) -> Receipt:
        """Convict a claimant whose trace has another token (or label) than the dealt one. Anybody may."""
        return await self._send("proveToken", dispute, facts, is_label, position, opening, dataset)

    async def prove_scalar(
        self,
        dispute: bytes,
        facts: StepFacts,
        start: StateHeader,
        which: int,
        opening: BufferOpening,
        scalars: LeafProof,
    ) -> Receipt:
        """Convict a claimant whose trace has another learning rate (0) or bias correction (1, 2) than the
        step's. Anybody may."""
        return await self._send("proveScalar", dispute, facts, start, which, opening, scalars)

    async def timeout(self, dispute: bytes) -> Receipt:
        """After a clock has run out: convict a silent claimant or close the dispute. Anybody may."""
        return await self._send("timeout", dispute)

    async def referee(self) -> str:
        """Address of the contract that judges the operations of a step."""
        return await self._read(str, "referee")

    async def stage_of(self, dispute: bytes) -> DisputeInfo:
        """Stage, clock and parties of a dispute."""
        return await self._read(DisputeInfo, "stageOf", dispute)

    async def open_count(self, task: bytes, round: int, slot: int) -> int:
        """Open disputes on any claim of this slot, its audits included."""
        return await self._read(int, "openCount", task, round, slot)

    async def trace_of(self, dispute: bytes) -> TraceInfo:
        """The named step with the roots of its start and its trace; zeros before the trace is posted."""
        return await self._read(TraceInfo, "traceOf", dispute)

    async def claim_of(self, dispute: bytes) -> ClaimRef:
        """What is disputed."""
        return await self._read(ClaimRef, "claimOf", dispute)

    async def active_of(self, task: bytes, claimant: str) -> ActiveDispute:
        """The dispute that a claimant has to answer now."""
        return await self._read(ActiveDispute, "activeOf", task, claimant)

    async def demands_of(self, dispute: bytes) -> Demands:
        """How many leaves were demanded and answered, and by when the oldest open one must be."""
        return await self._read(Demands, "demandsOf", dispute)


class ContestInfo(NamedTuple):
    """Whose turn a contest is, until which block, and at which node of which tree; `level` counts from the
    root."""

    turn: Turn
    clock_block: int
    tensor: int
    level: int
    node_index: int
    node: bytes


class OuterContest(Proxy):
    """A wrong outer root, or a wrong pseudo-gradient, settled by computing one leaf of it."""

    contract = "OuterContest"

    async def contest(
        self, task: bytes, round: int, weights_root: bytes, momentum_root: bytes, tensor: int
    ) -> Receipt:
        """Contest the posted outer root with one's own, with the merge bond; tensor 0: weights differ, 1:
        momentum."""
        return await self._send("contest", task, round, weights_root, momentum_root, tensor)

    async def post_nodes(self, task: bytes, round: int, rival: str, nodes: Sequence[bytes]) -> Receipt:
        """The poster opens the next levels below the contested node, left to right."""
        return await self._send("postNodes", task, round, rival, nodes)

    async def name_child(self, task: bytes, round: int, child: int) -> Receipt:
        """The rival names which of the posted nodes differs from its own."""
        return await self._send("nameChild", task, round, child)

    async def compute_leaf(
        self,
        task: bytes,
        round: int,
        rival: str,
        weights: LeafProof,
        momentum: LeafProof,
        deltas: Sequence[LeafProof],
    ) -> Receipt:
        """At a leaf: have the contract compute it from proven inputs, `deltas` in order of shard. Anybody
        may."""
        return await self._send("computeLeaf", task, round, rival, weights, momentum, deltas)

    async def timeout(self, task: bytes, round: int, rival: str) -> Receipt:
        """Whoever's turn it is let the clock run out, or the contested root was replaced. Anybody may."""
        return await self._send("timeout", task, round, rival)

    async def contest_of(self, task: bytes, round: int, rival: str) -> ContestInfo:
        """Where a contest stands."""
        return await self._read(ContestInfo, "contestOf", task, round, rival)

    async def prove_pseudo_gradient(
        self,
        task: bytes,
        round: int,
        slot: int,
        draw: int,
        leaf_index: int,
        global_weights: LeafProof,
        last_weights: LeafProof,
        delta: LeafProof,
    ) -> Receipt:
        """Convict a solver whose pseudo-gradient is not (global W - last W) quantised, at one leaf. Anybody
        may."""
        return await self._send(
            "provePseudoGradient", task, round, slot, draw, leaf_index, global_weights, last_weights, delta
        )
