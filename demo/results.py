"""Shows what a run came to: the curve, tables, and whether anything is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from touchstone.demo.report import COLUMNS
from touchstone.demo.screen import Screen
from touchstone.demo.verdict import Finding
from touchstone.explorer.names import show_wei

BAR = 44


def show_result(screen: Screen, report: Mapping[str, Any], findings: Sequence[Finding]) -> None:
    """Shows the verdict; of a verbose run also curve, money, utilisation and gas."""
    if screen.is_verbose:
        screen.show("\nHeld-out loss of the global model, nats per byte")
        screen.show(draw_curve([one["loss"] for one in report["loss"]]) + "\n")
        screen.console.print(make_money_table(report))
        for line in (*describe_utilisation(report["utilisation"]), *describe_gas(report["gas"])):
            screen.show(line)
    where = f"page: {report['page']}; figures: {report['path']}; every line: {report['log']}"
    screen.show(f"whole run: {report['wall_s']:.0f} s; {where}")
    for finding in findings:
        style = "green" if finding.holds else "bold red"
        screen.show(f"  {'ok   ' if finding.holds else 'WRONG'}  {finding.statement_key}", style)
    is_good = all(finding.holds for finding in findings)
    screen.show("All of it holds." if is_good else "Something is wrong.")


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
