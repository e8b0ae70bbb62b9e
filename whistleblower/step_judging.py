"""Judges each step of a segment from the claimant's own state before it; finds the step to name.

Over k steps honest machines drift apart, in unstable phases by a million limits. Over one step from the same
state they mostly do not. So a segment is false if one of its steps is. If every step lies within the limits,
the distance of the ends is drift, however large. The task's limits allow for k steps: they are taken as they
are, with one step's learning rate.

The task's `Tolerance` (compute/tolerance) says how far off one step may be.

The opener of a dispute names the step that it judged to be false before, if the posted roots around it are
those that it judged. Else it names the first step that is false from the claimant's own state before it.

Steps are recomputed in the same queue as answers, one piece of work at a time (`RecomputeQueue`).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from touchstone.node.defending.step_requests import SHOWN_FORM, STEPS, StepsAsked, StepsShown
from touchstone.node.defending.step_serving import list_spared
from touchstone.node.kit.config import Notify
from touchstone.node.kit.known_statements import find_claim, get_now
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.recompute_queue import AUDITS, RecomputeQueue
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.stored_tensors import StoredState
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.dispute_records import NO_STEP, DisputeRecords
from touchstone.node.records.heard_statements import KnownVote
from touchstone.node.training.segments import (
    Segments,
    find_own_boundary,
)
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, refer_state
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedStep
from touchstone.protocol.compute.tolerance.tolerance_choice import get_tolerance
from touchstone.protocol.spec.claim_tree import verify_in_claim
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root, decode_state
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord, compute_seal
from touchstone.whistleblower.claimant_waiting import NEVER, get_half_time, start_waiting, wait_for


@dataclass
class Claimed:
    """The steps of one segment and the peer that shows them. `round` and `slot` say whose data the steps use.
    `until` is the block at which waiting for the claimant ends; it moves later while this node itself
    computes."""

    peer: Peer
    round: int
    slot: int
    segment: int
    until: int = NEVER


@dataclass(frozen=True)
class StepJudging:
    """Computes a claimant's steps again, and names the first false one."""

    get_view: GetView
    store: BlobStore
    client: BlobClient
    states: StateStore
    chain: GameChain
    cases: DisputeRecords
    recompute_queue: RecomputeQueue
    locks: Locks
    notify: Notify
    segments: Segments

    async def ask_headers(
        self, claimed: Claimed, known: Mapping[int, bytes], bound: KnownVote | None = None
    ) -> list[StateHeader]:
        """Returns the k + 1 states of a segment as the claimant shows them. `known` maps steps to state roots
        of its statement. `bound` is a vote that has only hashes of its ends. Raises ProtocolFault, naming the
        peer, if it shows other states, and EnvironmentFault while it shows none."""
        peer, count = claimed.peer, self.get_view().spec.terms.segment_steps + 1
        asked = StepsAsked(self.get_view().task, claimed.round, claimed.slot, claimed.segment)
        shown = await wait_for(self.get_view, claimed.until, self.client.ask(peer, STEPS, asked, SHOWN_FORM))
        headers = [decode_state(state, peer.account) for state in shown.states]
        if len(headers) != count:
            raise _blame(peer, "another number of states", count, len(headers))
        for step, root in known.items():
            found = compute_state_root(headers[step])
            if found != root:
                raise _blame(peer, "another state than its statement has", root.hex(), found.hex())
        _require_placed(self.get_view(), claimed, headers)
        if bound is not None:
            _require_bound(self.get_view(), claimed, bound, headers, shown)
        return headers

    async def judge_steps(
        self, claimed: Claimed, headers: Sequence[StateHeader], found: list[Verdict], until: int = AUDITS
    ) -> None:
        """Judges each claimed step from the claimed state before it, and appends a verdict to `found`, until
        one exceeds the limits. `until` is the last block, as in `RecomputeQueue`. Raises as `ask_headers`
        does."""
        # The lock lets a statement be judged once, even if several duties want it. A slow claimant delays no
        # other.
        place = (claimed.peer.account, claimed.round, claimed.slot, claimed.segment)
        async with self.locks["steps", place]:
            for step in range(len(headers) - 1):
                found.append(await self._judge_step(claimed, headers, step, until))
                if found[-1].exceeds_limits:
                    return

    async def _judge_step(
        self, claimed: Claimed, headers: Sequence[StateHeader], step: int, until: int
    ) -> Verdict:
        before, after = headers[step], headers[step + 1]
        tolerance = get_tolerance(self.get_view().spec)
        async with AsyncExitStack() as held:
            for header in (before, after) if tolerance.reads_states else (before,):
                await held.enter_async_context(self.borrow_state(claimed, header))
            began = self.get_view().head_block
            told = self._describe(claimed, before, after, step)
            verdict = await self.recompute_queue.compute(until, tolerance.judge_step, told)
            claimed.until += self.get_view().head_block - began
            return verdict

    def _describe(self, claimed: Claimed, before: StateHeader, after: StateHeader, step: int) -> ClaimedStep:
        spec = self.get_view().spec
        inner_step = claimed.segment * spec.terms.segment_steps + step
        batches = self.segments.get_batches(claimed.round, claimed.slot)

        def train(start: TrainingState) -> TrainingState:
            return self.cases.compute.train(start, spec.training, batches, inner_step, 1)[0]

        schedule = spec.training.schedule
        rate_sum = compute_learning_rate_sum(schedule, before.global_step, 1, spec.terms.inner_steps)
        load_start, draw_seed = partial(self.states.load, before), partial(secrets.randbits, 31)
        return ClaimedStep(after, self.states.open, load_start, train, rate_sum, draw_seed)

    @asynccontextmanager
    async def borrow_state(self, claimed: Claimed, header: StateHeader) -> AsyncIterator[StoredState]:
        """Lends a state of the claimant inside the `with` block. If it was fetched for this, it is deleted
        when nobody else uses it: neighbouring segments, and votes of other nodes, share states. A state that
        an audit has fetched stays, because the claimant chooses which states it names."""
        refs, book = refer_state(header, self.get_view().spec.terms.parameter_count), self.cases
        book.fetched |= {ref.key for ref in refs if not self.store.has(ref)}
        book.borrowed.update(ref.key for ref in refs)
        try:
            await wait_for(
                self.get_view, claimed.until, self.states.fetch(self.client, [claimed.peer], header)
            )
            yield await asyncio.to_thread(self.states.open, header)
        finally:
            self._give_back([ref.key for ref in refs])

    def _give_back(self, keys: Sequence[BlobKey]) -> None:
        book = self.cases
        book.borrowed.subtract(keys)
        book.borrowed = +book.borrowed
        free = set(keys) - book.borrowed.keys()
        for key in free & book.fetched - list_spared(self.get_view()):  # An audit may need it by now.
            self.store.delete(key)
        book.fetched -= free

    async def name_step(self, dispute: InnerDispute) -> None:
        """Names the step that this node says is false. Raises ProtocolFault or EnvironmentFault while the
        claimant does not show its states and still has time."""
        step = await self.find_step(dispute)
        self.notify(f"dispute {format_name(dispute)}: naming step {step}")
        await self.chain.game.name_step(self.get_view().task, dispute.name, step, dispute.roots)

    async def find_step(self, dispute: InnerDispute) -> int:
        """Returns the step to name. First choice is the step that this node judged false before, if the
        posted roots around it are the judged ones. Else it is the first step beyond the limits, or the step
        with the largest distance. If some states were still not shown after half of the time, it is the first
        step that could not be judged, or the first whose posted root differs from this node's own."""
        judged = _find_judged(self.get_view(), dispute)
        if judged is not None:
            return judged
        found: list[Verdict] = []
        try:
            claimed = make_claimed(self.get_view(), dispute)
            headers = await self.ask_headers(claimed, dict(enumerate(dispute.roots)))
            await self.judge_steps(claimed, headers, found, dispute.clock)
        except GateShut:
            raise
        except (ProtocolFault, EnvironmentFault) as fault:
            if self.get_view().head_block < get_half_time(self.get_view(), dispute):
                raise
            self.notify(f"dispute {format_name(dispute)}: {fault.what}; naming a step without it")
            if found:
                return len(found)  # The start is right; the end is not shown or is no state.
            start = await self.restore_start(dispute)
            return await self.recompute_queue.compute(dispute.clock, self._find_by_roots, dispute, start)
        return max(range(len(found)), key=lambda at: (found[at].exceeds_limits, found[at].excess))

    def _find_by_roots(self, dispute: InnerDispute, start: StateHeader) -> int:
        place = (dispute.statement.round, dispute.statement.slot)
        own = self.segments.compute_roots(place, dispute.segment, start)
        parted = [step for step in range(len(own) - 1) if own[step + 1] != dispute.roots[step + 1]]
        return parted[0] if parted else len(own) - 2

    async def restore_start(self, dispute: InnerDispute) -> StateHeader:
        """Returns the start as `find_start` does. If it belongs to this node's own claim, puts it into the
        store."""
        if find_own_boundary(self.get_view(), dispute) is not None:
            await self.segments.restore_boundary(dispute.statement.round, dispute.segment, dispute.clock)
        return find_start(self.get_view(), dispute)


def _require_bound(
    view: View, claimed: Claimed, known: KnownVote, headers: Sequence[StateHeader], shown: StepsShown
) -> None:
    """Raises ProtocolFault unless the states run from the vote's start leaf to its sealed end, and that leaf
    is in the claim. Without this check a liar could show honest steps from another start. In an exact task,
    the steps of an ACCEPT must also end where the claim does. The contract checks the same."""
    vote, roots = known.vote, [compute_state_root(headers[at]) for at in (0, -1)]
    claim = find_claim(get_now(view), claimed.round, claimed.slot)
    solver, segments = ("", 0) if claim is None else (claim.account, claim.segments)
    place = (vote.domain, vote.round, solver, vote.segment)
    sealed = (vote.domain, vote.round, vote.slot, vote.draw, vote.rank, known.auditor, vote.start_leaf)
    starts = [compute_boundary_leaf(*place, salt, roots[0]) for salt in shown.salts[:1]]
    seals = [compute_seal(*sealed, roots[1], salt) for salt in shown.salts[1:]]
    ends = [compute_boundary_leaf(*place[:3], vote.segment + 1, salt, roots[1]) for salt in shown.salts[1:]]
    is_same = view.game.terms.is_exact and vote.word == VoteWord.ACCEPT
    if is_same and vote.end_leaf not in ends:
        raise _blame(claimed.peer, "another end than the vote accepts", vote.end_leaf, ends)
    if vote.start_leaf not in starts or vote.seal not in seals:
        expected, actual = (vote.start_leaf, vote.seal), (starts, seals)
        raise _blame(claimed.peer, "other ends than the vote seals", expected, actual)
    try:
        verify_in_claim(vote.claim_root, vote.start_leaf, vote.segment, segments, shown.path)
    except ProtocolFault as fault:
        what = "a start that is not in the claim"
        raise _blame(claimed.peer, what, fault.expected, fault.actual) from fault


def _require_placed(view: View, claimed: Claimed, headers: Sequence[StateHeader]) -> None:
    """Raises ProtocolFault unless the states have the step counters of the segment. The contract takes no
    others, because the learning rate follows from them."""
    terms, local = view.spec.terms, headers[0].local_step
    begin = claimed.round * terms.inner_steps + claimed.segment * terms.segment_steps
    expected = [(min(local, begin) + step, begin + step) for step in range(len(headers))]
    actual = [(header.local_step, header.global_step) for header in headers]
    if actual != expected:
        raise _blame(claimed.peer, "wrong step counters", expected, actual)


def _blame(peer: Peer, what: str, expected: object, actual: object) -> ProtocolFault:
    return ProtocolFault(
        what=f"a peer showed wrong step states of a segment: {what}",
        expected=expected,
        actual=actual,
        culprit=peer.account,
        remedy="Judge the segment by its ends.",
    )


def find_false_step(verdicts: Sequence[Verdict]) -> int | None:
    """Returns the first step that exceeds the limits, or None."""
    last = len(verdicts) - 1
    return last if verdicts[last].exceeds_limits else None


def _find_judged(view: View, dispute: InnerDispute) -> int | None:
    """Returns the false step that this node's records name for the disputed segment, if the posted roots
    around it match."""
    for statement_key, case in view.cases.cases.items():
        if (statement_key.ref, statement_key.segment) == (
            dispute.statement,
            dispute.segment,
        ) and case.step != NO_STEP:
            around = dispute.roots[case.step : case.step + 2]
            if tuple(around) == (case.before, case.after):
                return case.step
    return None


def make_claimed(view: View, dispute: InnerDispute) -> Claimed:
    """Returns the claimant of a disputed segment, and the block until which this node waits for its steps.
    Raises EnvironmentFault if the claimant has no endpoint."""
    peer = view.chain_state.network.find(get_now(view).seats[dispute.seat].account)
    place = (dispute.statement.round, dispute.statement.slot, dispute.segment)
    return Claimed(peer, *place, start_waiting(view, get_half_time(view, dispute)))


def find_start(view: View, dispute: InnerDispute) -> StateHeader:
    """Returns the state that the disputed segment starts from, out of this node's own claim or as the solver
    showed it. Raises EnvironmentFault if neither is known."""
    ref, found = dispute.statement, find_own_boundary(view, dispute)
    if found is None:
        shown = view.audits.get_openings(ref.round, ref.slot).boundaries.get(dispute.segment)
        found = None if shown is None else shown.header
    if found is None or compute_state_root(found) != dispute.roots[0]:
        raise EnvironmentFault(
            what="the start of a disputed segment is not known",
            expected=f"the opening of boundary {dispute.segment} of round {ref.round}, slot {ref.slot}",
            actual="none",
            remedy="Wait until the claimant shows its states.",
        )
    return found


def format_name(dispute: InnerDispute) -> str:
    """Returns the first eight hex digits of a dispute's name, for messages."""
    return dispute.name.hex()[:8]
