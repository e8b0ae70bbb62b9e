"""Every refusal of a round by its Solidity name."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.drawn import get_auditor
from protocol.spec.guards import check_call
from protocol.spec.round import RoundState, get_audit_ref
from protocol.spec.statuses import Role
from tests.protocol.spec.play import KEEPER, OUTSIDER, Play, Plot, get_label
from tests.protocol.spec.plots import FAR_PRIMARY, LATE, PLOTS, play_plot
from tests.protocol.spec.simulator import make_account

INTERFACES = Path(__file__).parents[3] / "contracts" / "interfaces"
SOLVER = make_account("SOLVER0")
FULL = Plot("full", results={**FAR_PRIMARY, (0, 0, 1): "near", LATE: "far"})


def list_errors() -> set[str]:
    text = "\n".join(path.read_text() for path in INTERFACES.glob("*.sol"))
    return set(re.findall(r"^\s*error (\w+)\(", text, re.MULTILINE))


def test_every_refusal_that_the_scripts_meet_is_an_error_of_the_contracts() -> None:
    met = {step.error for plot in PLOTS for step in play_plot(plot.name).steps if step.error}
    assert met <= list_errors()
    assert len(met) >= 18


def play_to(label: str, plot: Plot = FULL) -> tuple[RoundState, str, Any, int]:
    """The state right before a call is sent, its sender, the call and the block."""
    play = Play(plot)
    block = play.sim.state.start_block
    while True:
        block += 1
        for sender, call in play.list_due(block):
            if get_label(play.sim.state, call) == label:
                return play.sim.state, sender, call, block
        play.play_block(block)


def name_of(state: RoundState, call: Call, sender: str, block: int) -> str | None:
    refusal = check_call(state, call, sender, block)
    return None if refusal is None else refusal.name


WINDOWS = {
    "sealBeacon": ("beacon_block", "beacon_end"),
    "commit": ("beacon_block", "train_end"),
    "sealDraw": ("draw_block", "draw_end"),
    "openStart": (None, "start_end"),
    "commitReplay.0": (None, "replay_end"),
    "openEnd": ("replay_end", "show_end"),
    "reveal.0": ("replay_end", "show_end"),
    "sealLeaves.0": ("leaves_block", "leaves_end"),
    "openLeaves.0": (None, "open_end"),
    "compareLeaves.0": (None, "compare_end"),
    "commitReplay.1": (None, "reserve_replay_end"),
    "reveal.1": ("reserve_replay_end", "reserve_show_end"),
    "sealLeaves.1": ("reserve_leaves_block", "reserve_leaves_end"),
    "openLeaves.1": (None, "reserve_open_end"),
    "compareLeaves.1": (None, "reserve_compare_end"),
}
SEALS = ("sealBeacon", "commit", "sealDraw", "sealLeaves.0", "sealLeaves.1")
"""These open one block after the block of that name, whose hash they use."""


@pytest.mark.parametrize("label", sorted(WINDOWS))
def test_window_closes_and_opens_where_the_clock_says(label: str) -> None:
    state, sender, call, block = play_to(label)
    opens_name, closes_name = WINDOWS[label]
    closes = getattr(state.deadlines, closes_name)
    assert name_of(state, call, sender, block) is None
    assert name_of(state, call, sender, closes - 1) is None
    assert name_of(state, call, sender, closes) == "OutsideWindow"
    if opens_name is not None:
        opens = getattr(state.deadlines, opens_name) + (label in SEALS)
        assert name_of(state, call, sender, opens) is None
        assert name_of(state, call, sender, opens - 1) == "OutsideWindow"


@pytest.mark.parametrize(
    ("label", "fact", "name"),
    [
        ("commit", "is_start_expected", "WrongStart"),
        ("commit", "is_proof_valid", "BoundaryMismatch"),
        ("openStart", "is_proof_valid", "BoundaryMismatch"),
        ("openEnd", "is_proof_valid", "BoundaryMismatch"),
        ("reveal.0", "is_commitment_met", "CommitmentMismatch"),
        ("openLeaves.0", "is_proof_valid", "LeafMismatch"),
        ("compareLeaves.0", "are_proofs_valid", "LeafMismatch"),
    ],
)
def test_false_facts_are_refused(label: str, fact: str, name: str) -> None:
    state, sender, call, block = play_to(label)
    assert name_of(state, replace(call, **{fact: False}), sender, block) == name


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("commit", "NotEnrolled"),
        ("openStart", "NotSolver"),
        ("openEnd", "NotSolver"),
        ("openLeaves.0", "NotSolver"),
        ("commitReplay.0", "NotAuditor"),
        ("commitReplay.late", "NotAuditor"),
        ("reveal.1", "NotAuditor"),
        ("compareLeaves.0", "NotAuditor"),
    ],
)
def test_strangers_are_refused(label: str, name: str) -> None:
    state, _, call, block = play_to(label)
    assert name_of(state, call, OUTSIDER, block) == name


def test_reserves_are_refused_before_the_escalation() -> None:
    state, _, _, block = play_to("commitReplay.0")
    reserve = get_auditor(state, (0, 0, 1))
    assert reserve is not None
    call = calls.CommitReplay(0, get_audit_ref(state, 0, 0, 1), 0)
    assert name_of(state, call, reserve, block) == "OutsideWindow"
    state, sender, call, block = play_to("commitReplay.1")
    claims = {0: replace(state.claims[0], escalated_draws=frozenset())}
    assert name_of(replace(state, claims=claims), call, sender, block) == "NotEscalated"


def test_undrawn_audits_and_wrong_phases_are_refused() -> None:
    state, sender, _, block = play_to("openLeaves.0")
    assert name_of(state, calls.OpenStart(0, 1, 0), sender, block) == "NotDrawn"
    assert name_of(state, calls.OpenLeaves(0, 0, 2, ()), sender, block) == "WrongPhase"
    assert name_of(state, calls.SealLeaves(0, 3), sender, block) == "WrongPhase"
    late = calls.Reveal(0, get_audit_ref(state, 0, 1, 0))
    assert name_of(state, late, sender, block) == "NotDrawn"


def test_wrong_indices_are_refused_and_one_more_may_be_compared() -> None:
    state, sender, call, block = play_to("openLeaves.0")
    short = replace(call, indices=call.indices[:1])
    assert name_of(state, short, sender, block) == "WrongLeafCount"
    swapped = replace(call, indices=call.indices[::-1])
    assert name_of(state, swapped, sender, block) == "LeafMismatch"
    state, sender, call, block = play_to("compareLeaves.0")
    assert name_of(state, replace(call, indices=(*call.indices, 1)), sender, block) is None
    assert name_of(state, replace(call, indices=(*call.indices, 1, 0)), sender, block) == "WrongLeafCount"


def test_enrolment_is_once_and_bounded() -> None:
    state, _, _, block = play_to("sealBeacon")
    enrolling = state.start_block + 5
    assert block > enrolling
    assert name_of(state, calls.Enrol(0, Role.VERIFIER), SOLVER, enrolling) == "AlreadyEnrolled"
    assert name_of(state, calls.Enrol(0, Role.VERIFIER), OUTSIDER, enrolling) is None
    full = replace(state, solvers=tuple(f"0x{i}" for i in range(4)))
    assert name_of(full, calls.Enrol(0, Role.SOLVER), OUTSIDER, enrolling) == "RoundFull"
    assert name_of(full, calls.Enrol(0, Role.NONE), OUTSIDER, enrolling) == "RoundFull"
    advanced = replace(state, is_advanced=True)
    assert name_of(advanced, calls.Enrol(0, Role.SOLVER), OUTSIDER, enrolling) == "WrongRound"


def test_settlement_waits_for_its_block_and_for_disputes() -> None:
    state, sender, call, block = play_to("settleClaim")
    assert name_of(state, call, sender, block - 1) == "OutsideWindow"
    disputed = replace(state, open_disputes={bytes(32): 0})
    assert name_of(disputed, call, sender, block) == "DisputeOpen"
    assert name_of(replace(state, settled_slots=frozenset({0})), call, sender, block) == "AlreadySettled"
    assert name_of(state, calls.SettleEnrolments(0, 0, 9), sender, block) == "RoundNotSettled"


def test_advance_waits_for_the_merge_window_and_contests() -> None:
    state, sender, call, block = play_to("advance")
    assert name_of(state, call, sender, state.ready_block - 1 if state.ready_block else 0) == "NotYet"
    contested = replace(state, contests=frozenset({"0xa"}))
    assert name_of(contested, call, sender, block) == "NotYet"
    assert name_of(contested, calls.SettleMerge(0), sender, block) == "NotMerged"
    assert name_of(replace(state, index=1), call, sender, block) == "TaskFinished"


def test_posting_waits_for_all_verdicts_and_is_once() -> None:
    state, sender, call, block = play_to("postOuter")
    assert name_of(state, call, KEEPER, block) is None
    assert name_of(replace(state, claims={}), call, KEEPER, block) == "NotJudged"
    assert name_of(state, calls.PostOuter(0, (0, 1)), KEEPER, block) == "OtherSet"
    state, _, _, block = play_to("sealLate")
    assert name_of(state, call, KEEPER, block) == "AlreadyMerged"


def test_off_chain_actions_are_no_calls() -> None:
    state, sender, _, block = play_to("commit")
    with pytest.raises(KeyError):
        check_call(state, calls.Train(0, 0, 0), sender, block)
