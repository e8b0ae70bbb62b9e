"""`touchstone tasks` shows an operator which work there is: what a seat earns, locks and needs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import AMOUNTS
from tests.scripts.money import Operators
from tests.scripts.network import Network, fail
from tests.scripts.schemas import read_one
from tests.scripts.typed import run
from touchstone.protocol.compute.program.step_runners import STATES_BYTES
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.home.home_files import CONFIG_FILE
from touchstone.scripts.seats import least_needs
from touchstone.scripts.status.offer_tables import _show_amount


def list_tasks(network: Network, *words: str) -> tuple[int, str, str]:
    """As somebody types it who has no home."""
    return run("tasks", "--rpc-url", network.rpc_url, "--deployment", str(network.deployment), *words)


def find(found: Any, task: str) -> Any:
    (offer,) = [one for one in found["tasks"] if one["task"] == f"0x{task}"]
    return offer


@pytest.fixture(autouse=True)
def _no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("TOUCHSTONE_HOME", raising=False)


def test_a_newcomer_without_a_home_sees_what_each_seat_earns_and_locks(operators: Operators) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    _, out, _ = list_tasks(operators.network, "--json")
    offer = find(read_one("tasks", out), task)
    assert (offer["status"], offer["takes_seats"], offer["first_round"]) == ("paused", True, None)
    assert offer["lacks"] == "2 more solvers, 2 more verifiers, 3 more whistleblowers"
    assert (offer["steps"], offer["segment_steps"], offer["step_tokens"]) == (8, 2, 2 * 16)
    assert offer["least_memory_bytes"] == least_needs.PROCESS_BYTES + 36 * offer["parameters"]
    solver, verifier, whistleblower = offer["seats"]
    assert solver["locks_wei"] == str(AMOUNTS.solver_stake) and solver["pay_wei"] == str(AMOUNTS.solver_pay)
    assert (solver["paid_for"], solver["per_round"]) == ("claim", 1.0)
    assert (solver["taken"], solver["free"]) == (0, 4) and (verifier["taken"], verifier["free"]) == (1, 1023)
    assert verifier["locks_wei"] == whistleblower["locks_wei"] == str(AMOUNTS.auditor_stake)
    assert verifier["pay_wei"] == str(AMOUNTS.audit_pay) and 0 < verifier["per_round"] < 1
    status, out, err = list_tasks(operators.network)
    assert (status, err) == (0, "") and f"0x{task[:12]}: paused, 0 of 3 rounds opened" in out
    assert "It waits for 2 more solvers" in out and re.search(r"solver +│ <0\.001 +│ <0\.001 +│ 0 +│ 4", out)
    assert "touchstone verify TASK" in out


def test_a_home_says_which_chain_is_asked(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, in the environment, or where a home lies if nobody says so."""
    task, home = operators.post_task("submitter"), operators.home_of("alice")
    found = read_one("tasks", run("tasks", "--home", str(home), "--json")[1])
    assert find(found, task)["takes_seats"]
    monkeypatch.setenv("TOUCHSTONE_HOME", str(home))
    assert find(read_one("tasks", run("tasks", "--json")[1]), task)
    monkeypatch.delenv("TOUCHSTONE_HOME")
    monkeypatch.setenv("HOME", str(home.parent))
    home.rename(home.parent / ".touchstone")
    assert find(read_one("tasks", run("tasks", "--json")[1]), task)
    (home.parent / ".touchstone" / CONFIG_FILE).write_text("")
    assert find(read_one("tasks", list_tasks(operators.network, "--json")[1]), task), "no home is read"
    both = list_tasks(operators.network, "--home", str(home))
    assert both[0] == 2 and "Give --home, or --rpc-url and --deployment" in both[2]


def test_a_task_that_takes_no_seats_is_told_last_and_in_a_line(operators: Operators) -> None:
    halted, offered = operators.post_task("submitter"), operators.post_task("submitter")
    operators.run("submitter", "task", "halt", halted[:8], "--yes")
    found = read_one("tasks", list_tasks(operators.network, "--json")[1])
    assert not find(found, halted)["takes_seats"] and find(found, offered)["takes_seats"]
    order = [one["takes_seats"] for one in found["tasks"]]
    assert order == sorted(order, reverse=True)
    out = list_tasks(operators.network)[1]
    before, after = out.split("take no seat any more:")
    assert f"0x{halted[:12]}: halted, 0 of 3" in after and f"0x{halted[:12]}" not in before
    assert f"0x{offered[:12]}" in before


def test_a_chain_that_is_silent_is_an_error(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("tasks", "--rpc-url", "http://127.0.0.1:1", "--deployment", str(network.deployment))
    assert "chain" in fail(capsys, *words)[0]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_list_breaks_no_word(operators: Operators, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    task = operators.post_task("submitter")
    monkeypatch.setenv("COLUMNS", str(columns))
    out = list_tasks(operators.network)[1]
    assert max(len(line.rstrip()) for line in out.splitlines()) <= columns and "…" not in out
    for word in (f"0x{task[:12]}:", "whistleblower", "parameters,", "about <0.001"):
        assert word in out


def test_the_bytes_of_a_state_are_those_of_the_node() -> None:
    """The list of tasks does not wait for PyTorch."""
    assert least_needs.STATES_BYTES == STATES_BYTES


@pytest.mark.parametrize(
    ("wei", "shown"),
    [(0, "0"), (1, "<0.001"), (10**15, "0.001"), (340_181 * 10**15, "340.181"), (12_000 * 10**18, "12,000")],
)
def test_amounts_are_short(wei: int, shown: str) -> None:
    assert _show_amount(wei) == shown
