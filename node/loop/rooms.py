"""Builds the rooms of a node, and hands each the tools that it needs."""

from dataclasses import dataclass
from functools import cached_property

from touchstone.node.defending.defence import Defence
from touchstone.node.defending.dispute_answers import DisputeAnswers
from touchstone.node.defending.query_answers import QueryAnswers
from touchstone.node.defending.step_requests import StepAnswers
from touchstone.node.defending.step_serving import StepServing
from touchstone.node.joining.machine_check import MachineCheck
from touchstone.node.joining.reachability import Reachability
from touchstone.node.joining.seat_taking import SeatTaking
from touchstone.node.loop.tools import Tools
from touchstone.node.merging.merge_requests import MergeRequests
from touchstone.node.merging.merge_signing import MergeSigning
from touchstone.node.merging.posting import Posting
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.models.start_weights import StartWeights
from touchstone.node.models.work_requests import WorkRequests
from touchstone.node.serving.bucket_copies import BucketCopies
from touchstone.node.serving.heldout_reports import HeldoutReports
from touchstone.node.serving.loss_reports import LossReports
from touchstone.node.training.claims import Training
from touchstone.node.training.idle_mode import IdleMode
from touchstone.node.training.segments import Segments
from touchstone.node.training.speculation import Speculation
from touchstone.node.upkeep.deletion import Deletion
from touchstone.node.upkeep.halting import Halting
from touchstone.node.upkeep.last_model import LastModel
from touchstone.node.upkeep.pruning import Pruning
from touchstone.node.upkeep.self_test import SelfTest
from touchstone.node.upkeep.upkeep_duties import Upkeep


@dataclass(frozen=True)
class Rooms:
    """The rooms of a node in one task. Each is made when it is first used."""

    tools: Tools

    @cached_property
    def start(self) -> StartWeights:
        """Makes or fetches the starting weights."""
        t = self.tools
        return StartWeights(t.states.store, t.peers, t.notify)

    @cached_property
    def model(self) -> GlobalModel:
        """Finds outer states."""
        t = self.tools
        return GlobalModel(
            get_view=t.get_view,
            store=t.states.store,
            client=t.peers.client,
            peers=t.peers,
            claims=t.claims,
            start=self.start,
        )

    @cached_property
    def claim_data(self) -> ClaimData:
        """Finds work leaves and pseudo-gradients of claims."""
        t = self.tools
        return ClaimData(
            get_view=t.get_view, store=t.states.store, client=t.peers.client, peers=t.peers, claims=t.claims
        )

    @cached_property
    def outer_steps(self) -> OuterSteps:
        """Computes merges."""
        t = self.tools
        return OuterSteps(
            get_view=t.get_view,
            claims=t.claims,
            pruning_memory=t.pruning_memory,
            locks=t.locks,
            claim_data=self.claim_data,
            model=self.model,
        )

    @cached_property
    def work_requests(self) -> WorkRequests:
        """Answers requests for work."""
        t = self.tools
        return WorkRequests(get_view=t.get_view)

    @cached_property
    def idle_mode(self) -> IdleMode:
        """Pauses while somebody uses the machine."""
        t = self.tools
        return IdleMode(
            get_view=t.get_view, chain=t.chain, recompute_queue=t.recompute_queue, notify=t.notify, use=t.use
        )

    @cached_property
    def training(self) -> Training:
        """Trains this node's own claims."""
        t = self.tools
        return Training(
            get_view=t.get_view,
            store=t.states.store,
            states=t.states,
            chain=t.chain,
            claims=t.claims,
            pruning_memory=t.pruning_memory,
            recompute_queue=t.recompute_queue,
            team=t.team,
            corpus=t.corpus,
            locks=t.locks,
            notify=t.notify,
            meter=t.meter,
            board=t.board,
            idle_mode=self.idle_mode,
            model=self.model,
            outer_steps=self.outer_steps,
        )

    @cached_property
    def segments(self) -> Segments:
        """Replays segments of this node's claims."""
        t = self.tools
        return Segments(
            get_view=t.get_view,
            client=t.peers.client,
            states=t.states,
            cases=t.cases,
            recompute_queue=t.recompute_queue,
            corpus=t.corpus,
            notify=t.notify,
            training=self.training,
        )

    @cached_property
    def speculation(self) -> Speculation:
        """Trains speculatively."""
        t = self.tools
        return Speculation(
            get_view=t.get_view,
            locks=t.locks,
            notify=t.notify,
            outer_steps=self.outer_steps,
            training=self.training,
        )

    @cached_property
    def merge_requests(self) -> MergeRequests:
        """Answers requests of solvers about merges."""
        t = self.tools
        return MergeRequests(
            get_view=t.get_view,
            claims=t.claims,
            notify_loop=t.notify_loop,
            signer=t.signer,
            model=self.model,
            work_requests=self.work_requests,
        )

    @cached_property
    def merge_signing(self) -> MergeSigning:
        """Gathers signatures of merges."""
        t = self.tools
        return MergeSigning(
            get_view=t.get_view,
            peers=t.peers,
            claims=t.claims,
            locks=t.locks,
            signer=t.signer,
            claim_data=self.claim_data,
            merge_requests=self.merge_requests,
            outer_steps=self.outer_steps,
        )

    @cached_property
    def posting(self) -> Posting:
        """Hands in votes and posts roots."""
        t = self.tools
        return Posting(
            get_view=t.get_view,
            chain=t.chain,
            claims=t.claims,
            notify_loop=t.notify_loop,
            merge_signing=self.merge_signing,
            outer_steps=self.outer_steps,
        )

    @cached_property
    def step_serving(self) -> StepServing:
        """Shows steps."""
        t = self.tools
        return StepServing(
            get_view=t.get_view,
            store=t.states.store,
            states=t.states,
            cases=t.cases,
            recompute_queue=t.recompute_queue,
            segments=self.segments,
        )

    @cached_property
    def dispute_answers(self) -> DisputeAnswers:
        """Makes the claimant's moves in disputes."""
        t = self.tools
        return DisputeAnswers(
            get_view=t.get_view,
            store=t.states.store,
            states=t.states,
            chain=t.chain,
            cases=t.cases,
            recompute_queue=t.recompute_queue,
            locks=t.locks,
            segments=self.segments,
            step_serving=self.step_serving,
        )

    @cached_property
    def query_answers(self) -> QueryAnswers:
        """Answers to queries."""
        t = self.tools
        return QueryAnswers(
            get_view=t.get_view,
            client=t.peers.client,
            states=t.states,
            chain=t.chain,
            recompute_queue=t.recompute_queue,
            locks=t.locks,
            segments=self.segments,
        )

    @cached_property
    def step_answers(self) -> StepAnswers:
        """Answers requests for steps."""
        t = self.tools
        return StepAnswers(
            get_view=t.get_view, cases=t.cases, recompute_queue=t.recompute_queue, notify_loop=t.notify_loop
        )

    @cached_property
    def deletion(self) -> Deletion:
        """Deletes blobs."""
        t = self.tools
        return Deletion(
            get_view=t.get_view,
            journal=t.journal,
            pruning_memory=t.pruning_memory,
            claim_data=self.claim_data,
        )

    @cached_property
    def pruning(self) -> Pruning:
        """Decides what stays on the disk."""
        t = self.tools
        return Pruning(
            get_view=t.get_view,
            store=t.states.store,
            cases=t.cases,
            pruning_memory=t.pruning_memory,
            deletion=self.deletion,
            segments=self.segments,
            step_serving=self.step_serving,
        )

    @cached_property
    def self_test(self) -> SelfTest:
        """Tests the bits that this machine computes."""
        t = self.tools
        return SelfTest(
            get_view=t.get_view,
            catch_up=t.catch_up,
            states=t.states,
            claims=t.claims,
            cases=t.cases,
            pruning_memory=t.pruning_memory,
            corpus=t.corpus,
            notify=t.notify,
            home=t.home,
            model=self.model,
            segments=self.segments,
            training=self.training,
        )

    @cached_property
    def upkeep(self) -> Upkeep:
        """Sends the calls that keep the task going."""
        t = self.tools
        return Upkeep(get_view=t.get_view, chain=t.chain)

    @cached_property
    def machine_check(self) -> MachineCheck:
        """Checks this machine on one step."""
        t = self.tools
        return MachineCheck(
            get_view=t.get_view, chain=t.chain, notify=t.notify, corpus=t.corpus, model=self.model
        )

    @cached_property
    def reachability(self) -> Reachability:
        """Asks whether peers reach this node."""
        t = self.tools
        return Reachability(
            get_view=t.get_view, client=t.peers.client, notify=t.notify, is_wanted=t.is_reach_wanted
        )

    @cached_property
    def seat_taking(self) -> SeatTaking:
        """Takes the seat."""
        t = self.tools
        return SeatTaking(
            get_view=t.get_view,
            chain=t.chain,
            journal=t.journal,
            notify=t.notify,
            keep_up=t.keep_up,
            machine_check=self.machine_check,
            reachability=self.reachability,
        )

    @cached_property
    def bucket_copies(self) -> BucketCopies:
        """Copies blobs to the bucket."""
        t = self.tools
        return BucketCopies(get_view=t.get_view, store=t.states.store, notify=t.notify, bucket=t.bucket)

    @cached_property
    def halting(self) -> Halting:
        """Halts the task if its model gets no better."""
        t = self.tools
        return Halting(get_view=t.get_view, chain=t.chain, notify=t.notify)

    @cached_property
    def loss_reports(self) -> LossReports:
        """The tools for reports of losses."""
        t = self.tools
        return LossReports(get_view=t.get_view, claims=t.claims, signer=t.signer)

    @cached_property
    def heldout_reports(self) -> HeldoutReports:
        """Measures models on held-out tokens."""
        t = self.tools
        return HeldoutReports(
            get_view=t.get_view,
            claims=t.claims,
            signer=t.signer,
            locks=t.locks,
            corpus=t.corpus,
            model=self.model,
            notify=t.notify,
            board=t.board,
        )

    @cached_property
    def last_model(self) -> LastModel:
        """Keeps the last model."""
        t = self.tools
        return LastModel(
            get_view=t.get_view,
            store=t.states.store,
            client=t.peers.client,
            peers=t.peers,
            claims=t.claims,
            notify=t.notify,
            model=self.model,
        )

    @cached_property
    def defence(self) -> Defence:
        """The tools that defend this node's statements."""
        return Defence(self.dispute_answers, self.query_answers, self.step_serving)
