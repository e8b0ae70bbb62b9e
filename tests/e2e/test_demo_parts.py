"""The demo's own parts without a chain: plan, luck, cheats, books, windows, curve and verdict."""

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from node.submit import build_spec
from protocol.compute.model import init_parameters
from protocol.compute.step import Batch, begin_round, train_segment
from protocol.spec import events, game_events
from protocol.spec.containers import ModelConfig, StateHeader
from protocol.spec.economics import compute_worst_span_blocks
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.params import DEVNET, MAX_ROUND_SPAN_BLOCKS
from protocol.spec.round import RoundState
from protocol.spec.statuses import Role
from protocol.spec.task_rules import count_parameters, refuse_malformed_task
from tests.e2e import company
from tests.e2e.cheats import (
    is_skipped,
    list_spoiled_segments,
    make_skipping_train,
    train_by_invention,
)
from tests.e2e.company import Company
from tests.e2e.first_devnet import UNBONDING_BLOCKS
from tests.e2e.isolation import is_supported
from tests.e2e.luck import HIGHEST_LUCK, choose_rounds, compute_run_luck
from tests.e2e.money import fold_books
from tests.e2e.pace import LEAST_FACTOR, REFERENCE_STEP_S, compute_factor, measure_step_s, widen
from tests.e2e.phases import measure_phases
from tests.e2e.plan import LEAST_ROUNDS, WINDOWS, build_plan
from tests.e2e.roster import count_role, make_roster
from tests.e2e.screen import CURVE_ROWS, draw_curve
from tests.e2e.stage import Folders, confine
from tests.e2e.verdict import judge_run

THIRD = Fraction(1, 3)
TASK, SUBMITTER, SOLVER, VERIFIER = bytes(range(32)), "0x" + "11" * 20, "0x" + "22" * 20, "0x" + "33" * 20
TINY = ModelConfig(256, 16, 32, 1, 2, 1, 32)
SPEC = build_spec(
    replace(build_plan(), model=TINY, sequences_per_step=2, sequence_tokens=16, heldout_tokens=100),
    bytes(range(256)) * 40,
    SUBMITTER,
    bytes(32),
)


# --- Plan and roster ----------------------------------------------------------------------------------------
def test_nodes_take_the_plan() -> None:
    plan = build_plan()
    spec = build_spec(plan, bytes(range(256)) * 1_000, SUBMITTER, bytes(32))
    refuse_malformed_task(spec)
    assert 0.9e6 < count_parameters(plan.model) < 1.1e6
    assert spec.terms.rounds >= 4
    assert compute_worst_span_blocks(plan.windows) < UNBONDING_BLOCKS


# --- Pace ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("step_s", "cores", "factor"),
    [
        (REFERENCE_STEP_S / 10, 16, LEAST_FACTOR),
        (REFERENCE_STEP_S, 2, LEAST_FACTOR),
        (REFERENCE_STEP_S, 1, 2 * LEAST_FACTOR),
        (4 * REFERENCE_STEP_S, 64, 4 * LEAST_FACTOR),
        (1e9, 2, MAX_ROUND_SPAN_BLOCKS // compute_worst_span_blocks(WINDOWS)),
    ],
)
def test_a_slower_machine_has_longer_windows(step_s: float, cores: int, factor: int) -> None:
    assert compute_factor(step_s, cores, WINDOWS) == factor


@pytest.mark.parametrize("step_s", [0.0, 1e9])
def test_nodes_take_wide_windows(step_s: float) -> None:
    windows = widen(WINDOWS, compute_factor(step_s, 2, WINDOWS))
    refuse_malformed_task(replace(SPEC, terms=replace(SPEC.terms, windows=windows)))
    assert windows.train >= LEAST_FACTOR * WINDOWS.train
    assert windows.delay == WINDOWS.delay


def test_the_first_steps_are_timed() -> None:
    assert 0 < measure_step_s() < float("inf")


# --- Company ------------------------------------------------------------------------------------------------
def make_company(folder: Path, program: str) -> tuple[Company, list[str]]:
    folders, said = Folders(folder), list[str]()
    folders.logs.mkdir(parents=True)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=(folders.logs / "a.log").open("wb"))
    return Company(folders, (), [], said.append, {"a": process}), said


async def test_a_slow_party_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "NOTICE_S", 0.0)
    program = "import time; time.sleep(0.5); print('ready', flush=True); time.sleep(600)"
    slow, said = make_company(tmp_path, program)
    await slow.wait_for_line("ready")
    slow.processes["a"].kill()
    assert "still waiting for a to say: ready" in said


async def test_a_party_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    dead, _ = make_company(tmp_path, "print('no'); raise SystemExit(3)")
    with pytest.raises(EnvironmentFault, match="a has ended before its time"):
        await dead.wait_for_line("ready")


def test_a_run_is_stuck_after_more_blocks_than_a_round_can_last(tmp_path: Path) -> None:
    still = Company(Folders(tmp_path), (), [], lambda _: None)
    still.require_progress(100, 100)
    with pytest.raises(EnvironmentFault, match="the run is stuck"):
        still.require_progress(101, 100)


def test_the_roster_is_what_the_demo_promises() -> None:
    roster = make_roster(4, with_cheats=True)
    assert count_role(roster, "solver", honest_only=True) == 4
    assert count_role(roster, "verifier", honest_only=True) >= 4
    assert {member.kind for member in roster if not member.honest} == {"skip", "invent"}
    assert all(member.honest for member in make_roster(4, with_cheats=False))
    kernels = {member.kernel_rank for member in roster if member.honest and member.role != "submitter"}
    assert len(kernels) > 1, "roots would be equal and no leaf would be compared"
    plan = build_plan()
    assert count_role(roster, "solver") <= plan.max_solvers
    assert count_role(roster, "verifier") <= plan.max_verifiers
    skipper = next(member for member in roster if member.kind == "skip")
    assert skipper.stake_wei >= (plan.rounds + 1) * DEVNET.amounts.solver_stake, "it must be able to go on"


# --- Luck ---------------------------------------------------------------------------------------------------
def test_luck_of_the_demo() -> None:
    roster = make_roster(LEAST_ROUNDS, with_cheats=True)
    luck = compute_run_luck(build_plan(), roster, THIRD)
    # Every segment is spoiled, so only the inventor can be missed: 4 honest claims, 2 draws, 4 rounds.
    assert luck.escapes == {"skip": 0, "invent": Fraction(4, 5) ** 32}
    assert luck.total == Fraction(4, 5) ** 32 < HIGHEST_LUCK


def test_a_rarer_cheat_needs_more_rounds() -> None:
    roster = make_roster(LEAST_ROUNDS, with_cheats=True)
    rounds = choose_rounds(roster, Fraction(5, 100))
    assert rounds > LEAST_ROUNDS == choose_rounds(roster, THIRD)
    assert compute_run_luck(build_plan(rounds), roster, Fraction(5, 100)).total < HIGHEST_LUCK
    assert compute_run_luck(build_plan(rounds - 1), roster, Fraction(5, 100)).total >= HIGHEST_LUCK


def test_without_cheats_there_is_no_luck() -> None:
    assert compute_run_luck(build_plan(), make_roster(4, with_cheats=False), THIRD).total == 0


# --- Cheats -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fraction", "count", "spoiled"),
    [(THIRD, 7, {0, 1, 2, 3}), (Fraction(5, 100), 1, {0}), (Fraction(1), 20, {0, 1, 2, 3})],
)
def test_skipped_steps(fraction: Fraction, count: int, spoiled: set[int]) -> None:
    assert sum(is_skipped(step, fraction) for step in range(20)) == count
    assert list_spoiled_segments(20, 5, fraction) == spoiled


def get_batch(step: int) -> Batch:
    tokens = torch.arange(2 * 17).reshape(2, 17) % 200 + step
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def test_the_skipper_lies_about_its_steps_only() -> None:
    training = SPEC.training
    start = begin_round(init_parameters(TINY, 1), 0)
    honest, _ = train_segment(start, training, get_batch, 0, 5)
    cheat, losses = make_skipping_train(THIRD)(start, training, get_batch, 0, 5)
    assert (cheat.local_step, cheat.global_step) == (honest.local_step, honest.global_step) == (5, 5)
    assert losses
    assert not torch.equal(cheat.weights, honest.weights)
    nothing, losses = make_skipping_train(Fraction(1))(start, training, get_batch, 0, 5)
    assert losses
    assert torch.equal(nothing.weights, start.weights)


def test_an_invention_is_a_sound_state_and_not_the_truth() -> None:
    start = begin_round(init_parameters(TINY, 1), 0)
    made_up, losses = train_by_invention(start, SPEC.training, get_batch, 0, 5)
    assert (made_up.local_step, made_up.global_step, len(losses)) == (5, 5, 5)
    for tensor in (made_up.weights, made_up.first_moment, made_up.second_moment):
        assert bool(torch.isfinite(tensor).all())
    assert bool((made_up.second_moment >= 0).all())
    assert not torch.equal(made_up.weights, start.weights)


# --- Books --------------------------------------------------------------------------------------------------
def word(text: str) -> bytes:
    return text.encode().ljust(32, b"\0")


def make_history() -> list[events.Event]:
    exposures = [bytes([i]) * 32 for i in range(3)]
    return [
        game_events.Deposited(block_number=1, account=SOLVER, amount_wei=100),
        game_events.Deposited(block_number=1, account=VERIFIER, amount_wei=50),
        events.TaskCreated(block_number=2, task=TASK, submitter=SUBMITTER, terms=SPEC.terms, training=b""),
        game_events.Exposed(block_number=3, exposure=exposures[0], account=SOLVER, amount_wei=40),
        game_events.Exposed(block_number=3, exposure=exposures[1], account=SOLVER, amount_wei=10),
        game_events.Exposed(block_number=3, exposure=exposures[2], account=VERIFIER, amount_wei=20),
        game_events.FeeBurned(
            block_number=4, exposure=exposures[0], account=SOLVER, amount_wei=5, reason=word("start")
        ),
        game_events.Slashed(
            block_number=5, exposure=exposures[0], account=SOLVER, finder=VERIFIER, amount_wei=35,
            finder_wei=8, submitter_wei=2, reason=word("silent"),
        ),
        # A dispute that proved nothing: the whole bond is gone, half of it to the other side.
        game_events.CreditMoved(
            block_number=6, exposure=exposures[1], from_=SOLVER, to=VERIFIER, amount_wei=5,
            reason=word("closed"),
        ),
        game_events.Released(block_number=6, exposure=exposures[2], account=VERIFIER, amount_wei=20),
        game_events.Paid(block_number=7, task=TASK, account=VERIFIER, amount_wei=3, reason=word("audit")),
        game_events.EscrowClosed(block_number=8, task=TASK, submitter=SUBMITTER, amount_wei=60),
        game_events.Claimed(block_number=9, account=VERIFIER, amount_wei=1),
    ]  # fmt: skip


def test_books_follow_every_token() -> None:
    balances = fold_books(make_history())
    solver, verifier, submitter = (balances[account] for account in (SOLVER, VERIFIER, SUBMITTER))
    assert (solver.stake_before, solver.stake_after, solver.slashed, solver.fees) == (100, 50, 35, 5)
    assert solver.lost == {"fee: start": 5, "slashed: silent": 35, "bond: closed": 10}
    assert (verifier.stake_before, verifier.stake_after, verifier.credit) == (50, 50, 15)
    assert verifier.earned == {"found a cheat": 8, "closed": 5, "audit": 3}
    assert (submitter.earned, submitter.credit) == ({"share of a slash": 2}, 62)


# --- Windows ------------------------------------------------------------------------------------------------
def test_the_use_of_windows_is_measured_in_blocks() -> None:
    state = RoundState(SPEC.terms, TASK, bytes(32), 0, 1_000, bytes(32), bytes(32))
    header = StateHeader(bytes(32), bytes(32), bytes(32), 0, 0)
    named: dict[str, Any] = {"task": TASK, "round": 0}
    slot: dict[str, Any] = {**named, "slot": 0}
    audit: dict[str, Any] = {**slot, "draw": 0, "rank": 0, "auditor": VERIFIER}
    replay_end = state.deadlines.replay_end
    history: list[events.Event] = [
        events.Enrolled(block_number=1_007, **named, role=Role.SOLVER, account=SOLVER, index=0),
        events.BeaconSealed(block_number=1_403, **named, beacon=bytes(32)),
        events.Committed(block_number=1_433, **slot, solver=SOLVER, claim_root=TASK, delta_root=TASK),
        events.Committed(block_number=1_423, **slot, solver=SOLVER, claim_root=TASK, delta_root=TASK),
        events.DrawSealed(block_number=2_500, **named, draw_seed=TASK),
        events.StartOpened(block_number=2_504, **slot, draw=0, start=header),
        events.ReplayCommitted(block_number=2_524, **audit, commitment=TASK),
        events.Revealed(block_number=replay_end + 9, **audit, end=header),
    ]
    uses = measure_phases(((event, state) for event in history), SPEC.terms.windows)
    measured = {name: use.measured_s for name, use in uses.items()}
    assert measured == {
        "enrol": 7, "train": 30, "start": 4, "replay": 20, "show": 9, "open": 0, "compare": 0, "merge": 0
    }  # fmt: skip
    assert uses["train"].ratio == SPEC.terms.windows.train / 30


# --- Screen and verdict -------------------------------------------------------------------------------------
def test_the_curve_falls_from_left_to_right() -> None:
    lines = draw_curve([5.0, 3.0, 2.0]).splitlines()
    columns = [line.index("o") for line in lines[:CURVE_ROWS] if "o" in line]
    assert columns == sorted(columns)
    assert len(columns) == 3
    assert "5.000" in lines[-1]


def make_report() -> dict[str, Any]:
    def party(name: str, role: str, honest: bool, lost: int, pay: int) -> dict[str, Any]:
        return {
            "name": name, "role": role, "honest": honest, "account": name,
            "stake_before": 10, "stake_after": 10 - lost, "slashed": lost, "fees": 0,
            "earned_for": {"solver": pay} if pay else {},
        }  # fmt: skip

    def claim(account: str, status: str) -> dict[str, Any]:
        accepted = status == "ACCEPTED"
        return {"account": account, "status": status, "was_accepted": accepted, "is_merged": accepted}

    return {
        "rounds": 1,
        "loss_per_round": [5.0, 3.0],
        "parties": [
            party("a", "solver", True, 0, 7), party("c", "solver", False, 4, 0),
            party("v", "verifier", False, 1, 0),
        ],
        "claims": [claim("a", "ACCEPTED"), claim("c", "CONVICTED")],
        "phases": {"train": {"measured_s": 10, "window_s": 90, "ratio": 9.0}},
        "is_closed": True,
        "final_weights_root": "ab",
        "exported_weights_root": "ab",
        "luck": 1e-4,
        "slashes": 2,
        "fees": 0,
    }  # fmt: skip


def test_a_good_run_passes() -> None:
    assert all(finding.holds for finding in judge_run(make_report(), 1, 7))


def spoil(report: dict[str, Any], *path: str | int, value: object) -> None:
    *parents, last = path
    for key in parents:
        report = report[key]  # type: ignore[index]
    report[last] = value  # type: ignore[index]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("loss_per_round",), [5.0, 5.0]),
        (("loss_per_round",), [5.0]),
        (("parties", 0, "stake_after"), 9),
        (("parties", 0, "fees"), 1),
        (("parties", 1, "slashed"), 0),
        (("parties", 1, "earned_for"), {"solver": 7}),
        (("parties", 0, "earned_for"), {}),
        (("claims", 1, "is_merged"), True),
        (("is_closed",), False),
        (("exported_weights_root",), ""),
        (("luck",), 0.01),
    ],
)
def test_each_failure_is_seen(path: tuple[str | int, ...], value: object) -> None:
    report = make_report()
    spoil(report, *path, value=value)
    assert not all(finding.holds for finding in judge_run(report, 1, 7))


def test_a_slow_machine_is_no_failure() -> None:
    report = make_report()
    spoil(report, "phases", "train", "ratio", value=1.1)
    assert all(finding.holds for finding in judge_run(report, 1, 7))


def test_without_cheats_a_slash_or_fee_is_a_failure() -> None:
    report = make_report()
    report["parties"] = report["parties"][:1]
    report["claims"] = report["claims"][:1]
    report["slashes"] = 0
    assert all(finding.holds for finding in judge_run(report, 1, 7))
    assert not all(finding.holds for finding in judge_run({**report, "fees": 1}, 1, 7))
    assert not all(finding.holds for finding in judge_run({**report, "slashes": 1}, 1, 7))


# --- Isolation ----------------------------------------------------------------------------------------------
@pytest.mark.skipif(not is_supported(), reason="this kernel has no Landlock")
def test_a_party_neither_reads_nor_lists_anothers_home(tmp_path: Path) -> None:
    own, other = tmp_path / "parties" / "own", tmp_path / "parties" / "other"
    for folder in (own / "incoming", own / "tensor", other):
        folder.mkdir(parents=True)
    (other / "root-of-an-end-state").write_text("secret")
    (own / "incoming" / "blob").write_text("mine")
    program = (
        "import os, sys\n"
        "own, other = sys.argv[1:]\n"
        "os.replace(own + '/incoming/blob', own + '/tensor/blob')\n"
        "assert open(own + '/tensor/blob').read() == 'mine'\n"
        "for look in (os.listdir, lambda path: open(path + '/root-of-an-end-state').read()):\n"
        "    try:\n"
        "        look(other)\n"
        "    except PermissionError:\n"
        "        continue\n"
        "    sys.exit('it sees the other home')\n"
    )
    command = confine([sys.executable, "-c", program, str(own), str(other)], own, tmp_path / "parties")
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    assert found.returncode == 0, found.stderr


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "demo")
    with folders.hold(), pytest.raises(InvalidInput, match="another demo"), Folders(folders.root).hold():
        pass
    with folders.hold():
        folders.clear()
    assert (folders.code / "tests" / "e2e" / "demo.py").is_file()
