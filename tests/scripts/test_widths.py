"""Help and tables break no word, however wide the terminal is."""

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import rich.console

from tests.scripts.test_money_tables import TASK, play
from tests.scripts.typed import COMMANDS, run
from touchstone.protocol.economics.money_rules import MoneyRule
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.command_line.amount_table import show_money
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.fitting_table import FittingTable, choose_widths
from touchstone.scripts.status import status_tables
from touchstone.scripts.status.sight import Sight
from touchstone.scripts.status.status_tables import SHORT_NAMES, show_status, show_task_status

WIDTHS = (60, 80, 200)


@pytest.mark.parametrize("words", ["", "task", "shares", "data", *COMMANDS])
def test_the_help_of_a_command_breaks_no_word(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words stand there on every terminal, and no line is wider than it."""
    shown = []
    for columns in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(columns))
        status, out, _ = run(*words.split(), "--help")
        text, _, example = out.partition("Example:")
        assert status == 0 and max(map(len, text.splitlines())) <= columns
        shown.append(Counter(text.split()) + Counter(example.split()))
    assert shown[0] == shown[1] == shown[2]


def show(columns: int, seat: str = "solver3") -> str:
    """All tables of `status`, and those of one task, after rounds in which money was lost in each way."""
    game, pace = play()
    state: Any = SimpleNamespace(
        games={TASK: game},
        head_block=pace.head_block,
        credits={seat: TOKEN_WEI},
        refused={b"\x4f" * 32: "its [text] is none"},
    )
    console = Console(rich.console.Console(width=columns, highlight=False))
    sight = Sight(state, pace, seat, TOKEN_WEI, 10**21)
    with console.rich.capture() as said:
        show_status(sight, console)
        show_task_status(sight, TASK, game, console)
    return said.get()


def list_words(said: str) -> set[str]:
    return set(re.sub("[\u2500-\u257f,;:]", " ", said).split())


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_tables_of_status_break_no_word(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts as long as those of a chain are shortened, not broken."""
    monkeypatch.setattr(status_tables, "SHORT_ACCOUNT", 7)
    said, whole = show(columns), list_words(show(400))
    assert list_words(said) <= whole | {*SHORT_NAMES, "whistle", "verifie"} and "…" not in said
    ids = f"task 0x{TASK.hex()}"
    assert all(len(line) <= columns for line in said.splitlines() if line != ids)
    assert "[text]" in said, "a stranger's text has no markup"
    assert columns < 200 or whole == list_words(said)


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_table_of_amounts_breaks_no_word(columns: int) -> None:
    rule = MoneyRule("solver_stake", 340 * TOKEN_WEI, 339 * TOKEN_WEI, "S >= 2 (B + f) / d + gas of a proof")
    shown = []
    for width in (columns, 400):
        console = Console(rich.console.Console(width=width))
        with console.rich.capture() as said:
            show_money([rule], console)
        shown.append(list_words(said.get()))
    assert shown[0] == shown[1]


def draw(columns: int) -> list[str]:
    table = FittingTable("Seats", ("seat", "stake", "account"), frozenset({"stake"}))
    table.add_row("solver 0", "12", "0x1111111111")
    table.add_row("solver 1", "340.181")
    console = rich.console.Console(width=columns)
    with console.capture() as said:
        console.print(table)
    return [line.rstrip() for line in said.get().splitlines()]


def test_a_table_has_borders_none_or_a_line_for_each_row() -> None:
    assert draw(60)[4:6] == ["│ solver 0 │      12 │ 0x1111111111 │", "│ solver 1 │ 340.181 │              │"]
    assert draw(35)[4:6] == ["│ solver │      12 │ 0x1111111111 │", "│ 0      │         │              │"]
    assert draw(32)[2:] == ["solver        12  0x1111111111", "0", "solver   340.181", "1"]
    assert draw(30) == [
        "Seats", "seat solver 0: stake 12,", "account 0x1111111111", "seat solver 1: stake 340.181",
    ]  # fmt: skip


def test_room_goes_first_to_the_column_that_needs_the_least() -> None:
    rows = [("a bc", "to be or not to be"), ("d", "that")]
    assert choose_widths(rows, 100) == [4, 18] and choose_widths(rows, 12) == [4, 8]
    assert choose_widths(rows, 6) == [2, 4] and choose_widths(rows, 5) == []
