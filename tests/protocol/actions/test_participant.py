"""What a participant decides beyond the pure rules, and that each call goes where it belongs."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from protocol.actions import claim
from protocol.actions.challenge import name_solver_claim
from protocol.actions.defend import compute_step_roots
from protocol.actions.participant import CheckOuter, ComputeOwnRoots, EndContest, Participant, is_finished
from protocol.actions.party import JOURNAL_FILE
from protocol.actions.suspicion import AnswerSlander
from protocol.compute.step import train_segment
from protocol.spec import calls, events
from protocol.spec.codec import compute_state_root
from protocol.spec.contest import ContestState
from protocol.spec.dispute_moves import DemandLeaf, Move, NameStep, PostStepRoots, PostTrace, Timeout
from protocol.spec.drawn import Drawn, get_drawn
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game_events import (
    Contested,
    DisputeActivated,
    DisputeOpened,
    StepNamed,
    StepRootsPosted,
    TracePosted,
)
from protocol.spec.keeping import SPREAD_BLOCKS, Seal
from protocol.spec.merkle import hash_leaf, is_valid_path
from protocol.spec.program_codec import LEAVES_BEFORE_NODES
from protocol.spec.round import RoundState, get_settle_block
from protocol.spec.statuses import AuditStatus, Role
from protocol.spec.tolerance import Judgement
from tests.protocol.actions.audits import REF, Audited, audit_claim, replay_and_reveal
from tests.protocol.actions.facts import ALICE, BOB, MALLORY, TASK, at
from tests.protocol.actions.lone import SOLVER, Lone, make_lone
from tests.protocol.actions.outcomes import accept_claim, post_outer
from tests.protocol.spec.plots import play_plot
from tests.protocol.spec.simulator import make_word

CLOCK = 100
OUTER_BLOCK = 21
"""Where `post_outer` posts."""


def decide(lone: Lone, block: int) -> list[Hashable]:
    return list(make_participant(lone).decide(block).actions)


def make_participant(lone: Lone) -> Participant:
    if lone.party.account == SOLVER:
        return Participant(lone.party, get_solver_actions)
    return Participant(lone.party, partial(get_auditor_actions, role=Role.VERIFIER))


# --- Duties -------------------------------------------------------------------------------------------------
async def test_training_is_done_when_the_journal_has_the_claim(solver: Lone) -> None:
    block = solver.party.round(0).deadlines.train_end - 1
    assert [type(one) for one in decide(solver, block)] == [calls.Train, calls.CommitClaim]
    await claim.prepare_claim(solver.party, 0, 0, train_segment)
    assert [type(one) for one in decide(solver, block)] == [calls.CommitClaim]


async def test_a_replay_is_done_when_the_journal_has_the_result(solver: Lone) -> None:
    audited = await audit_claim(solver)
    clock = audited.verifier.party.round(0).deadlines

    def list_audits() -> list[Hashable]:
        due = decide(audited.verifier, clock.replay_end - 1)
        return [one for one in due if isinstance(one, calls.Replay | calls.CommitReplay)]

    replaying = calls.Replay(0, REF, audited.segment)
    assert list_audits() == [replaying], "there is nothing to commit to yet"
    await make_participant(audited.verifier).perform(replaying)
    assert list_audits() == [calls.CommitReplay(0, REF, audited.segment)]


async def test_who_cannot_have_the_start_says_so_before_time_runs_out(solver: Lone) -> None:
    audited = await audit_claim(solver)
    audited.withhold()
    await make_participant(audited.verifier).perform(calls.CommitReplay(0, REF, audited.segment))
    assert audited.verifier.chain.list_sent("say_unserved") == [(REF,)]


async def test_a_chain_that_does_not_answer_is_no_reason_to_blame_the_solver(solver: Lone) -> None:
    audited = await audit_claim(solver)
    fault = EnvironmentFault(what="no answer", expected="one", actual="none", remedy="Wait.")
    audited.verifier.chain.answers["commit_replay"] = fault
    with pytest.raises(EnvironmentFault):
        await make_participant(audited.verifier).perform(calls.CommitReplay(0, REF, audited.segment))
    assert not audited.verifier.chain.list_sent("say_unserved")


async def draw_both(solver: Lone) -> tuple[Audited, list[Drawn]]:
    """A claim of whose two draws one verifier is the primary, and both starts are opened."""
    audited = await audit_claim(solver)
    verifier = audited.verifier.party
    for number in count():
        seed = make_word("draw", number)
        audited.take(events.DrawSealed(block_number=6, task=TASK, round=0, draw_seed=seed))
        drawn = [get_drawn(verifier.round(0), 0, draw) for draw in range(2)]
        found = [one for one in drawn if one is not None and one.primary == verifier.account]
        if len(found) == 2:
            break
    for draw, one in enumerate(found):
        start = audited.boundary(one.segment)
        audited.take(events.StartOpened(block_number=7, task=TASK, round=0, slot=0, draw=draw, start=start))
    return audited, found


async def attempt_all(participant: Participant, block: int) -> None:
    """What is due in a block, each for itself, as the loop does it."""
    due = participant.decide(block).actions
    await asyncio.gather(*map(participant.perform, due), return_exceptions=True)


async def test_a_draw_that_is_not_served_keeps_no_other_commitment_back(solver: Lone) -> None:
    audited, drawn = await draw_both(solver)
    verifier, other = audited.verifier, replace(REF, draw=1)
    participant, clock = make_participant(verifier), verifier.party.round(0).deadlines
    await participant.perform(calls.Replay(0, REF, drawn[0].segment))
    audited.withhold()
    last = clock.replay_end - verifier.party.spec.terms.windows.replay // 4
    await attempt_all(participant, last)
    assert verifier.chain.list_sent("say_unserved") == [(other,)]
    sent = [ref for ref, _ in verifier.chain.list_sent("commit_replay")]
    sent += [ref for refs, _ in verifier.chain.list_sent("commit_replays") for ref in refs]
    assert sent == [REF]


async def test_draws_that_are_ready_are_committed_together(solver: Lone) -> None:
    audited, drawn = await draw_both(solver)
    participant = make_participant(audited.verifier)
    refs = [replace(REF, draw=draw) for draw in range(2)]
    for ref, one in zip(refs, drawn, strict=True):
        await participant.perform(calls.Replay(0, ref, one.segment))
    await attempt_all(participant, audited.verifier.party.round(0).deadlines.replay_end - 1)
    [(sent, _)] = audited.verifier.chain.list_sent("commit_replays")
    assert sent == refs and not audited.verifier.chain.list_sent("commit_replay")


async def test_who_comes_back_without_its_journal_does_not_go_on(solver: Lone) -> None:
    await audit_claim(solver)
    home = solver.party.config.home
    solver.party.journal.close()
    for file in home.glob(f"{JOURNAL_FILE}*"):
        file.unlink()
    again = make_lone(home)
    again.take(*solver.party.view.events[-3:])
    with pytest.raises(EnvironmentFault, match="lacks what this account committed to.*claim on round 0"):
        await make_participant(again).run()
    assert not again.chain.sent


CALLS: list[tuple[calls.Call, str, tuple[Any, ...]]] = [
    (calls.Enrol(1, Role.SOLVER), "enrol", (TASK, 1, Role.SOLVER)),
    (calls.Advance(1), "advance", (TASK,)),
    (calls.Judge(1, 2), "judge", (TASK, 1, 2)),
    (calls.SettleMerge(1), "settle_merge", (TASK, 1)),
    (calls.SettleClaim(1, 2), "settle_claim", (TASK, 1, 2)),
    (calls.SettleEnrolments(1, 2, 3), "settle_enrolments", (TASK, 1, 2, 3)),
]


@pytest.mark.parametrize(("call", "method", "arguments"), CALLS)
async def test_calls_go_to_their_function(
    solver: Lone, call: calls.Call, method: str, arguments: tuple[Any, ...]
) -> None:
    await make_participant(solver).perform(call)
    assert solver.chain.sent == [(method, arguments)]


SEALS: list[tuple[Seal, str, Callable[[RoundState], int], tuple[Any, ...]]] = [
    (calls.SealBeacon(0), "seal_beacon", lambda state: state.deadlines.beacon_block, (TASK, 0)),
    (calls.SealDraw(0), "seal_draw", lambda state: state.deadlines.draw_block, (TASK, 0)),
    (calls.SealLate(0), "seal_late", lambda state: OUTER_BLOCK + state.terms.windows.delay, (TASK, 0)),
    (
        calls.SealLeaves(0, 1),
        "seal_leaves",
        lambda state: state.deadlines.reserves.leaves_block,
        (TASK, 0, 1),
    ),
]


@pytest.mark.parametrize(("call", "method", "find_block", "arguments"), SEALS)
async def test_a_seal_shows_the_randomness_of_its_block(
    solver: Lone, call: Seal, method: str, find_block: Callable[[RoundState], int], arguments: tuple[Any, ...]
) -> None:
    audited = await audit_claim(solver)
    accept_claim(audited)
    post_outer(audited, bytes(32), bytes(32), ALICE)
    solver.chain.sent.clear()
    solver.chain.answers["randomness.prove"] = b"header"
    await make_participant(solver).perform(call)
    block = find_block(solver.party.round(0))
    assert solver.chain.sent == [("prove", (block,)), (method, (*arguments, b"header"))]


async def test_a_solver_opens_the_boundaries_that_are_asked(solver: Lone) -> None:
    audited = await audit_claim(solver)
    participant = make_participant(solver)
    await participant.perform(calls.OpenStart(0, 1, 2))
    await participant.perform(calls.OpenEnd(0, 1, 3, 4))
    [(_, _, draw, start)] = solver.chain.list_sent("open_start")
    assert draw == 1 and start.header == audited.boundary(2)
    [(_, _, draw, end, last)] = solver.chain.list_sent("open_end")
    assert draw == 1 and (end.header, last.header) == (audited.boundary(3), audited.boundary(4))


# --- Disputes -----------------------------------------------------------------------------------------------
def open_dispute(audited: Audited, opener: str) -> None:
    claim_ref = name_solver_claim(REF, audited.segment)
    audited.take(
        DisputeOpened(
            block_number=30, dispute=b"d", claim=claim_ref, claimant=SOLVER, opener=opener, bond_wei=1
        ),
        DisputeActivated(block_number=30, dispute=b"d", clock_block=CLOCK),
    )


async def test_an_accused_solver_posts_its_roots_and_its_accuser_names_the_first_that_differs(
    solver: Lone,
) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    open_dispute(audited, opener=audited.verifier.party.account)
    assert PostStepRoots(b"d", 3) in decide(solver, 31)
    roots = (bytes(32), b"\1" * 32, b"\2" * 32)
    audited.take(StepRootsPosted(block_number=32, dispute=b"d", roots=roots))
    accuser = make_participant(audited.verifier)
    assert ComputeOwnRoots(b"d") in accuser.decide(33).actions
    await accuser.perform(ComputeOwnRoots(b"d"))
    actions = accuser.decide(33).actions
    assert NameStep(b"d", 0) in actions
    await accuser.perform(NameStep(b"d", 0))
    assert audited.verifier.chain.list_sent("name_step") == [(b"d", 0, roots)]


async def test_who_leaves_the_end_of_a_dispute_to_its_opener_wakes_up_when_it_is_its_own_turn(
    solver: Lone,
) -> None:
    audited = await audit_claim(solver)
    open_dispute(audited, opener=MALLORY)
    after = get_settle_block(solver.party.round(0), CLOCK) + CLOCK  # The round has nothing left to wait for.
    audited.take(DisputeActivated(block_number=31, dispute=b"d", clock_block=after))
    participant = make_participant(solver)
    assert Timeout(b"d") not in participant.decide(after).actions
    assert participant.decide(after).next_block == after + SPREAD_BLOCKS
    assert Timeout(b"d") in participant.decide(after + SPREAD_BLOCKS).actions


async def test_a_named_step_is_the_solver_s_turn(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    open_dispute(audited, opener=audited.verifier.party.account)
    roots = compute_step_roots(solver.party, name_solver_claim(REF, audited.segment))
    audited.take(
        StepRootsPosted(block_number=32, dispute=b"d", roots=roots),
        StepNamed(block_number=33, dispute=b"d", step=1, clock_block=CLOCK),
    )
    assert PostTrace(b"d") in decide(solver, 34)
    assert not any(isinstance(one, Move) for one in decide(audited.verifier, 34))
    await make_participant(solver).perform(PostTrace(b"d"))
    [(name, _, root, start, end, _)] = solver.chain.list_sent("post_trace")
    assert (name, compute_state_root(end)) == (b"d", roots[2])
    audited.take(
        TracePosted(block_number=35, dispute=b"d", trace_root=root, start=start, end=end, clock_block=CLOCK)
    )
    assert not any(isinstance(one, Move) for one in decide(solver, 36))


async def test_a_demand_shows_the_node_and_its_answer_the_leaf(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    open_dispute(audited, opener=audited.verifier.party.account)
    accuser = make_participant(audited.verifier)
    await accuser.perform(DemandLeaf(b"d", 5, 0, 0))
    [(name, facts, node, place, leaf_index)] = audited.verifier.chain.list_sent("demand_leaf")
    assert (name, node.number, place, leaf_index) == (b"d", 5, 0, 0)
    count = LEAVES_BEFORE_NODES + facts.program_nodes
    assert is_valid_path(facts.program_root, hash_leaf(node.data), LEAVES_BEFORE_NODES + 5, count, node.path)


async def test_a_slandered_solver_accuses_its_auditor_once(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    judged = events.AuditJudged(**at(30), draw=0, rank=0, status=AuditStatus.REJECTS, worst=Judgement.REJECT)
    audited.take(judged)
    participant = make_participant(solver)
    participant.react(judged)
    assert any("rejects" in line for line in solver.lines)
    [answer] = list_answers(solver)
    await participant.perform(answer)
    [made] = solver.party.memory.accusations
    assert (made.draw, made.rank, made.by_solver) == (0, 0, False)
    assert list_answers(solver) == []


def list_answers(solver: Lone) -> list[AnswerSlander]:
    actions = decide(solver, 30)
    return [action for action in actions if isinstance(action, AnswerSlander)]


# --- Contests -----------------------------------------------------------------------------------------------
async def make_contested(solver: Lone, rival: str, poster: str) -> Audited:
    audited = await audit_claim(solver)
    accept_claim(audited)
    post_outer(audited, bytes(32), bytes(32), poster)
    audited.take(
        Contested(
            block_number=22, task=TASK, round=0, rival=rival, weights_root=b"\1" * 32,
            momentum_root=bytes(32), tensor=0, clock_block=CLOCK,
        )
    )  # fmt: skip
    return audited


def list_contest_actions(lone: Lone, block: int) -> list[type]:
    wanted = (ContestState, EndContest)
    return [type(one) for one in decide(lone, block) if isinstance(one, wanted)]


async def test_a_poster_moves_before_the_clock_and_anybody_ends_the_contest_after_it(solver: Lone) -> None:
    audited = await make_contested(solver, rival=ALICE, poster=SOLVER)
    assert list_contest_actions(solver, CLOCK - 1) == [ContestState]
    assert list_contest_actions(audited.verifier, CLOCK - 1) == []
    assert list_contest_actions(solver, CLOCK) == [EndContest]
    assert list_contest_actions(audited.verifier, CLOCK) == []
    assert list_contest_actions(audited.verifier, CLOCK + 16) == [EndContest]


async def test_a_contest_of_a_replaced_root_is_ended_at_once(solver: Lone) -> None:
    audited = await make_contested(solver, rival=ALICE, poster=MALLORY)
    assert list_contest_actions(solver, 30) == []
    post_outer(audited, b"\3" * 32, bytes(32), BOB)
    assert list_contest_actions(solver, 30) == [EndContest]


async def test_every_posted_root_is_checked_also_one_that_took_the_place_of_another(solver: Lone) -> None:
    audited = await make_contested(solver, rival=ALICE, poster=MALLORY)
    participant = make_participant(audited.verifier)

    def list_checks() -> list[Hashable]:
        return [one for one in participant.decide(30).actions if isinstance(one, CheckOuter)]

    [check] = list_checks()
    await participant.perform(check)
    assert list_checks() == [] and len(audited.verifier.chain.list_sent("contest")) == 1
    post_outer(audited, b"\3" * 32, bytes(32), ALICE)
    assert len(list_checks()) == 1 and list_checks() != [check]


# --- The end ------------------------------------------------------------------------------------------------
def test_a_round_is_finished_when_everything_is_settled_and_the_next_one_runs() -> None:
    done = play_plot("all honest").sim.state
    block = done.start_block + 10_000
    assert is_finished(done, block)
    assert not is_finished(replace(done, is_advanced=False), block)
    assert is_finished(replace(done, is_advanced=False, index=done.terms.rounds - 1), block)
    assert not is_finished(replace(done, settled_slots=frozenset()), block)
    assert not is_finished(replace(done, settled_accounts=frozenset()), block)


async def test_an_open_last_round_keeps_the_node_up(solver: Lone) -> None:
    participant = make_participant(solver)
    assert not participant.is_over()
    solver.take(events.TaskClosed(block_number=30, task=TASK, refund_wei=0))
    assert participant.is_over()
