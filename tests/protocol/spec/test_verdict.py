"""What each silence and each mix of results leads to, and what it costs whom."""

import pytest

from protocol.spec.hashing import tag_word
from protocol.spec.statuses import AuditStatus, ClaimStatus
from protocol.spec.verdict import enforce, judge
from tests.protocol.spec.play import Play, Plot
from tests.protocol.spec.plots import play_plot

PRIMARY, FIRST, SECOND = "auditor:0.0.0", "auditor:0.0.1", "auditor:0.0.2"
LATE = "auditor:0.1.0"
SOLVER = ("solver:0", "FEE")
EXPECTED = {
    "all honest": ("ACCEPTED", []),
    "primary near": ("ACCEPTED", []),
    "primary far, reserves equal": ("ACCEPTED", []),
    "primary far, reserves near": ("ACCEPTED", []),
    "primary far, one reserve near, one equal": ("ACCEPTED", []),
    "primary and one reserve far": ("VOID", []),
    "all three far": ("VOID", []),
    "nothing committed": ("DROPPED", [SOLVER]),
    "draw not sealed": ("VOID", []),
    "start not opened": ("VOID", [SOLVER]),
    "primary silent": ("ACCEPTED", [(PRIMARY, "FEE")]),
    "end not opened": ("VOID", [SOLVER]),
    "end not opened, primary silent": ("VOID", [(PRIMARY, "FEE"), SOLVER]),
    "primary does not reveal": ("ACCEPTED", [(PRIMARY, "STAKE")]),
    "end not opened, primary does not reveal": ("VOID", [(PRIMARY, "STAKE"), SOLVER]),
    "leaf draw not sealed": ("ACCEPTED", []),
    "leaves not opened": ("VOID", [SOLVER]),
    "primary does not compare": ("ACCEPTED", [(PRIMARY, "STAKE")]),
    "nobody judges": ("ACCEPTED", []),
    "nobody judges, nothing committed": ("DROPPED", [SOLVER]),
    "nobody posts": ("ACCEPTED", []),
    "one reserve silent": ("VOID", [(FIRST, "FEE")]),
    "both reserves silent": ("VOID", [(FIRST, "FEE"), (SECOND, "FEE")]),
    "one reserve does not reveal": ("VOID", [(SECOND, "STAKE")]),
    "both reserves do not reveal": ("VOID", [(FIRST, "STAKE"), (SECOND, "STAKE")]),
    "reserves' leaf draw not sealed": ("VOID", []),
    "reserves' leaves not opened": ("VOID", [SOLVER]),
    "one reserve's leaves not opened": ("VOID", [SOLVER]),
    "reserve does not compare": ("VOID", [(FIRST, "STAKE")]),
    "reserves called in time, both silent": ("VOID", [(FIRST, "FEE"), (SECOND, "FEE")]),
    "reserves called late, both silent": ("VOID", []),
    "reserves called late, one does not reveal": ("VOID", [(FIRST, "STAKE")]),
    "reserves called late, both accept": ("ACCEPTED", []),
    "every auditor silent": ("VOID", [(PRIMARY, "FEE"), (FIRST, "FEE"), (SECOND, "FEE")]),
    "every auditor silent, reserves called late": ("VOID", [(PRIMARY, "FEE")]),
    "primary and one reserve silent": ("VOID", [(PRIMARY, "FEE"), (SECOND, "FEE")]),
    "two silent, one abstains": ("VOID", [(PRIMARY, "FEE"), (SECOND, "FEE")]),
    "primary unserved": ("ACCEPTED", []),
    "primary and one reserve unserved": ("VOID", [(PRIMARY, "FEE"), (FIRST, "FEE"), SOLVER]),
    "all unserved": ("VOID", [(PRIMARY, "FEE"), (FIRST, "FEE"), (SECOND, "FEE"), SOLVER]),
    "primary abstains": ("ACCEPTED", []),
    "primary and one reserve abstain": ("VOID", []),
    "one unserved, one abstains": ("VOID", []),
    "late auditor unserved": ("ACCEPTED", []),
    "late auditor abstains": ("ACCEPTED", []),
    "late near": ("ACCEPTED", []),
    "late far": ("ACCEPTED", []),
    "late draw not sealed": ("ACCEPTED", []),
    "late start not opened": ("ACCEPTED", [SOLVER]),
    "late auditor silent": ("ACCEPTED", [(LATE, "FEE")]),
    "late end not opened": ("ACCEPTED", [SOLVER]),
    "late auditor does not reveal": ("ACCEPTED", [(LATE, "STAKE")]),
    "late leaf draw not sealed": ("ACCEPTED", []),
    "late leaves not opened": ("ACCEPTED", [SOLVER]),
    "late auditor does not compare": ("ACCEPTED", [(LATE, "STAKE")]),
}


def list_penalties(play: Play) -> list[tuple[str, str]]:
    return [penalty for step in play.steps for penalty in step.penalties]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_verdict_and_penalties(name: str) -> None:
    play = play_plot(name)
    status, penalties = EXPECTED[name]
    assert play.sim.state.claims[0].status.name == status
    assert sorted(list_penalties(play)) == sorted(penalties)


def test_the_silent_solver_alone_pays_beside_an_honest_one() -> None:
    play = play_plot("two solvers, one does not commit")
    assert [claim.status.name for _, claim in sorted(play.sim.state.claims.items())] == [
        "ACCEPTED",
        "DROPPED",
    ]
    assert list_penalties(play) == [("solver:1", "FEE")]


def play_until(plot: Plot, event: str) -> tuple[Play, int]:
    """The round up to the block in which `event` is logged."""
    whole = Play(plot).run()
    block = next(step.block for step in whole.steps if event in step.events)
    play = Play(plot)
    start = play.sim.state.start_block
    for one in range(start + 1, start + block + 1):
        play.play_block(one)
    return play, start + block


def test_an_auditor_that_may_still_compare_does_not_void_the_claim() -> None:
    plot = Plot("far", results={(0, 0, 0): "far"}, silent=frozenset({"compareLeaves.0"}))
    play, _ = play_until(plot, "LeavesOpened")
    clock = play.sim.state.deadlines
    assert judge(play.sim.state, 0, clock.open_end) == ()
    assert judge(play.sim.state, 0, clock.compare_end - 1) == ()
    assert [v.status for v in judge(play.sim.state, 0, clock.compare_end)] == [ClaimStatus.ESCALATED]


def test_agreement_of_all_primaries_need_not_wait_for_the_leaf_windows() -> None:
    play, _ = play_until(Plot("honest"), "Revealed")
    clock = play.sim.state.deadlines
    assert judge(play.sim.state, 0, clock.show_end - 1) == ()
    assert [v.status for v in judge(play.sim.state, 0, clock.show_end)] == [ClaimStatus.ACCEPTED]


def test_a_late_call_goes_through_all_stages_at_once() -> None:
    plot = Plot("far", results={(0, 0, 0): "far"}, silent=frozenset({"judge"}))
    play, _ = play_until(plot, "AuditJudged")
    found = judge(play.sim.state, 0, play.sim.state.deadlines.reserve_compare_end)
    assert [v.status for v in found] == [ClaimStatus.ESCALATED, ClaimStatus.VOID]
    # Nobody called the reserves while they could still commit.
    assert [verdict.penalties for verdict in found] == [(), ()]


def test_an_unrevealed_commitment_is_slashed_from_the_end_of_the_show_window_on() -> None:
    play, _ = play_until(Plot("hidden", silent=frozenset({"reveal.0"})), "ReplayCommitted")
    state, clock = play.sim.state, play.sim.state.deadlines
    assert enforce(state, (0, 0, 0), clock.show_end - 1).penalty is None
    found = enforce(state, (0, 0, 0), clock.show_end)
    assert found.status == AuditStatus.SLASHED and found.penalty is not None


REASONS = {
    "every auditor silent": "silent",
    "primary and one reserve silent": "silent",
    "two silent, one abstains": "undecided",
    "primary and one reserve abstain": "undecided",
    "one unserved, one abstains": "undecided",
    "one reserve silent": "rejected",
    "both reserves silent": "rejected",
    "both reserves do not reveal": "rejected",
    "all three far": "rejected",
    "primary and one reserve unserved": "unserved",
    "reserves' leaves not opened": "leaves",
}


@pytest.mark.parametrize("name", sorted(REASONS))
def test_a_claim_without_a_majority_is_void_for_what_its_auditors_said(name: str) -> None:
    assert play_plot(name).sim.state.claims[0].reason == tag_word(REASONS[name])
