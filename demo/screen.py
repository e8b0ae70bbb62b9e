"""Shows a run: a line for each event, then the curve, tables and the verdict."""

import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from touchstone.demo.report import COLUMNS
from touchstone.demo.verdict import Finding
from touchstone.explorer.names import show_wei

WIDTH = 118
WHO = 16
BAR = 44
BEFORE = " " * (len("1234.5 s  ") + WHO + 1)
"""What stands before the continuation of a long line."""
LINE_WIDTH = 120
"""Characters of a line after who said it."""


class TimelineEntry(NamedTuple):
    """A line of a run. `seconds` are since its start."""

    seconds: float
    who: str
    line: str


class Screen:
    """Shows lines with the seconds since the start. `timeline` has all lines so far."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, width=None if Console().is_terminal else WIDTH)
        self.timeline: list[TimelineEntry] = []
        self._started_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Returns the seconds since the start."""
        return time.monotonic() - self._started_s

    def notify(self, who: str, line: str) -> None:
        """Shows a line, continued on the next if it is long."""
        self.timeline.append(TimelineEntry(self.seconds, who, line))
        wrapped = textwrap.wrap(line, LINE_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
        text = f"\n{BEFORE}".join(wrapped)
        self.console.print(f"{self.seconds:>6.1f} s  {who:<{WHO}} {text}", markup=False, soft_wrap=True)

    def show_result(self, report: Mapping[str, Any], findings: Sequence[Finding]) -> None:
        """Shows curve, money, utilisation, gas and verdict."""
        self.console.print("\nHeld-out loss of the global model, nats per byte")
        self.console.print(draw_curve([one["loss"] for one in report["loss"]]) + "\n", markup=False)
        self.console.print(make_money_table(report))
        for line in (*describe_utilisation(report["utilisation"]), *describe_gas(report["gas"])):
            self.console.print(line, markup=False)
        said = f"\nwhole run: {report['wall_s']:.0f} s; page: {report['page']}; figures: {report['path']}\n"
        self.console.print(said, markup=False)
        for finding in findings:
            mark = "[green]ok   [/]" if finding.holds else "[bold red]WRONG[/]"
            self.console.print(f"  {mark}  {finding.statement_key}")
        is_good = all(finding.holds for finding in findings)
        self.console.print("\nAll of it holds." if is_good else "\nSomething is wrong.")


def draw_curve(losses: Sequence[float]) -> str:
    """Returns a bar for each model."""
    most = max(losses)
    names = ["at first", *(f"round {index}" for index in range(len(losses) - 1))]
    return "\n".join(
        f"  {name:<9} {loss:.3f} {'#' * max(1, round(BAR * loss / most))}"
        for name, loss in zip(names, losses, strict=True)
    )


def make_money_table(report: Mapping[str, Any]) -> Table:
    """Returns what each party has more or less than before, and why."""
    table = Table(title="Money, in tokens", title_justify="left")
    table.add_column("party")
    for column in (*COLUMNS, "in the wallet"):
        table.add_column(column, justify="right")
    for one in report["parties"]:
        cells = [_show(one["moved"].get(reason, 0)) for reason in COLUMNS]
        name = one["name"] if one["is_honest"] else f"[red]{one['name']}[/]"
        table.add_row(name, *cells, _show(one["change"]))
    burned = (_show(report["burned_from"].get(reason, 0)) for reason in COLUMNS)
    table.add_row("burned", *burned, _show(report["burned"]))
    return table


def _show(wei: int) -> str:
    return f"{'+' if wei > 0 else ''}{show_wei(wei).split()[0]}" if wei else "0"


def describe_utilisation(utilisation: Mapping[str, Any]) -> list[str]:
    """Returns how much of their time solvers spent on training that counts."""
    solvers = (
        f"{name} {one['train_s']:.1f} of {one['seat_s']:.1f} s"
        for name, one in utilisation["solvers"].items()
    )
    about = f"{utilisation['all']:.1%}, training of merged claims by time in the seat"
    return [f"utilisation: {about} ({', '.join(solvers)})"]


def describe_gas(gas: Mapping[str, Any]) -> list[str]:
    """Returns what the rounds cost, and what the dispute did."""
    return [
        f"gas: {gas['per_solver_round']:,} for each of {gas['claims']} solver-rounds "
        f"({gas['of_rounds']:,} in Rounds, Votes, Settlement); disputes {gas['of_questions']:,}"
    ]
