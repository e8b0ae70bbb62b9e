"""The state of a round: what events make of it, and what they never do."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from protocol.spec import events, game_events
from protocol.spec.round import (
    RoundState,
    get_claim,
    get_included,
    get_late_deadlines,
    get_merge_by,
    get_opening,
    get_role,
    get_settle_block,
    get_shard,
    is_accepting,
    process_event,
)
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimRef, ClaimStatus, Role, RoundStatus
from tests.protocol.spec.play import Play, Plot
from tests.protocol.spec.simulator import make_account, make_header, make_round, make_terms, make_word
from tests.protocol.spec.strategies import PLOTS

N, C, D, V, E, A, X = ClaimStatus
CLAIM_MOVES = {(N, C), (N, D), (C, V), (C, E), (C, A), (E, A), (E, V), (C, X), (E, X), (V, X), (A, X)}
S = AuditStatus
AUDIT_MOVES = {
    (S.NONE, S.COMMITTED), (S.NONE, S.UNSERVED), (S.NONE, S.ABSTAINED), (S.COMMITTED, S.REVEALED),
    (S.COMMITTED, S.SLASHED), (S.REVEALED, S.ACCEPTS), (S.REVEALED, S.REJECTS), (S.REVEALED, S.SLASHED),
    (S.ACCEPTS, S.SLASHED), (S.REJECTS, S.SLASHED),
}  # fmt: skip


def replay(play: Play) -> Iterator[RoundState]:
    state = make_round(make_terms())
    yield state
    for event in play.sim.log:
        state = process_event(state, event)
        yield state


def list_moves(states: list[RoundState]) -> Iterator[tuple[Any, Any]]:
    for before, after in zip(states, states[1:], strict=False):
        for slot, claim in after.claims.items():
            yield get_claim(before, slot).status, claim.status
        for key, audit in after.audits.items():
            yield before.audits[key].status if key in before.audits else S.NONE, audit.status


@settings(max_examples=25)
@given(PLOTS)
def test_statuses_only_move_along_their_edges(plot: Plot) -> None:
    states = list(replay(Play(plot).run()))
    moves = {(before, after) for before, after in list_moves(states) if before != after}
    assert moves <= CLAIM_MOVES | AUDIT_MOVES
    life = [int(state.status) for state in states]
    assert life == sorted(life)


@settings(max_examples=15)
@given(PLOTS)
def test_the_log_alone_gives_the_state(plot: Plot) -> None:
    play = Play(plot).run()
    assert list(replay(play))[-1] == play.sim.state


def make_trained(solvers: int = 2) -> RoundState:
    state = make_round(make_terms())
    where: dict[str, Any] = {"block_number": 101, "task": state.task, "round": 0}
    for i in range(solvers):
        enrolled = events.Enrolled(**where, role=Role.SOLVER, account=make_account(f"s{i}"), index=i)
        state = process_event(state, enrolled)
    state = process_event(state, events.BeaconSealed(**where, beacon=make_word("beacon")))
    for i in range(solvers):
        roots: dict[str, Any] = {"claim_root": make_word(i), "delta_root": make_word(i)}
        state = process_event(state, events.Committed(**where, slot=i, solver=make_account(f"s{i}"), **roots))
    return state


def judged(state: RoundState, slot: int, status: ClaimStatus, block: int = 150) -> RoundState:
    event = events.ClaimJudged(
        block_number=block, task=state.task, round=0, slot=slot, status=status, reason=bytes(32)
    )
    return process_event(state, event)


def posted(state: RoundState, block: int, poster: str = "0x" + 40 * "1") -> RoundState:
    roots: dict[str, Any] = {"weights_root": make_word("w"), "momentum_root": make_word("m")}
    where: dict[str, Any] = {"block_number": block, "task": state.task, "round": 0}
    state = process_event(state, events.OuterPosted(**where, **roots, poster=poster, included=1))
    return process_event(state, events.RoundMerged(**where, **roots, ready_block=block + 6))


def test_foreign_events_change_nothing() -> None:
    state = make_trained()
    foreign = [
        events.DrawSealed(block_number=1, task=make_word("other"), round=0, draw_seed=bytes(32)),
        events.DrawSealed(block_number=1, task=state.task, round=1, draw_seed=bytes(32)),
        events.RoundStarted(
            block_number=1, task=state.task, round=2, start_block=1, weights_root=b"", momentum_root=b""
        ),
        game_events.DisputeClosed(block_number=1, dispute=bytes(32)),
        game_events.Burned(block_number=1, amount_wei=1),
    ]
    assert all(process_event(state, event) is state for event in foreign)


def test_conviction_before_the_post_leaves_the_included_set() -> None:
    state = judged(judged(make_trained(), 0, A), 1, A)
    assert set(get_included(state)) == {0, 1}
    assert get_included(judged(state, 0, X)) == (1,)


def test_conviction_after_the_post_does_not_rewind() -> None:
    state = posted(judged(judged(make_trained(), 0, A), 1, A), 160)
    assert set(get_included(judged(state, 0, X))) == {0, 1}


def test_included_claims_stand_in_the_order_of_their_shards() -> None:
    state = judged(judged(make_trained(), 0, A), 1, A)
    assert [get_shard(state, slot) for slot in get_included(state)] == [0, 1]


def test_a_replaced_root_keeps_the_late_clock_and_frees_the_contests() -> None:
    state = posted(judged(judged(make_trained(), 0, A), 1, D), 160)
    contest = game_events.Contested(
        block_number=161, task=state.task, round=0, rival="0xa", weights_root=b"", momentum_root=b"",
        tensor=0, clock_block=170,
    )  # fmt: skip
    contested = process_event(state, contest)
    assert contested.contests == {"0xa"}
    replaced = posted(contested, 170, poster="0xa")
    assert (replaced.posted_block, replaced.ready_block, replaced.contests) == (160, 176, frozenset())


def test_late_clock_starts_at_the_merge_and_at_the_latest_where_nobody_merged() -> None:
    state = make_trained()
    by = get_merge_by(state)
    assert get_late_deadlines(state, by - 1) is None
    overdue = get_late_deadlines(state, by)
    assert overdue is not None and overdue.merged_block == by
    late = get_late_deadlines(posted(state, by + 50), by + 60)
    assert late is not None and late.merged_block == by
    early = get_late_deadlines(posted(state, 200), 201)
    assert early is not None and early.merged_block == 200
    assert get_settle_block(state, 110) == overdue.dispute_end


@pytest.mark.parametrize("phase", [0, 1])
def test_leaves_belong_to_the_phase_that_their_event_names(phase: int) -> None:
    state = make_trained()
    end = state.deadlines.compare_end
    opened = events.LeavesOpened(
        block_number=end, task=state.task, round=0, slot=0, draw=0, phase=phase, leaves=()
    )
    assert get_opening(process_event(state, opened), 0, 0).leaf_phases == {phase}
    both = process_event(process_event(state, opened), replace(opened, phase=1 - phase))
    assert get_opening(both, 0, 0).leaf_phases == {0, 1}


@pytest.mark.parametrize(("by", "is_equal"), [("solver", True), ("auditor", False)])
def test_revealing_the_opened_state_accepts(by: str, is_equal: bool) -> None:
    state = make_trained()
    where: dict[str, Any] = {"block_number": 140, "task": state.task, "round": 0, "slot": 0, "draw": 0}
    end = make_header(0, 1)
    state = process_event(state, events.EndOpened(**where, end=end, last=end))
    shown = events.Revealed(**where, rank=0, auditor="0xa", end=make_header(0, 1, by))
    assert is_accepting(process_event(state, shown), (0, 0, 0)) is is_equal


def test_open_disputes_of_a_slot_are_counted_until_they_end() -> None:
    state = make_trained()
    claim = ClaimRef(AuditRef(state.task, 0, 1, 0, 0), 0, True)
    opened = game_events.DisputeOpened(
        block_number=130, dispute=make_word("d"), claim=claim, claimant="0xa", opener="0xb", bond_wei=1
    )
    state = process_event(state, opened)
    assert state.open_disputes == {make_word("d"): 1}
    closed = game_events.DisputeClosed(block_number=140, dispute=make_word("d"))
    assert process_event(state, closed).open_disputes == {}


def test_roles_are_told_apart() -> None:
    state = make_trained()
    assert get_role(state, make_account("s1")) == Role.SOLVER
    assert get_role(state, "0xnobody") == Role.NONE
    assert state.status == RoundStatus.TRAINING
