"""Taking part in a task from the command line: what must be right before any work starts. Work itself:
tests/e2e/test_commands.py."""

import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from msgspec import structs

from tests.e2e.world import AMOUNTS
from tests.protocol.spec.game.simulation import make_terms, make_world
from tests.scripts.money import Operators
from tests.scripts.network import DEADLINE_S, ROOT, edit_config, fail, init, wait_for_line
from tests.scripts.schemas import read_one
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import JOURNAL_FILE, NodeConfig
from touchstone.node.records.record_kinds import RECORDS
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.machine import extra_libraries
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_12S
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.terms import GameAmounts
from touchstone.protocol.spec.game.vault import Vault
from touchstone.scripts.account.task_words import describe_format, describe_seat, describe_solver
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.home.home_config import read_config
from touchstone.scripts.home.node_config import choose_executor
from touchstone.scripts.seats import seat_agreement, seat_session
from touchstone.scripts.seats.seat_agreement import Offer, refuse_seat
from touchstone.scripts.tasks.task_example import TASK_FILE
from touchstone.scripts.touchstone import main


@pytest.mark.parametrize("command", ["solve", "verify", "watch", "export"])
def test_an_unknown_task(home: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--out", str(home / "model")] if command == "export" else []
    lines = fail(capsys, command, "0x3fa9", "--home", str(home), *more)
    advice = ("touchstone task create", "touchstone status")  # where none was posted; where others were
    assert "unknown task" in lines[0] and any(word in lines[3] for word in advice)


TASK, OFFER = b"\xab" * 32, Offer(SeatRole.SOLVER, 0, is_agreed=False)


def test_a_closed_task_takes_no_seat() -> None:
    game = LoggedGame(make_terms(), BOUNDS_LOCAL, Vault(), bytes(32), 0)
    refuse_seat(TASK, game, "stranger", OFFER, 1)
    with pytest.raises(InvalidInput, match="the task is closed") as error:
        refuse_seat(TASK, replace(game, is_closed=True), "stranger", OFFER, 1)
    assert error.value.where == "0xabababababab" and error.value.expected == "a task that takes seats"


def test_a_seat_that_the_contracts_would_refuse_is_refused_without_a_question() -> None:
    game = LoggedGame(make_terms(), BOUNDS_LOCAL, Vault(), bytes(32), 0)
    with pytest.raises(InvalidInput, match="TaskHalted") as error:
        refuse_seat(TASK, replace(game, is_halted=True), "stranger", OFFER, 1)
    assert error.value.where == "0xabababababab" and error.value.expected and error.value.actual


def test_an_older_journal_is_refused_before_any_question(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / JOURNAL_FILE
    Journal(path, RECORDS).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    lines = fail(capsys, "solve", "0x3fa9", "--home", str(home))
    assert "journal" in lines[0] and "journal format 2" in lines[2] and "version of Touchstone" in lines[3]
    for one in home.glob(f"{JOURNAL_FILE}*"):
        one.unlink()


@pytest.mark.parametrize(
    "words", ["solve 0x3fa9", "verify 0x3fa9", "watch 0x3fa9", "task create --config dev"]
)
def test_a_second_node_of_a_home_is_refused_at_once_with_the_process_of_the_first(
    tmp_path: Path, words: str
) -> None:
    """It loaded torch first, asked for the password, and did not say which process to stop."""
    code = (
        "import sys; from touchstone.scripts.touchstone import main\n"
        "status = main(sys.argv[1:])\n"
        "print(status, 'torch' in sys.modules, 'web3' in sys.modules)"
    )
    with Journal(tmp_path / JOURNAL_FILE, RECORDS):
        command = [sys.executable, "-c", code, *words.split(), "--home", str(tmp_path)]
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert second.stdout == "2 False False\n"
    assert "the journal is in use" in second.stderr and f"process {os.getpid()} has it open" in second.stderr


def test_a_malformed_task_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "task.toml").write_text('preset = "local"')
    lines = fail(capsys, "task", "create", "--config", str(tmp_path / "task.toml"), "--home", str(home))
    assert "dataset" in lines[0]


def write_small_task(folder: Path) -> Path:
    """The manual's task with a model that is built in no time."""
    text = TASK_FILE.read_text()
    for name, value in (("hidden_size", 16), ("intermediate_size", 32), ("layer_count", 1)):
        text = re.sub(rf"(?m)^{name} = \d+", f"{name} = {value}", text)
    (folder / "task.toml").write_text(text)
    (folder / "corpus.bin").write_bytes(bytes(range(256)) * 1000)
    return folder / "task.toml"


def test_a_task_is_posted_and_judged(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    """The submitter's node in a process of its own; another operator looks at the task and does not join."""
    config, log = write_small_task(operators.folder), operators.folder / "log"
    words = [
        "task",
        "create",
        "--config",
        str(config),
        "--home",
        str(operators.home_of("submitter")),
        "--yes",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "touchstone.scripts.touchstone", *words],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    task = wait_for_line(log, r"posted 0x([0-9a-f]{64})")
    assert f"0x{task[:12]}" in operators.run("alice", "status")
    assert f"0x{task[:12]}" in operators.fail("alice", "solve", "0x" + task[:4] + "zz")[1]
    sent = operators.count_sent("alice")
    # The figure is a solver's: an auditor keeps what it was drawn for.
    for command, more, is_told in (("solve", [], True), ("verify", ["--why"], False)):
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        operators.capsys.readouterr()
        assert main([command, task[:8], *more, "--home", str(operators.home_of("alice"))]) == 2
        shown = operators.capsys.readouterr()
        assert ("MB of disk" in shown.out) is is_told and "error:    nothing was locked" in shown.err
        assert ("C + gas of a round" in shown.out) is bool(more), "the rules are shown if they are asked for"
        _check_question(shown.out)
    assert operators.count_sent("alice") == sent + 2, "each announced its endpoint, and moved no token"
    assert "it was declined by its operator" in operators.run("alice", "status"), "no is no error of the node"
    lines = operators.fail("alice", "solve", task[:8], "--stake", "1", "--yes")
    assert "too small" in lines[0] and lines[2].endswith("1 tokens")
    lines = operators.fail("alice", "verify", task[:8], "--stake", "100001", "--yes")
    assert "too few tokens" in lines[0] and "100000 tokens" in lines[2]
    _judge_otherwise(operators, task)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 130, log.read_text()
    said = log.read_text()
    assert "it costs at most" in said and "MB of disk" in said and "Traceback" not in said
    # Each amount with the inequality that fixed it.
    assert "solver_stake" in said and "C + gas of a round" in said and "(wrong)" not in said


def _check_question(said: str) -> None:
    """Who cannot do the work is told before it locks anything; who is asked knows for how long."""
    lines = ("the machine is checked first", "checking one step", "checked one step", "Joining as a", "Lock ")
    places = [said.index(line) for line in lines]
    assert places == sorted(places)
    assert re.search(r"locks [\d.]+ tokens\. You get them back (about|less than) .* after you leave", said)
    assert re.search(r"Lock [\d.]+ tokens and join\? \[y/n\]", said)


def test_a_solver_is_warned_where_a_round_does_not_fit_into_an_answer() -> None:
    """A pruned round that is disputed is trained again before the first answer."""
    terms = make_terms(windows=replace(WINDOWS_12S, respond=WINDOWS_12S.train_min))
    assert len(list(describe_solver(terms, 1_000))) == 1
    short = replace(terms, windows=replace(terms.windows, respond=WINDOWS_12S.train_min - 1))
    (_, warning) = describe_solver(short, 1_000)
    assert (
        warning.startswith("WARNING") and "249 blocks (respond)" in warning and "250 (train_min)" in warning
    )


@pytest.mark.parametrize(
    ("role", "earns"),
    [
        (SeatRole.SOLVER, "a round earns 0.0000000000000001 tokens if your claim is accepted"),
        (SeatRole.VERIFIER, "an audit earns 0.00000000000000001 tokens, and you have about 0.5 a round"),
        (SeatRole.WHISTLEBLOWER, "an audit earns 0.00000000000000002 tokens, and you have about 0.4 a round"),
    ],
)
def test_what_a_seat_locks_and_until_when_is_told(role: SeatRole, earns: str) -> None:
    """Three solvers, five verifiers and three whistleblowers sit; half of the claims are audited late."""
    game = make_world(windows=WINDOWS_12S).state
    locks, pay = describe_seat(game, role, 10**18, Pace(7, 12.0))
    assert locks == (
        f"Joining as a {role.name.lower()} locks 1 tokens. You get them back about 26 hours after you leave "
        "or the task ends. If you are proven wrong you lose all of them."
    )
    assert pay.startswith(earns)
    (unknown, _) = describe_seat(game, role, 10**18, Pace(7, None))
    assert "You get them back 7,925 blocks after you leave" in unknown


def test_who_stakes_on_an_exact_task_is_told_so() -> None:
    terms = make_terms()
    assert not list(describe_format(terms))
    (said,) = describe_format(replace(terms, is_exact=True))
    assert said.startswith("an exact task: ") and "lock only what you can lose" in said


def _judge_otherwise(operators: Operators, task: str) -> None:
    """Other figures, other limits: the same task is refused, by its key."""
    home = operators.home_of("alice")
    path = home / "config.toml"
    before = path.read_text()
    path.write_text(before + '\n[economics]\noutside_gain = "1000"\n')
    lines = operators.fail("alice", "solve", task[:8], "--yes")
    assert "amounts.solver_stake" in lines[0] and "cheating pays" in lines[0] and "[economics]" in lines[3]
    path.write_text(before + "\n[economics]\ncolour = 1\n")
    assert "economics.colour" in operators.fail("alice", "solve", task[:8], "--yes")[0]
    path.write_text(before)
    edit_config(home, "preset", "2s")
    assert "preset in config.toml" in operators.fail("alice", "solve", task[:8], "--yes")[0]
    edit_config(home, "preset", "local")


def test_a_device_that_this_machine_lacks_is_said_before_a_password_is_asked(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the task: nothing of the chain is read either. Other commands need no device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    home = operators.home_of("alice")
    edit_config(home, "device", "cuda:1")
    for role in ("solve", "verify", "watch"):
        lines = operators.fail("alice", role, "0x00", "--yes")
        assert "no such device" in lines[0] and "device = cuda:1" in lines[0]
        assert len(lines) == 4 and 'device = "cpu"' in lines[3]
    edit_config(home, "device", "cpu")


def test_a_seat_of_another_role_is_not_played(operators: Operators) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    lines = operators.fail("alice", "solve", task[:8], "--yes")
    assert "another role" in lines[0] and lines[2].endswith("verifier 0")


async def play_closed(role: SeatRole, config: NodeConfig, task: bytes, request: SeatRequest) -> bool:
    """A verifier whose task is closed at once."""
    assert role is SeatRole.VERIFIER
    return True


async def play_left(role: SeatRole, config: NodeConfig, task: bytes, request: SeatRequest) -> bool:
    """A verifier whose seat is paid out at once."""
    assert role is SeatRole.VERIFIER
    return False


def test_a_node_says_why_it_ends(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    monkeypatch.setattr(seat_session, "RUN_ROLE", f"{__name__}:play_closed")
    assert "the task is closed" in operators.run("alice", "verify", task[:8])
    monkeypatch.setattr(seat_session, "RUN_ROLE", f"{__name__}:play_left")
    said = operators.run("alice", "verify", task[:8])
    assert "the seat has left and is paid out; this node is not needed any more" in said
    assert "the task is closed" not in said
    found = read_one("verify", operators.run("alice", "verify", task[:8], "--json"))
    assert found == {"task": f"0x{task}", "role": "verifier", "is_task_closed": False}


def test_a_service_does_not_stake_again_what_its_operator_took_out(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts with the machine and says --yes: nobody would be asked."""
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    monkeypatch.setattr(seat_session, "RUN_ROLE", f"{__name__}:play_left")
    operators.run("alice", "leave", task[:8], "--yes")
    assert "going on as verifier 0" in operators.run("alice", "verify", task[:8], "--yes"), "it still serves"
    operators.run("alice", "withdraw", "--wait")
    lines = operators.fail("alice", "verify", task[:8], "--yes", status=ExitCode.NOT_NEEDED)
    assert "left the task for good" in lines[0] and "without --yes" in lines[3]
    lines = operators.fail("alice", "verify", task[:8])
    assert "cheating pays" in lines[0], "whoever types it is judged and asked as ever"


@pytest.mark.parametrize("name", ["TaskOver", "TaskHalted", "SeatsTaken"])
def test_a_service_ends_in_peace_where_the_task_takes_no_seat_any_more(
    operators: Operators, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where one may be free again it tries again."""

    def refuse(*_: object) -> None:
        raise GameRefusal(name=name)

    monkeypatch.setattr(seat_agreement, "require_joinable", refuse)
    status = ExitCode.REFUSED if name == "SeatsTaken" else ExitCode.NOT_NEEDED
    task = operators.post_task("submitter")
    assert name in operators.fail("alice", "verify", task[:8], "--yes", status=status)[0]


def test_who_has_no_coin_for_gas_is_told_so_before_anything_else(operators: Operators) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    config = write_small_task(operators.folder)
    for name in ("alice", "poor"):
        operators.take_coin(name)
    words = [
        ("alice", "leave", task[:8], "--yes"),
        ("alice", "withdraw"),
        ("poor", "verify", task[:8], "--yes"),
        ("poor", "task", "create", "--config", str(config), "--yes"),
    ]
    for name, *command in words:
        lines = operators.fail(name, *command)
        assert "no coin for gas" in lines[0] and operators.account_of(name) in lines[1].lower()
        assert "touchstone init --devnet" in lines[3]
    assert init(operators.network, operators.home_of("poor"), operators.password) == 0
    assert "funded with coin for gas" in operators.capsys.readouterr().out
    operators.run("alice", "status")


def test_a_pay_below_its_least_is_not_posted(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_small_task(tmp_path)
    config.write_text(config.read_text().replace('solver_pay = "10"', 'solver_pay = "1"'))
    lines = fail(capsys, "task", "create", "--config", str(config), "--home", str(home), "--yes")
    assert f"{config}, amounts.solver_pay" in lines[0]
    assert "at least" in lines[1] and lines[2].endswith("1 tokens")


def test_a_task_under_which_cheating_pays_is_not_posted(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_small_task(tmp_path)
    names = [one.name for one in fields(GameAmounts) if one.name != "solver_pay"]
    given = "\n".join(f'{name} = "3"' for name in names)
    text = config.read_text().replace('amounts = "derived"', 'amounts = "given"')
    config.write_text(text.replace('solver_pay = "10" ', f'{given}\nsolver_pay = "10" '))
    lines = fail(capsys, "task", "create", "--config", str(config), "--home", str(home), "--yes")
    assert "cheating pays" in lines[0] and "amounts.solver_stake" in lines[0]
    assert main(["status", "--home", str(home)]) == 0


def test_ray_that_is_not_installed_is_named_with_the_command_before_the_password_is_asked_for(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver has no replays that Ray could run, whatever its configuration says."""

    def miss(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(extra_libraries, "import_module", miss)
    lines = fail(capsys, "verify", "0xabc", "--home", str(home), "--executor", "ray")
    assert len(lines) == 4 and "No module named 'ray'" in lines[2] and "pip install -e '.[ray]'" in lines[3]
    config = structs.replace(read_config(home), executor="ray", replay_processes=8)
    alone = {"executor": "process", "replay_processes": 1, "workers": 1}
    assert choose_executor(SeatRole.SOLVER, None, config) == alone
    assert choose_executor(SeatRole.VERIFIER, "process", config) == {"executor": "process"}
    with pytest.raises(InvalidInput, match="only on processors"):
        choose_executor(SeatRole.VERIFIER, None, structs.replace(config, device="cuda"))


def test_a_solver_alone_has_workers_and_on_processors_alone(home: Path) -> None:
    config = structs.replace(read_config(home), workers=2)
    assert choose_executor(SeatRole.SOLVER, None, config)["workers"] == 2
    assert "workers" not in choose_executor(SeatRole.VERIFIER, None, config)
    with pytest.raises(InvalidInput, match="only on processors"):
        choose_executor(SeatRole.SOLVER, None, structs.replace(config, device="cuda"))


def test_losses_are_written_by_a_solver_alone_and_a_missing_library_is_named_before_the_password(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = structs.replace(read_config(home), tensorboard_dir=str(tmp_path / "board"))
    assert "tensorboard_dir" not in choose_executor(SeatRole.SOLVER, None, read_config(home))
    monkeypatch.setattr(extra_libraries, "import_module", lambda name: None)
    assert choose_executor(SeatRole.SOLVER, None, config)["tensorboard_dir"] == tmp_path / "board"
    assert "tensorboard_dir" not in choose_executor(SeatRole.VERIFIER, None, config)
    assert not (tmp_path / "board").exists()

    def miss(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(extra_libraries, "import_module", miss)
    monkeypatch.setenv("TOUCHSTONE_TENSORBOARD_DIR", str(tmp_path / "board"))
    lines = fail(capsys, "solve", "0xabc", "--home", str(home))
    assert len(lines) == 4 and "tensorboard_dir in config.toml needs a library" in lines[0]
    assert "No module named 'tensorboardX'" in lines[2] and "pip install -e '.[tensorboard]'" in lines[3]
