"""What a person sees of the demo: bars and a line per event while it runs, then the curve, the money and the
verdict. Plain lines where there is no terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from protocol.actions.narrate import narrate, tell_tokens
from protocol.spec.events import Event
from protocol.spec.round import RoundState
from protocol.spec.task import TaskState
from tests.e2e.verdict import Finding

ADDRESS_DIGITS = 8
"""How `narrate` shortens an account."""
CURVE_ROWS = 10
CURVE_COLUMNS = 9
WIDTH = 110

PHASES = {
    "enrol_end": "enrol", "beacon_end": "deal", "train_end": "train", "draw_end": "draw",
    "start_end": "start", "replay_end": "replay", "show_end": "show", "leaves_end": "draw leaves",
    "open_end": "open", "compare_end": "compare", "reserve_replay_end": "reserves replay",
    "reserve_show_end": "reserves show", "reserve_leaves_end": "reserves draw leaves",
    "reserve_open_end": "reserves open", "reserve_compare_end": "reserves compare",
}  # fmt: skip
"""The deadline that ends a phase, and what people call the phase."""


class Screen:
    """Shows a run. Use as a context manager; `names`: name by account."""

    def __init__(self, names: Mapping[str, str], rounds: int) -> None:
        self.console = Console(highlight=False, width=None if Console().is_terminal else WIDTH)
        self._names = {account[:ADDRESS_DIGITS]: name for account, name in names.items()}
        columns = (
            TextColumn("{task.description:<34}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self._rounds = self._bars.add_task("rounds merged", total=rounds)
        self._phase = self._bars.add_task("waiting for the task", total=None)

    def __enter__(self) -> "Screen":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def say(self, line: str) -> None:
        """One line."""
        self.console.print(line, markup=False, soft_wrap=True)

    def tell(self, events: Iterable[Event]) -> None:
        """A line for each event that matters, with the parties' names."""
        for event in events:
            line = narrate(event)
            if line:
                self.say(f"{event.block_number:>7}  {self.rename(line)}")

    def rename(self, text: str) -> str:
        """The text with names for shortened accounts."""
        for short, name in self._names.items():
            text = text.replace(short, name)
        return text

    def move(self, task: TaskState, head_block: int) -> None:
        """Let the bars show how far the task is at this block."""
        merged = sum(state.posted_block is not None for state in task.rounds)
        self._bars.update(self._rounds, completed=merged)
        if task.current is not None:
            name, opens, closes = find_phase(task.current, head_block)
            description = f"round {task.current.index}, {name}, block {head_block}"
            self._bars.update(
                self._phase, description=description, total=closes - opens, completed=head_block - opens
            )

    # --- After the run --------------------------------------------------------------------------------------
    def show_result(self, report: Mapping[str, Any], findings: Sequence[Finding]) -> None:
        """Curve, sample, money, windows and verdict."""
        self.say(
            "\nHeld-out loss of the global model (nats per byte)\n" + draw_curve(report["loss_per_round"])
        )
        self.say("\nText that the model writes after " + repr(report["sample"][:4]) + "\n" + report["sample"])
        self.console.print(make_money_table(report["parties"]))
        self.console.print(make_phase_table(report["phases"]))
        self.say(
            f"whole run: {report['wall_s']:.0f} s; report: {report['path']}; model: {report['model_dir']}\n"
        )
        for finding in findings:
            self.console.print(
                f"  {'[green]ok  [/]' if finding.holds else '[bold red]FAIL[/]'}  {finding.sentence}"
            )
        is_good = all(finding.holds for finding in findings)
        verdict = "[bold green]All of it holds.[/]" if is_good else "[bold red]Not all of it holds.[/]"
        self.console.print(f"\n{verdict}")


def find_phase(state: RoundState, block: int) -> tuple[str, int, int]:
    """Name, first block and end of the phase that a round is in."""
    opens = state.start_block
    if state.posted_block is not None:
        return "merged", state.posted_block, max(state.posted_block + state.terms.windows.merge, block)
    for field, name in PHASES.items():
        closes = getattr(state.deadlines, field)
        if block < closes:
            return name, opens, closes
        opens = closes
    return "merge", opens, max(opens + state.terms.windows.merge, block)


def draw_curve(losses: Sequence[float], rows: int = CURVE_ROWS) -> str:
    """The losses as a curve of characters: before round 1 at the left, one column of points a round."""
    most, least = max(losses), min(losses)
    span = most - least or 1.0
    heights = [round((loss - least) / span * (rows - 1)) for loss in losses]
    lines = []
    for row in reversed(range(rows)):
        label = f"{least + span * row / (rows - 1):>7.3f} |"
        lines.append(
            label + "".join(("o" if height == row else " ").rjust(CURVE_COLUMNS) for height in heights)
        )
    lines.append(" " * 8 + "+" + "-" * (CURVE_COLUMNS * len(losses)))
    marks = ["start", *(f"round {index}" for index in range(len(losses) - 1))]
    lines.append(" " * 9 + "".join(mark.rjust(CURVE_COLUMNS) for mark in marks))
    lines.append(" " * 9 + "".join(f"{loss:.3f}".rjust(CURVE_COLUMNS) for loss in losses))
    return "\n".join(lines)


def make_money_table(parties: Sequence[Mapping[str, Any]]) -> Table:
    """Who earned and lost what, and why."""
    table = Table(title="Who earned and lost what, and why (tokens)", title_justify="left")
    for column in ("party", "role", "stake before", "stake after", "earned", "lost"):
        table.add_column(column, overflow="fold")
    for party in parties:
        name = party["name"] if party["honest"] else f"[red]{party['name']} (cheat)[/]"
        stakes = [tell_tokens(party[key]).split()[0] for key in ("stake_before", "stake_after")]
        reasons = [_list_reasons(party[key]) for key in ("earned_for", "lost_for")]
        table.add_row(name, party["role"], *stakes, *reasons)
    return table


def _list_reasons(amounts: Mapping[str, int]) -> str:
    return "\n".join(f"{tell_tokens(wei).split()[0]} {reason}" for reason, wei in amounts.items())


def make_phase_table(phases: Mapping[str, Mapping[str, float]]) -> Table:
    """The most used of each window."""
    table = Table(title="Windows (blocks of at most half a second)", title_justify="left")
    for column in ("phase", "most used", "window", "times"):
        table.add_column(column, justify="right")
    for name, use in phases.items():
        table.add_row(name, *(f"{use[key]:g}" for key in ("measured_s", "window_s", "ratio")))
    return table
