"""What the roles of a round do alike: join a task, take the duties that the pure rules name, perform each.

A role is a `Participant` with the list of its own duties. All that a node ever says on chain goes through
`perform`.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.actions import (
    attention,
    boundaries,
    challenge,
    claim,
    defend,
    fallen,
    merging,
    prosecute,
    replay,
    review,
    steps,
)
from protocol.actions.defend import HONEST, Compute
from protocol.actions.loop import Due, Loop
from protocol.actions.memory import require_records
from protocol.actions.narrate import narrate
from protocol.actions.party import Party
from protocol.actions.suspicion import (
    AnswerSlander,
    ExamineEnd,
    ExaminePseudoGradient,
    OpenAccusation,
    list_comparable,
    list_suspicions,
)
from protocol.actions.together import Together, hold_commitments, join_calls
from protocol.spec import calls, dispute_moves
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.contest import ContestState, Turn, is_move_of
from protocol.spec.dispute import OPEN_STAGES, DisputeState
from protocol.spec.dispute_moves import Move, get_next_dispute_deadline
from protocol.spec.duties import get_next_deadline
from protocol.spec.events import Event
from protocol.spec.guards import has_poster
from protocol.spec.keeping import (
    SPREAD_BLOCKS,
    Seal,
    get_keeper_actions,
    get_my_keeper_actions,
    get_sealed_block,
)
from protocol.spec.round import (
    OuterRoot,
    RoundState,
    get_audit,
    get_claim,
    is_empty,
)
from protocol.spec.statuses import AuditStatus, ClaimStatus, RoundStatus


@dataclass(frozen=True)
class CheckOuter:
    """Compute the outer step of a round and contest a posted root that is another. A root that took its place
    is checked anew."""

    round: int
    posted: OuterRoot


@dataclass(frozen=True)
class ComputeOwnRoots:
    """Replay a disputed segment and keep the step roots, to name the step where the claimant's part from
    them, or to see whether somebody else has named it."""

    dispute: bytes


@dataclass(frozen=True)
class Prosecute:
    """Look for a fault in the posted trace of a dispute, and prove it."""

    dispute: bytes


@dataclass(frozen=True)
class ShowClaim:
    """Show all states of this node's claim on a round, now that no auditor can copy them."""

    round: int


@dataclass(frozen=True)
class ShowSteps:
    """Recompute a segment of this node's claim and show the states after its steps: somebody asked."""

    round: int
    segment: int


@dataclass(frozen=True)
class EndContest:
    """End a contest whose clock ran out, or whose posted root another one took the place of."""

    contest: ContestState


@dataclass
class Participant:
    """One role on one task. `list_duties` gives the role's own calls in a round; `compute` is what all of
    them trust; `own_replays` segments a round are replayed of its own accord at most (0: no round is
    reviewed, and auditors of fallen claims are judged by what is at hand)."""

    party: Party
    list_duties: Callable[[RoundState, str, int], tuple[Call, ...]]
    compute: Compute = HONEST
    own_replays: int = 0
    done: set[Hashable] = field(default_factory=set)
    own_roots: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    sending: set[Call] = field(default_factory=set)
    """What is under way with others in one transaction."""

    async def run(self) -> None:
        """Take part until the task is closed, or everything of its last round is settled. Raises
        EnvironmentFault where the journal is not the one of what this account did before."""
        rounds = self.party.view.tasks[self.party.task].rounds
        require_records(self.party.memory, rounds, self.party.account)
        await Loop[Hashable](self.party, self.decide, self.perform, self.react, self.is_over).run()

    # --- Deciding ------------------------------------------------------------------------------------------
    def decide(self, block: int) -> Due[Hashable]:
        """All that is due for this node in `block`, and the next block after it in which more may become
        due."""
        rounds = [
            state for state in self.party.view.tasks[self.party.task].rounds if not is_finished(state, block)
        ]
        actions = [action for state in rounds for action in self._list_actions(state, block)]
        actions += list(self._list_dispute_actions(block))
        actions += list(self._list_contest_actions(block))
        actions += [ShowSteps(*place) for place in steps.list_wanted(self.party, block)]
        clocks = [self._get_next_block(state, block) for state in rounds]
        clocks += [
            self._get_next_dispute_block(state, block)
            for state in self.party.view.disputes[self.party.task].disputes.values()
        ]
        clocks += [
            contest.clock_block for contest in self.party.view.contests.values() if contest.turn != Turn.NONE
        ]
        return Due(actions, min(clocks, default=NEVER))

    def _list_actions(self, state: RoundState, block: int) -> Iterator[Hashable]:
        me = self.party.account
        duties = (duty for duty in self.list_duties(state, me, block) if self._is_open(duty))
        yield from join_calls(state, hold_commitments(state, duties, block))
        yield from join_calls(
            state, (call for call in get_my_keeper_actions(state, me, block) if call not in self.sending)
        )
        yield from list_suspicions(self.party, state, self.done, self.own_roots)
        yield from (todo for todo in self._list_own_accord(state, block) if todo not in self.done)
        if state.outer is not None and state.outer.poster != me:
            check = CheckOuter(state.index, state.outer)
            yield from () if check in self.done else (check,)

    def _list_own_accord(self, state: RoundState, block: int) -> Iterator[Hashable]:
        if state.index in self.party.memory.claims and boundaries.is_claim_shown(
            state, self.party.account, block
        ):
            yield ShowClaim(state.index)
        yield from fallen.list_judgements(self.party, state, block, self.done, self.own_replays)
        if self.own_replays and review.is_review_due(state, block):
            yield review.ReviewRound(state.index)

    def _is_open(self, duty: Call) -> bool:
        """Off-chain duties stay due until the call that follows them; here they are done once the
        journal has the result, and the commitment is due only then: what goes with it in one transaction must
        not wait for a replay that fails."""
        if duty in self.sending:
            return False
        memory = self.party.memory
        match duty:
            case calls.Train():
                is_known = memory.is_dealt(self.party.round(duty.round)) and duty.round in memory.claims
                return not is_known
            case calls.Replay():
                return memory.find_audit(self.party.round(duty.audit.round), duty.audit.key) is None
            case calls.CommitReplay():
                return memory.find_audit(self.party.round(duty.audit.round), duty.audit.key) is not None
            case calls.ServeState():
                return False
        return True

    def _list_dispute_actions(self, block: int) -> Iterator[Hashable]:
        yield from map(ComputeOwnRoots, list_comparable(self.party, self.own_roots))
        for state in self.party.view.disputes[self.party.task].disputes.values():
            if state.stage in OPEN_STAGES:
                yield from self._list_moves(state, block)

    def _list_moves(self, state: DisputeState, block: int) -> Iterator[Hashable]:
        me = self.party.account
        if me == state.claimant:
            yield from dispute_moves.get_claimant_actions(state, me, block)
        elif state.roots and me == state.opener and state.dispute not in self.own_roots:
            yield ComputeOwnRoots(state.dispute)
        elif me == state.opener:
            yield from dispute_moves.get_opener_actions(
                state, me, block, self.own_roots.get(state.dispute, ())
            )
            if state.trace is not None and (todo := Prosecute(state.dispute)) not in self.done:
                yield todo
        patience = self._get_patience(state)
        yield from dispute_moves.get_timeout_actions(state, block - patience, self._is_convicted(state))

    def _get_patience(self, state: DisputeState) -> int:
        """The opener waits for the end of its dispute; others see to it only where the opener does not."""
        return 0 if self.party.account == state.opener else SPREAD_BLOCKS

    def _get_next_dispute_block(self, state: DisputeState, block: int) -> int:
        """When a clock runs out, and when it is this node's to say so."""
        patience = self._get_patience(state)
        sent = get_next_dispute_deadline(state, block - patience) + patience
        return min(get_next_dispute_deadline(state, block), sent)

    def _is_convicted(self, state: DisputeState) -> bool:
        ref, round_state = state.claim.audit, self.party.round(state.claim.audit.round)
        if state.claim.by_solver:
            return get_claim(round_state, ref.slot).status == ClaimStatus.CONVICTED
        return get_audit(round_state, ref.key).status == AuditStatus.SLASHED

    def _list_contest_actions(self, block: int) -> Iterator[Hashable]:
        """The move that is this node's, or the end of a contest whose clock ran out or whose posted root was
        replaced: without it the bonds and the next round would wait for ever."""
        for contest in self.party.view.contests.values():
            if contest.task != self.party.task or contest.turn == Turn.NONE:
                continue
            state, me = self.party.round(contest.round), self.party.account
            assert state.outer is not None
            is_replaced = contest.rival not in state.contests
            if is_replaced or block >= contest.clock_block:
                patience = 0 if me in (contest.rival, state.outer.poster) else SPREAD_BLOCKS
                if is_replaced or block >= contest.clock_block + patience:
                    yield EndContest(contest)
            elif is_move_of(contest, me, state.outer.poster):
                yield contest

    def _get_next_block(self, state: RoundState, block: int) -> int:
        # A call that is due, but not yet ours to send, may become ours in any block.
        waits = set(get_keeper_actions(state, block)) - set(
            get_my_keeper_actions(state, self.party.account, block)
        )
        return block + 1 if waits else get_next_deadline(state, block)

    # --- Performing ----------------------------------------------------------------------------------------
    async def perform(self, action: Hashable) -> None:
        """Do one thing that is due."""
        if isinstance(action, Call):
            await self._perform_call(action)
        elif isinstance(action, Together):
            await self._perform_together(action)
        elif isinstance(action, Move):
            await self._perform_move(action)
        else:
            await self._perform_own(action)

    async def _perform_call(self, call: Call) -> None:
        party, task = self.party, self.party.task
        registry, ledger, book = party.chain.registry, party.chain.ledger, party.chain.audit_book
        match call:
            case calls.Enrol():
                await registry.enrol(task, call.round, call.role)
            case calls.Train():
                await claim.prepare_claim(party, call.round, call.slot, self.compute.train)
            case calls.CommitClaim():
                slot = claim.get_own_slot(party, call.round)
                await claim.commit_claim(party, call.round, slot, self.compute.train)
            case calls.OpenStart():
                await book.open_start(
                    task, call.round, call.draw, claim.open_boundary(party, call.round, call.boundary)
                )
            case calls.OpenEnd():
                ends = (
                    claim.open_boundary(party, call.round, at) for at in (call.boundary, call.last_boundary)
                )
                await book.open_end(task, call.round, call.draw, *ends)
            case calls.OpenLeaves():
                await claim.open_end_leaves(party, call.round, call.draw, call.phase, call.indices)
            case calls.Replay() | calls.CommitReplay():
                await self._audit(call)
            case calls.Reveal():
                await replay.reveal(party, call.audit)
            case calls.CompareLeaves():
                await challenge.compare_leaves(party, call.audit, call.indices, self.compute.train)
            case calls.SealBeacon():
                await registry.seal_beacon(task, call.round, await self._prove(call))
            case calls.Advance():
                await registry.advance(task)
            case calls.SealDraw():
                await ledger.seal_draw(task, call.round, await self._prove(call))
            case calls.SealLate():
                await ledger.seal_late(task, call.round, await self._prove(call))
            case calls.SealLeaves():
                await book.seal_leaves(task, call.round, call.phase, await self._prove(call))
            case calls.Judge():
                await ledger.judge(task, call.round, call.slot)
            case calls.PostOuter():
                await merging.post_outer(party, call.round)
            case calls.SettleMerge():
                await ledger.settle_merge(task, call.round)
            case calls.SettleClaim():
                await ledger.settle_claim(task, call.round, call.slot)
            case calls.SettleEnrolments():
                await ledger.settle_enrolments(task, call.round, call.first, call.end)

    async def _prove(self, call: Seal) -> bytes:
        """The randomness that a seal takes, as its contract wants it shown."""
        block = get_sealed_block(self.party.round(call.round), call, self.party.view.head_block)
        return await self.party.chain.randomness.prove(block)

    async def _perform_together(self, together: Together) -> None:
        self.sending.update(together.calls)
        try:
            await self._send_together(list(together.calls))
        finally:
            self.sending.difference_update(together.calls)

    async def _send_together(self, same: list[Any]) -> None:
        party, first, last = self.party, same[0], same[-1]
        match first:
            case calls.OpenStart():
                await claim.open_starts(party, first.round, [call.boundary for call in same])
            case calls.OpenEnd():
                await claim.open_ends(
                    party, first.round, [call.boundary for call in same], first.last_boundary
                )
            case calls.CommitReplay():
                await replay.commit_replays(party, [call.audit for call in same])
            case calls.Reveal():
                await replay.reveals(party, [call.audit for call in same])
            case calls.Judge():
                await party.chain.ledger.judge_claims(party.task, first.round, first.slot, last.slot + 1)
            case calls.SettleClaim():
                await party.chain.ledger.settle_claims(party.task, first.round, first.slot, last.slot + 1)

    async def _audit(self, call: calls.Replay | calls.CommitReplay) -> None:
        """Replay or commit; when the start state cannot be had in time, say so instead of staying silent."""
        try:
            if isinstance(call, calls.Replay):
                await replay.prepare_replay(self.party, call.audit, call.segment, self.compute.train)
            else:
                await replay.commit_replay(self.party, call.audit, call.segment, self.compute.train)
        except replay.NotServed as fault:
            self.party.say(f"round {call.round} slot {call.audit.slot}: {fault.what}")
            attention.publish_unserved(self.party, call.audit, call.segment)
            await self.party.chain.audit_book.say_unserved(call.audit)

    async def _perform_move(self, move: Move) -> None:
        game, state = self.party.chain.dispute_game, self._find_dispute(move.dispute)
        match move:
            case dispute_moves.PostStepRoots():
                await defend.post_step_roots(self.party, move.dispute, state.claim, self.compute)
            case dispute_moves.PostTrace():
                await defend.post_trace(self.party, state, self.compute)
            case dispute_moves.AnswerDemand():
                await defend.answer_demand(self.party, state, move, self.compute)
            case dispute_moves.NameStep():
                await game.name_step(move.dispute, move.step, state.roots)
            case dispute_moves.DemandLeaf():
                await challenge.demand_leaf(self.party, move)
            case dispute_moves.Timeout():
                await game.timeout(move.dispute)

    def _find_dispute(self, name: bytes) -> DisputeState:
        return self.party.view.disputes[self.party.task].disputes[name]

    async def _perform_own(self, action: Hashable) -> None:
        match action:
            case ExamineEnd():
                await challenge.examine_end(self.party, action.audit, action.segment, self.compute.train)
                self.done.add(action)
            case ExaminePseudoGradient():
                await challenge.examine_pseudo_gradient(self.party, action.round, action.slot, action.draw)
                self.done.add(action)
            case AnswerSlander():
                await challenge.answer_slander(self.party, action.claim, self.compute.train)
                self.done.add(action)
            case OpenAccusation():
                await challenge.open_accusation(self.party, action.made)
            case fallen.JudgeAudits():
                await fallen.judge_audits(self.party, action, self.compute.train)
                self.done.add(action)
            case ShowClaim():
                await boundaries.show_claim(self.party, action.round)
                self.done.add(action)
            case ShowSteps():
                await steps.show_steps(self.party, action.round, action.segment, self.compute)
            case review.ReviewRound():
                self.done.add(action)
                await review.review_round(self.party, action.round, self.own_replays, self.compute.train)
            case CheckOuter():
                await merging.check_outer(self.party, action.round)
                self.done.add(action)
            case ComputeOwnRoots():
                state = self._find_dispute(action.dispute)
                self.own_roots[action.dispute] = await prosecute.find_own_roots(
                    self.party, state, self.compute
                )
            case Prosecute():
                await prosecute.prosecute(self.party, self._find_dispute(action.dispute))
                self.done.add(action)
            case ContestState():
                await merging.play_contest(self.party, action)
            case EndContest():
                await merging.end_contest(self.party, action.contest)

    # --- Watching ------------------------------------------------------------------------------------------
    def react(self, event: Event) -> None:
        """Tell the operator what matters."""
        line = narrate(event, self.party.account)
        if line:
            self.party.say(line)

    def is_over(self) -> bool:
        """Whether nothing of the task is left to do for anybody."""
        task, block = self.party.view.tasks[self.party.task], self.party.view.head_block
        is_last = len(task.rounds) == task.terms.rounds
        return task.is_closed or (is_last and all(is_finished(state, block) for state in task.rounds))


def is_finished(state: RoundState, block: int) -> bool:
    """Whether everything of a round is settled and the next one is under way, if there is one."""
    accounts = {*state.verifiers, *state.whistleblowers}
    is_settled = len(state.settled_slots) == len(state.solvers) and accounts <= state.settled_accounts
    is_settled = is_settled and (state.is_merge_settled or not has_poster(state))
    is_decided = state.status == RoundStatus.MERGED or is_empty(state, block)
    return is_decided and is_settled and (state.is_advanced or state.index == state.terms.rounds - 1)
