"""What the roles are told to do is allowed, enough to finish every round, and nothing is asked twice."""

from dataclasses import replace

from hypothesis import given, settings

from protocol.spec import calls
from protocol.spec.clock import NEVER
from protocol.spec.duties import (
    get_auditor_actions,
    get_next_deadline,
    get_solver_actions,
    list_audits_of,
)
from protocol.spec.guards import check_call
from protocol.spec.keeping import get_keeper_actions
from protocol.spec.round import get_settle_block
from protocol.spec.statuses import FINAL_CLAIM_STATUSES, ClaimStatus, Role
from tests.protocol.spec.play import Play, Plot
from tests.protocol.spec.simulator import make_account
from tests.protocol.spec.strategies import PLOTS
from tests.protocol.spec.test_guards import play_to

SOLVER = make_account("SOLVER0")


@settings(max_examples=40)
@given(PLOTS)
def test_every_round_ends_whoever_is_silent(plot: Plot) -> None:
    play = Play(plot).run()  # asserts of each call that a duty asked for that it is accepted
    state = play.sim.state
    end = get_settle_block(state, 10**6) + 100
    assert len(state.settled_slots) == plot.solvers
    assert state.settled_accounts == {*state.verifiers, *state.whistleblowers}
    assert not state.beacon or all(c.status in FINAL_CLAIM_STATUSES for c in state.claims.values())
    left = {type(call) for call in get_keeper_actions(state, end)}
    assert left <= {calls.PostOuter, calls.SettleMerge, calls.Advance}
    assert get_next_deadline(state, end) == NEVER


@settings(max_examples=10)
@given(PLOTS)
def test_only_the_silent_and_the_wrong_lose(plot: Plot) -> None:
    honest = Plot("honest", plot.solvers, plot.verifiers, plot.whistleblowers)
    assert not [penalty for step in Play(honest).run().steps for penalty in step.penalties]


@settings(max_examples=15)
@given(PLOTS)
def test_duties_are_allowed_in_every_block(plot: Plot) -> None:
    play = Play(plot)
    for block in range(play.sim.state.start_block + 1, play.sim.state.start_block + 130):
        for sender, call in play.list_due(block):
            assert check_call(play.sim.state, call, sender, block) is None
        play.play_block(block)


def test_no_deadline_is_jumped_over() -> None:
    """Playing block by block gives what jumping from deadline to deadline gives."""
    plot = Plot("far", results={(0, 0, 0): "far", (0, 1, 0): "near"})
    jumping, walking = Play(plot).run(), Play(plot)
    for block in range(walking.sim.state.start_block + 1, walking.sim.state.start_block + 200):
        walking.play_block(block)
    assert jumping.steps == walking.steps


def test_solver_trains_before_it_commits() -> None:
    state, sender, _, block = play_to("commit")
    actions = get_solver_actions(state, sender, block)
    assert [type(action) for action in actions] == [calls.Train, calls.CommitClaim]
    assert get_solver_actions(state, sender, state.deadlines.train_end) == ()


def test_solver_serves_what_it_opened() -> None:
    state, sender, _, block = play_to("openEnd")
    served = [a for a in get_solver_actions(state, sender, block) if isinstance(a, calls.ServeState)]
    assert [(a.boundaries, a.with_delta) for a in served] == [((served[0].boundaries[0],), False)]
    state, _, _, block = play_to("postOuter")
    (after,) = (a for a in get_solver_actions(state, sender, block) if isinstance(a, calls.ServeState))
    first = after.boundaries[0]
    assert after.with_delta and set(after.boundaries) == {first, first + 1, 2}


def test_auditor_replays_what_it_was_dealt() -> None:
    state, sender, call, block = play_to("commitReplay.0")
    actions = get_auditor_actions(state, sender, block)
    assert actions == (calls.Replay(0, call.audit, call.segment), call)
    assert call.audit in list_audits_of(state, sender)


def test_reserve_waits_for_the_escalation() -> None:
    state, primary, _, block = play_to("commitReplay.0")
    others = [account for account in state.verifiers if account != primary]
    assert all(get_auditor_actions(state, account, block) == () for account in others)


def test_strangers_are_only_asked_to_enrol() -> None:
    state, _, _, block = play_to("enrol")
    stranger = make_account("stranger")
    assert get_auditor_actions(state, stranger, block, Role.WHISTLEBLOWER) == (
        calls.Enrol(0, Role.WHISTLEBLOWER),
    )
    assert get_solver_actions(state, stranger, block) == (calls.Enrol(0, Role.SOLVER),)
    state, _, _, block = play_to("commit")
    assert get_solver_actions(state, stranger, block) == ()
    assert get_auditor_actions(state, stranger, block) == ()


def test_a_claim_that_failed_is_not_worth_a_replay_unless_silence_costs() -> None:
    state, sender, _, block = play_to("commitReplay.0")
    void = {0: replace(state.claims[0], status=ClaimStatus.VOID)}
    assert get_auditor_actions(replace(state, claims=void), sender, block) == ()
    state, sender, call, block = play_to("commitReplay.late")
    convicted = {0: replace(state.claims[0], status=ClaimStatus.CONVICTED)}
    assert call in get_auditor_actions(replace(state, claims=convicted), sender, block, Role.WHISTLEBLOWER)
