"""What `touchstone status` says can be taken out, and when."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.e2e.world import AMOUNTS
from tests.scripts.money import Operators
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.status.node_lines import list_node_lines


def read_rows(said: str) -> dict[str, str]:
    """The rows of all tables by their first cell; the other cells with a bar between them. A row that has the
    first cell of an earlier one is added to it."""
    rows: dict[str, str] = {}
    for line in said.splitlines():
        cells = [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        if cells:
            rows[cells[0]] = "; ".join(filter(None, [rows.get(cells[0]), "|".join(cells[1:])]))
    return rows


def test_who_has_nothing_staked(operators: Operators) -> None:
    said = operators.run("keeper", "status")
    rows = read_rows(said)
    assert rows["tokens in the wallet"] == "100000 tokens|" and rows["credit"] == "0 tokens|"
    assert "Your money" not in said
    assert operators.account_of("keeper") in said


def test_a_narrow_terminal_cuts_no_word(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a cell has too little room the table shortens it to its first letters."""
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    monkeypatch.setenv("COLUMNS", "80")
    said = operators.run("alice", "status")
    assert "verify" in said and "whistleblowers │" not in said and "…" not in said
    monkeypatch.setenv("COLUMNS", "110")
    said = operators.run("alice", "status")
    assert "verifiers" in said and "whistleblowers" in said and "rounds opened" in said and "…" not in said


def test_seats_and_own_tasks(operators: Operators) -> None:
    task = operators.post_task("submitter")
    shown = f"0x{task[:12]}"
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    said = operators.run("alice", "status")
    rows = read_rows(said)
    assert rows[shown].startswith("0/3|paused|0|1|0|")
    assert f"{shown}: lacks 2 more solvers, 2 more verifiers, 3 more whistleblowers" in said
    seat = rows["locked: verifier 0 (active)"]
    assert seat.startswith("0.0000000000000005|the seat is active")
    assert re.search(r"if you leave now, it comes back with block \d+ .*at the earliest", seat)
    assert "locked: escrow" not in rows and "settled" not in rows and "lost" not in rows
    operators.run("alice", "leave", task[:8], "--yes")
    left = read_rows(operators.run("alice", "status"))["locked: verifier 0 (leaving)"]
    assert left == "0.0000000000000005|now: touchstone withdraw"
    own = read_rows(operators.run("submitter", "status"))["locked: escrow"]
    assert own.endswith("|back when all is settled; rounds still to open: 3; seats still to be paid out: 1")
    operators.run("submitter", "task", "halt", task[:8], "--yes")
    operators.run("alice", "withdraw")
    halted = read_rows(operators.run("submitter", "status"))
    assert "|halted|" in halted[shown]
    assert halted["locked: escrow"].endswith("|now: touchstone task close")
    operators.run("submitter", "task", "close", task[:8])
    said = operators.run("submitter", "status")
    assert "|closed|" in read_rows(said)[shown]
    assert read_rows(said)["credit"].endswith("tokens|now: touchstone withdraw")


def test_one_task_in_detail(operators: Operators) -> None:
    task, other = operators.post_task("submitter"), operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    said = operators.run("bob", "status", task[:8])
    assert f"task 0x{task}\nposted by {operators.account_of('submitter')}\n" in said
    assert "paused" in said and "- rounds still to open: 3" in said and "- lacks 2 more solvers" in said
    # Seats of others too; nothing of other tasks.
    seat = read_rows(said)["verifier 0"]
    assert seat.startswith(f"{operators.account_of('alice')}|active|0.0000000000000005|0|0|0")
    assert other[:12] not in said
    assert "unknown task" in operators.fail("bob", "status", "0xzz")[0]
    # No round is to come: it waits for nobody.
    operators.run("submitter", "task", "halt", task[:8], "--yes")
    assert "lacks" not in operators.run("bob", "status", task[:8])
    assert f"0x{task[:12]}: lacks" not in operators.run("bob", "status")


def test_a_full_disk_is_told_by_the_status_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node cannot write it down."""
    room = SimpleNamespace(free=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: room)
    assert list(list_node_lines(None, tmp_path, 0.0)) == []
    room.free = 1_000_000
    (line,) = list_node_lines(None, tmp_path, 0.0)
    assert line == "WARNING: the disk of this home is full: 1 MB free"
