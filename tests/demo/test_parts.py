"""The demo's parts: money, words, verdict, options, processes that see nothing of each other."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account

from tests.e2e.world import make_dataset
from tests.task_models import draw_first
from touchstone.demo import isolation, settings
from touchstone.demo.choices import COUNTS, FAULTS, Choices
from touchstone.demo.company import open_company
from touchstone.demo.plan import QUICK, build_plan
from touchstone.demo.planted import make_planting_compute
from touchstone.demo.player import Order
from touchstone.demo.report import list_burned, list_moved
from touchstone.demo.results import draw_curve
from touchstone.demo.roster import CHEAT, Member, make_roster
from touchstone.demo.settings import INSTALLED_FOLDER, find_folder, make_setting
from touchstone.demo.show import Setting
from touchstone.demo.stage import Folders
from touchstone.demo.verdict import judge_run
from touchstone.demo.watch import Watch
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.tolerance.compare import judge_state
from touchstone.protocol.economics.account_locks import Lock, LockKind
from touchstone.protocol.economics.account_money import AccountMoney
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_terms import read_terms
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameRound, Pool
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.game.vault import PotKind
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.touchstone import main

TASK, SUBMITTER = b"\1" * 32, "0x" + "11" * 20
SOLVER = "0x" + "a" * 40


# Money
def test_what_came_and_went_is_what_the_wallet_has_more() -> None:
    """By column; what an account still has locked is not in its wallet."""
    reasons = (MoneyReason.ACCEPTED_CLAIM, MoneyReason.SLASH_SHARE, MoneyReason.MISSED_ROUND)
    sums = {reason: 10 * place for place, reason in enumerate((*reasons, MoneyReason.PAID_MEMBERS), 1)}
    money = AccountMoney(SOLVER, (Lock(LockKind.STAKE, 0, 7, None),), sums=sums)
    assert list_moved(money) == {"pay": 10, "shares": 20, "locked": -7, "lost": -30, "spent": -40}
    assert sum(list_moved(money).values()) == money.change
    assert list_burned({PotKind.ESCROW: 1, PotKind.STAKE: 2, PotKind.BOND: 4}) == {"lost": 6, "spent": 1}


# Rounds
def test_the_watch_keeps_rounds_that_the_chain_forgets() -> None:
    """A run of more than 16 rounds once counted the claims of its last epoch only."""
    kept = GameRound(0, Pool(), bytes(32), 0, 0)
    games = [SimpleNamespace(rounds={0: kept}, pools={0: kept.pool}), SimpleNamespace(rounds={}, pools={})]
    state: Any = SimpleNamespace(games={}, take=lambda batch: state.games.update({TASK: games.pop(0)}))
    unused: Any = None
    watch = Watch(unused, unused, unused, state, lambda: 0.0)
    for _ in range(2):
        asyncio.run(watch.take(LogBatch(Head(0, bytes(32), bytes(32), 0, 0), ())))
    assert not watch.game.rounds and watch.rounds == {0: kept} and watch.pools == {0: kept.pool}


# Verdict
def make_report() -> dict[str, Any]:
    def party(name: str, role: str, change: int, **moved: int) -> dict[str, Any]:
        honest = name != CHEAT
        return {
            "name": name, "role": role, "is_honest": honest, "is_convicted": not honest, "change": change,
            "moved": moved, "asked": 0,
        }  # fmt: skip

    claim = {"round": 0, "solver": CHEAT, "is_merged": False}
    return {
        "rounds": [{"round": 0, "posted": "ab", "own": "ab"}],
        "task_rounds": 1,
        "is_closed": True,
        "loss": [{"rounds_done": 0, "loss": 5.0}, {"rounds_done": 1, "loss": 3.0}],
        "exported_weights_root": "cd",
        "final_weights_root": "cd",
        "convicted_numbers": {CHEAT: {"is_fault": True}},
        "claims": [claim, {**claim, "solver": "solver-1", "is_merged": True}],
        "parties": [
            party("submitter", "submitter", -2, spent=-7, shares=5),
            party("solver-1", "solver", 7, pay=7),
            party("verifier-1", "verifier", 4, shares=4),
            party(CHEAT, "solver", -20, lost=-20),
        ],
        "burned": 11,
    }


def find_wrong(report: dict[str, Any]) -> list[str]:
    return [finding.statement_key for finding in judge_run(report) if not finding.holds]


def test_a_good_run_passes_however_long_it_took() -> None:
    assert find_wrong(make_report()) == []
    assert find_wrong({**make_report(), "wall_s": 1e6, "utilisation": {"all": 0.0}}) == []


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        (("rounds", 0, "own"), "00", "differ in rounds [0]"),
        (("rounds",), [], "0 of 1 rounds"),
        (("is_closed",), False, "not closed"),
        (("loss", 1, "loss"), 5.0, "loss fell"),
        (("exported_weights_root",), "", "exported model"),
        (("convicted_numbers",), {}, "one number"),
        (("parties", 3, "is_convicted"), False, "cheat was not convicted"),
        (("parties", 3, "moved"), {"pay": 1, "lost": -21}, "cheat lost"),
        (("claims", 0, "is_merged"), True, "merged"),
        (("parties", 1, "is_convicted"), True, "solver-1 is honest and was convicted"),
        (("parties", 2), {**make_report()["parties"][2], "change": -1, "moved": {"lost": -1}}, "verifier-1"),
        (("parties", 1, "moved"), {"shares": 7}, "solver-1"),
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
    assert any(word in statement_key for statement_key in find_wrong(report))


def test_the_bond_of_an_answered_query_is_no_fault_and_is_told() -> None:
    """One ACCEPT in 64 is asked about by chance; more than the bond must not be missing."""
    report = make_report()
    report["parties"][2].update(change=-36, asked=40, moved={"pay": 4, "lost": -40})
    report["burned"] += 40
    assert find_wrong(report) == []
    told = [finding.statement_key for finding in judge_run(report)]
    assert any(
        "verifier-1 paid" in statement_key and "for answered asks" in statement_key for statement_key in told
    )
    report["parties"][2].update(change=-41, moved={"pay": -1, "lost": -40})
    assert any("lost money" in statement_key for statement_key in find_wrong(report))


def test_without_a_cheat_nobody_has_to_fall() -> None:
    report = make_report()
    report["parties"].pop()
    report["parties"][0].update(change=-11, moved={"escrow": -11})
    report.update(burned=0, claims=report["claims"][1:], convicted_numbers={})
    assert find_wrong(report) == []


# Options and sizes
def parse(*words: str) -> Choices:
    """What the command makes of an argument line."""
    found: list[Choices] = []

    def keep(choices: Choices) -> Setting:
        found.append(choices)
        raise InvalidInput(what="stopped", expected="", actual="", remedy="")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "make_setting", keep)
        status = main(["demo", *words])
    assert status == ExitCode.REFUSED
    if not found:
        raise ValueError("the command line was refused")
    return found[0]


def test_options_choose_who_takes_part() -> None:
    usual, quick = parse(), parse("--quick", "--cheats", "none", "--rounds", "5")
    assert [usual.get_count(name) for name in COUNTS] == [3, 3, 3, 3]
    assert [quick.get_count(name) for name in COUNTS] == [5, 2, 3, 1]
    names = [member.name for member in make_setting(quick).members]
    assert CHEAT not in names and len(names) == 6
    assert {member.kernel_rank for member in make_setting(usual).members} == {0, 1}


@pytest.mark.parametrize(("named", "has_exact"), [("float32", False), ("exact", True)])
def test_the_demos_program_is_of_the_format_that_is_asked_for(named: str, has_exact: bool) -> None:
    plan = make_setting(parse("--quick", "--format", named)).plan
    operations = {node.operation for node in plan.step.built.program.nodes}
    assert (Operation.QUANTIZED_PRODUCT_SUM in operations) is has_exact


@pytest.mark.parametrize(
    "arguments", [["--verifiers", "2"], ["--rounds", "0"], ["--fault", "gather"], ["--cheats", "2"]]
)
def test_bad_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError):
        parse(*arguments)
    assert arguments[0] in capsys.readouterr().err


def test_a_run_lies_in_the_checkout_if_there_is_one_to_write(tmp_path: Path) -> None:
    assert find_folder(tmp_path) == INSTALLED_FOLDER, "a wheel has no checkout"
    (tmp_path / "pyproject.toml").touch()
    assert find_folder(tmp_path) == tmp_path / "build" / "demo"
    assert make_setting(parse("--out", str(tmp_path / "own"))).folders.root == tmp_path / "own"


def test_a_folder_with_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    """The folder of an earlier run is deleted: `--out ~` once deleted a home."""
    (tmp_path / "notes").touch()
    with pytest.raises(InvalidInput, match="not its own.*notes"), Folders(tmp_path).hold():
        pass
    assert (tmp_path / "notes").exists()


@pytest.mark.parametrize("watchers", [0, 3])
def test_the_contracts_take_the_demos_task(watchers: int) -> None:
    plan = build_plan(QUICK, 2, 2, 3, watchers, 1)
    terms, _ = build_task(replace(plan, heldout_tokens=512), make_dataset(), SUBMITTER, bytes(32))
    values = {"terms": terms, "task": bytes(32)}
    assert check_terms(read_terms(values, SigningDomain(0, SUBMITTER)), BOUNDS_LOCAL) is None


def test_solvers_come_first_and_the_cheat_is_one_of_them() -> None:
    roster = make_roster(2, 3, 1, with_cheat=True)
    assert [member.role for member in roster[:3]] == [SeatRole.SOLVER] * 3
    assert [member.name for member in roster if not member.is_honest] == [CHEAT]


def test_a_falling_loss_has_shrinking_bars() -> None:
    bars = [line.count("#") for line in draw_curve([5.0, 3.0, 2.0]).splitlines()]
    assert bars == sorted(bars, reverse=True) and len({*bars}) == 3


# Processes
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
        "import sys; from pathlib import Path; from touchstone.demo.isolation import confine; "
        f"confine(Path({str(own)!r}), Path({str(own.parent)!r})); exec(sys.stdin.read())"
    )
    command = [sys.executable, "-c", begin, str(own), str(other)]
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    found = subprocess.run(command, input=program, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr


# Faults
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_on_offer_leaves_the_limits_in_every_step(fault: str) -> None:
    """Late in the task as well: a cheat that errs without effect would be merged."""
    plan = replace(build_plan(QUICK, 2, 2, 3, 1, 1), heldout_tokens=512)
    terms, training = build_task(plan, make_dataset(), SUBMITTER, bytes(32))
    batches = partial(get_batch, open_corpus(make_dataset(), training), training, bytes(32), 0)
    state = begin_round(draw_first(training), 0)
    cheating = make_planting_compute(Operation[fault.upper()])
    for step in (0, QUICK.steps, 2 * QUICK.steps - 1):
        state, _ = train_segment(state, training, batches, state.global_step, step - state.global_step)
        honest, _ = train_segment(state, training, batches, step, 1)
        false, _ = cheating.train(state, training, batches, step, 1)
        rate = compute_learning_rate_sum(training.schedule, step, 1, 1 << 30)
        assert judge_state(false, honest, rate, terms.limits).exceeds_limits
