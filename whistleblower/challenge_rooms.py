"""Builds the parts that challenge statements of others, and hands each the tools that it needs."""

from dataclasses import dataclass
from functools import cached_property

from touchstone.node.loop.rooms import Rooms
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.whistleblower.case_judging import CaseJudging
from touchstone.whistleblower.challenging import Challenging
from touchstone.whistleblower.contesting import Contesting
from touchstone.whistleblower.dispute_opening import DisputeOpening
from touchstone.whistleblower.proof_calls import ProofCalls
from touchstone.whistleblower.prosecuting import Prosecuting
from touchstone.whistleblower.query_opening import Queries
from touchstone.whistleblower.step_judging import StepJudging
from touchstone.whistleblower.votes_on_chain import VotesOnChain
from touchstone.whistleblower.work_proofs import WorkProofs


@dataclass(frozen=True)
class ChallengeRooms:
    """Builds each part when it is asked for. `rooms` are the node's own rooms, `audits` its records of
    audits."""

    rooms: Rooms
    audits: AuditRoom

    @cached_property
    def proof_calls(self) -> ProofCalls:
        """Sends proofs."""
        t = self.rooms.tools
        return ProofCalls(get_view=t.get_view, chain=t.chain)

    @cached_property
    def work_proofs(self) -> WorkProofs:
        """Proves wrong starts, pseudo-gradients and votes about them."""
        t = self.rooms.tools
        return WorkProofs(
            get_view=t.get_view,
            store=t.states.store,
            client=t.peers.client,
            claim_data=self.rooms.claim_data,
            model=self.rooms.model,
            proof_calls=self.proof_calls,
            segments=self.rooms.segments,
        )

    @cached_property
    def step_judging(self) -> StepJudging:
        """Judges a claimant's steps."""
        t = self.rooms.tools
        return StepJudging(
            get_view=t.get_view,
            store=t.states.store,
            client=t.peers.client,
            states=t.states,
            chain=t.chain,
            cases=t.cases,
            recompute_queue=t.recompute_queue,
            locks=t.locks,
            notify=t.notify,
            segments=self.rooms.segments,
        )

    @cached_property
    def case_judging(self) -> CaseJudging:
        """Plans disputes."""
        t = self.rooms.tools
        return CaseJudging(
            get_view=t.get_view, cases=t.cases, notify=t.notify, step_judging=self.step_judging
        )

    @cached_property
    def votes_on_chain(self) -> VotesOnChain:
        """Reads votes of others out of transactions."""
        t = self.rooms.tools
        return VotesOnChain(get_view=t.get_view, chain=t.chain, cases=t.cases, room=self.audits)

    @cached_property
    def dispute_opening(self) -> DisputeOpening:
        """Opens disputes."""
        t = self.rooms.tools
        return DisputeOpening(get_view=t.get_view, chain=t.chain, locks=t.locks)

    @cached_property
    def queries(self) -> Queries:
        """Opens queries."""
        t = self.rooms.tools
        return Queries(get_view=t.get_view, chain=t.chain, locks=t.locks, notify=t.notify)

    @cached_property
    def prosecuting(self) -> Prosecuting:
        """Searches for faults in a trace, and proves them."""
        t = self.rooms.tools
        return Prosecuting(
            get_view=t.get_view,
            store=t.states.store,
            client=t.peers.client,
            states=t.states,
            chain=t.chain,
            cases=t.cases,
            corpus=t.corpus,
            notify=t.notify,
            segments=self.rooms.segments,
        )

    @cached_property
    def contesting(self) -> Contesting:
        """Contests posted roots."""
        t = self.rooms.tools
        return Contesting(
            get_view=t.get_view,
            store=t.states.store,
            chain=t.chain,
            claims=t.claims,
            locks=t.locks,
            notify=t.notify,
            claim_data=self.rooms.claim_data,
            model=self.rooms.model,
            outer_steps=self.rooms.outer_steps,
        )

    @cached_property
    def challenging(self) -> Challenging:
        """All of these parts together, for `next_actions`."""
        return Challenging(
            votes=self.votes_on_chain, judging=self.case_judging, opening=self.dispute_opening,
            queries=self.queries, steps=self.step_judging, prosecuting=self.prosecuting,
            proofs=self.proof_calls, work_proofs=self.work_proofs,
        )  # fmt: skip
