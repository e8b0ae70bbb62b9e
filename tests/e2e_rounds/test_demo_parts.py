"""The demo's parts: numbers, books, words, verdict, options, processes that see nothing of each other."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from eth_account import Account

from node.round_submit import build_task
from protocol.adapters.chain.logs import Event
from protocol.compute.compare import judge_state
from protocol.compute.data import get_batch, open_corpus
from protocol.compute.fault import prove_operation
from protocol.compute.model import init_parameters
from protocol.compute.program import build_program, describe_program
from protocol.compute.retrace import ignore
from protocol.compute.step import Batch, begin_round, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.float32 import bits_to_float
from protocol.spec.game.enums import SeatRole
from protocol.spec.game.logged_terms import read_terms
from protocol.spec.game.terms import LIMITS_LOCAL, check_terms
from protocol.spec.merkle import compute_levels, compute_range_path
from protocol.spec.program import Operation
from protocol.spec.schedule import compute_learning_rate_sum
from protocol.spec.tolerance import Judgement
from protocol.spec.typed_data import SigningDomain
from tests.e2e_rounds.demo import isolation
from tests.e2e_rounds.demo.__main__ import FAULTS, make_setting, parse
from tests.e2e_rounds.demo.books import fold_books, name_pots
from tests.e2e_rounds.demo.company import open_company
from tests.e2e_rounds.demo.number import ConvictedNumber, count_siblings, read_number
from tests.e2e_rounds.demo.plan import QUICK, build_plan
from tests.e2e_rounds.demo.player import Order
from tests.e2e_rounds.demo.roster import CHEAT, Member, make_roster
from tests.e2e_rounds.demo.screen import draw_curve
from tests.e2e_rounds.demo.stage import Folders
from tests.e2e_rounds.demo.verdict import judge_run
from tests.e2e_rounds.demo.watch import show_number
from tests.e2e_rounds.planted import find_node, make_planting_compute
from tests.e2e_rounds.world import TINY_PLAN, make_dataset

TASK, SUBMITTER = b"\1" * 32, "0x" + "11" * 20
SOLVER, FINDER, OPENER = ("0x" + digit * 40 for digit in "abc")


# --- The convicted number -----------------------------------------------------------------------------------
def make_training() -> TrainingSpec:
    _, training = build_task(TINY_PLAN, make_dataset(), SUBMITTER, bytes(32))
    return training


def read_planted(operation: Operation, training: TrainingSpec, before: int = 0) -> ConvictedNumber | None:
    """What the proof of a planted error shows; before: of an element so many places before it."""
    state = begin_round(init_parameters(training.model, training.initial_seed), 0)
    rows, length = training.sequences_per_step, training.sequence_tokens
    tokens = torch.arange(rows * (length + 1)).reshape(rows, length + 1) % 200
    batch = Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    compute = make_planting_compute(operation)
    tree = compute.retrace(state, training, lambda step: batch, 0, ignore).tree
    program = build_program(describe_program(training)).program
    number = find_node(build_program(describe_program(training)), operation)
    element = program.nodes[number].elements - 1 - before
    return read_number(program, number, element, prove_operation(tree, number, element).openings)


@pytest.mark.parametrize("operation", [Operation.PRODUCT_SUM, Operation.SUBTRACT, Operation.SQUARE_ROOT])
def test_a_planted_number_is_read_from_its_proof_and_judged(operation: Operation) -> None:
    found = read_planted(operation, make_training())
    assert found is not None and found.operation is operation
    judgement = found.judgement
    assert judgement.is_fault and judgement.exact is not None
    claimed = bits_to_float(found.claimed)
    # As `plant` spoils it: half as much again, and a quarter.
    assert claimed == pytest.approx(float(judgement.exact) * 1.5 + 0.25, rel=1e-4)
    lines = "\n".join(show_number(found))
    assert operation.name in lines and "outside: a fault" in lines and f"{claimed:.9g}" in lines
    assert found.to_json()["is_fault"] and len(found.to_json()["operands"]) == len(found.terms)


def test_the_number_beside_a_planted_one_is_right() -> None:
    found = read_planted(Operation.SUBTRACT, make_training(), before=1)
    assert found is not None and not found.judgement.is_fault
    assert "inside" in show_number(found)[-1]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_on_offer_leaves_the_limits_in_every_step(fault: str) -> None:
    """Late in the task as well: a cheat that errs without effect would be merged."""
    plan = replace(build_plan(QUICK, 2, 2, 3, 1, 1), heldout_tokens=512)
    terms, training = build_task(plan, make_dataset(), SUBMITTER, bytes(32))
    batches = partial(get_batch, open_corpus(make_dataset(), training), training, bytes(32), 0)
    state = begin_round(init_parameters(training.model, training.initial_seed), 0)
    cheating = make_planting_compute(Operation[fault.upper()])
    for step in (0, QUICK.steps, 2 * QUICK.steps - 1):
        state, _ = train_segment(state, training, batches, state.global_step, step - state.global_step)
        honest, _ = train_segment(state, training, batches, step, 1)
        false, _ = cheating.train(state, training, batches, step, 1)
        rate = compute_learning_rate_sum(training.schedule, step, 1, 1 << 30)
        assert judge_state(false, honest, rate, terms.limits, terms.limits).judgement is Judgement.REJECT


def test_no_number_is_read_where_operands_hang_on_an_index() -> None:
    assert read_planted(Operation.GATHER, make_training()) is None


@pytest.mark.parametrize("count", [1, 2, 5, 8, 13])
def test_siblings_of_a_run_of_leaves(count: int) -> None:
    levels = compute_levels([bytes([i + 1]) * 32 for i in range(count)])
    for first in range(count):
        for last in range(first, count):
            assert count_siblings(count, first, last) == len(compute_range_path(levels, first, last))


# --- Books --------------------------------------------------------------------------------------------------
def make_events(*said: tuple[int, str, dict[str, Any]]) -> list[Event]:
    """(number of the transaction, event, values)."""
    return [
        Event("Purse", name, values, number, i, bytes(32), bytes([number]) * 32)
        for i, (number, name, values) in enumerate(said)
    ]


def test_books_tell_why_money_moved() -> None:
    pot = {kind: name for name, kind in name_pots(TASK).items()}

    def move(kind: str, account: str, wei: int) -> dict[str, Any]:
        return {"pot": pot[kind], "account": account, "wei_": wei}

    books = fold_books(
        TASK,
        make_events(
            (1, "Taken", move("escrow", SUBMITTER, 100)),
            (2, "Taken", move("stakes", SOLVER, 40)),
            (3, "Taken", move("bonds", OPENER, 8)),
            (4, "SeatConvicted", {}),
            (4, "Given", move("stakes", FINDER, 10)),
            (4, "Given", move("bonds", OPENER, 8)),
            (4, "Discarded", {"pot": pot["stakes"], "wei_": 30}),
            (5, "Given", move("escrow", FINDER, 5)),
            (6, "GameClosed", {}),
            (6, "Given", move("escrow", SUBMITTER, 95)),
            (7, "Taken", move("stakes", FINDER, 3)),
            (8, "Given", move("stakes", FINDER, 3)),
        ),
    )
    assert dict(books.accounts[FINDER]) == {"slash share": 10, "pay": 5, "stake": 0}
    assert dict(books.accounts[SOLVER]) == {"stake": -40} and dict(books.accounts[OPENER]) == {"bonds": 0}
    assert dict(books.accounts[SUBMITTER]) == {"escrow": -5} and books.burned == 30
    assert sum(map(books.get_change, books.accounts)) + books.burned == 0


# --- Verdict ------------------------------------------------------------------------------------------------
def make_report() -> dict[str, Any]:
    def party(name: str, role: str, change: int, **moved: int) -> dict[str, Any]:
        honest = name != CHEAT
        return {
            "name": name, "role": role, "is_honest": honest, "is_convicted": not honest, "change": change,
            "moved": moved,
        }  # fmt: skip

    claim = {"round": 0, "solver": CHEAT, "is_merged": False}
    return {
        "rounds": [{"round": 0, "posted": "ab", "own": "ab"}],
        "task_rounds": 1,
        "is_closed": True,
        "loss": [5.0, 3.0],
        "exported_weights_root": "cd",
        "final_weights_root": "cd",
        "convicted_numbers": {CHEAT: {"is_fault": True}},
        "claims": [claim, {**claim, "solver": "solver-1", "is_merged": True}],
        "parties": [
            party("submitter", "submitter", -2, escrow=-7, reward=5),
            party("solver-1", "solver", 7, pay=7),
            party("verifier-1", "verifier", 4, reward=4),
            party(CHEAT, "solver", -20, stake=-20),
        ],
        "burned": 11,
    }


def find_wrong(report: dict[str, Any]) -> list[str]:
    return [finding.sentence for finding in judge_run(report) if not finding.holds]


def test_a_good_run_passes_however_long_it_took() -> None:
    assert find_wrong(make_report()) == []
    assert find_wrong({**make_report(), "wall_s": 1e6, "utilisation": {"all": 0.0}}) == []


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        (("rounds", 0, "own"), "00", "differ in rounds [0]"),
        (("rounds",), [], "0 of 1 rounds"),
        (("is_closed",), False, "not closed"),
        (("loss",), [5.0, 5.0], "loss fell"),
        (("exported_weights_root",), "", "exported model"),
        (("convicted_numbers",), {}, "one number"),
        (("parties", 3, "is_convicted"), False, "cheat was not convicted"),
        (("parties", 3, "moved"), {"pay": 1, "stake": -21}, "cheat lost"),
        (("claims", 0, "is_merged"), True, "merged"),
        (("parties", 1, "is_convicted"), True, "solver-1 is honest and was convicted"),
        (("parties", 2), {**make_report()["parties"][2], "change": -1, "moved": {"bonds": -1}}, "verifier-1"),
        (("parties", 1, "moved"), {"reward": 7}, "solver-1"),
        (("parties", 1, "change"), 8, "wallets of solver-1"),
        (("burned",), 10, "missing"),
    ],
)
def test_each_wrong_is_seen_and_said(path: tuple[str | int, ...], value: object, word: str) -> None:
    report: Any = make_report()
    *parents, last = path
    place = report
    for key in parents:
        place = place[key]
    place[last] = value
    assert any(word in sentence for sentence in find_wrong(report))


def test_without_a_cheat_nobody_has_to_fall() -> None:
    report = make_report()
    report["parties"].pop()
    report["parties"][0].update(change=-11, moved={"escrow": -11})
    report.update(burned=0, claims=report["claims"][1:], convicted_numbers={})
    assert find_wrong(report) == []


# --- Options and sizes --------------------------------------------------------------------------------------
def test_options_choose_who_takes_part() -> None:
    usual, quick = parse([]), parse(["--quick", "--no-cheat", "--rounds", "5"])
    assert (usual.rounds, usual.solvers, usual.verifiers, usual.whistleblowers) == (3, 3, 3, 3)
    assert (quick.rounds, quick.solvers, quick.whistleblowers) == (5, 2, 1)
    names = [member.name for member in make_setting(quick).members]
    assert CHEAT not in names and len(names) == 6
    assert {member.kernel_rank for member in make_setting(usual).members} == {0, 1}


@pytest.mark.parametrize("arguments", [["--verifiers", "2"], ["--rounds", "0"], ["--fault", "gather"]])
def test_bad_options_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)


@pytest.mark.parametrize("watchers", [0, 3])
def test_the_contracts_take_the_demos_task(watchers: int) -> None:
    plan = build_plan(QUICK, 2, 2, 3, watchers, 1)
    terms, _ = build_task(replace(plan, heldout_tokens=512), make_dataset(), SUBMITTER, bytes(32))
    values = {"terms": terms, "task": bytes(32)}
    assert check_terms(read_terms(values, SigningDomain(0, SUBMITTER)), LIMITS_LOCAL) is None


def test_solvers_come_first_and_the_cheat_is_one_of_them() -> None:
    roster = make_roster(2, 3, 1, with_cheat=True)
    assert [member.role for member in roster[:3]] == [SeatRole.SOLVER] * 3
    assert [member.name for member in roster if not member.is_honest] == [CHEAT]


def test_a_falling_loss_has_shrinking_bars() -> None:
    bars = [line.count("#") for line in draw_curve([5.0, 3.0, 2.0]).splitlines()]
    assert bars == sorted(bars, reverse=True) and len({*bars}) == 3


# --- Processes ----------------------------------------------------------------------------------------------
async def test_a_party_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "demo")
    with folders.hold(), open_company(lambda name, message: None) as company:
        member, key = Member("solver-1", SeatRole.SOLVER), Account.create().key.hex()
        home, log = folders.make_home(member.name), folders.logs / "solver-1.log"
        company.start(
            [Order(member, key, home, log, folders.deployment, "http://127.0.0.1:1", 1, "ADD", "default")]
        )
        with pytest.raises(EnvironmentFault, match="solver-1 has ended before its time.*deployment"):
            while True:
                company.require_alive()
                await asyncio.sleep(0.05)


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "demo")
    with folders.hold():
        (folders.parties / "left").touch()
        with pytest.raises(InvalidInput, match="another demo"), Folders(folders.root).hold():
            pass
    with folders.hold():
        assert not list(folders.parties.iterdir())


@pytest.mark.skipif(not isolation.is_supported(), reason="this kernel has no Landlock")
def test_a_party_neither_reads_nor_lists_anothers_home(tmp_path: Path) -> None:
    own, other = tmp_path / "parties" / "own", tmp_path / "parties" / "other"
    for folder in (own / "incoming", own / "tensor", other):
        folder.mkdir(parents=True)
    (other / "secret").write_text("secret")
    (own / "incoming" / "blob").write_text("mine")
    program = (
        "import os, sys\n"
        "own, other = sys.argv[1:]\n"
        "os.replace(own + '/incoming/blob', own + '/tensor/blob')\n"
        "assert open(own + '/tensor/blob').read() == 'mine'\n"
        "for look in (os.listdir, lambda path: open(path + '/secret').read()):\n"
        "    try:\n"
        "        look(other)\n"
        "    except PermissionError:\n"
        "        continue\n"
        "    sys.exit('it sees the other home')\n"
    )
    begin = (
        "import sys; from pathlib import Path; from tests.e2e_rounds.demo.isolation import confine; "
        f"confine(Path({str(own)!r}), Path({str(own.parent)!r})); exec(sys.stdin.read())"
    )
    command = [sys.executable, "-c", begin, str(own), str(other)]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    found = subprocess.run(command, input=program, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
