"""What `touchstone` shows and reads: lines with a time, tables, amounts, and a bar while long work runs."""

import asyncio
import time
from collections.abc import Sequence

import rich.console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.table import Table

from protocol.adapters.chain import Chain
from protocol.spec.economics import Requirement
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.params import TOKEN_WEI

PROGRESS_POLL_S = 1.0


class Console:
    """The operator's terminal."""

    def __init__(self, rich_console: rich.console.Console | None = None) -> None:
        self.rich = rich_console or rich.console.Console(highlight=False)

    def say(self, line: str) -> None:
        """One line, with the time of day."""
        self.rich.print(f"{time.strftime('%H:%M:%S')} {line}", markup=False)

    def confirm(self, question: str) -> bool:
        """Ask; no answer means no."""
        try:
            return Confirm.ask(question, default=False, console=self.rich)
        except EOFError:
            self.rich.print()
            return False


def parse_tokens(text: str) -> int:
    """`12.5` whole tokens in wei. Raises InvalidInput where it is not a positive decimal number of at most 18
    decimals."""
    whole, _, decimals = text.partition(".")
    is_number = (whole + decimals).isascii() and (whole + decimals).isdigit() and len(decimals) <= 18
    amount_wei = int(whole or 0) * TOKEN_WEI + int(decimals.ljust(18, "0")) if is_number else 0
    if amount_wei <= 0:
        raise InvalidInput(
            what="not an amount of tokens",
            expected="a positive number such as 1000 or 12.5",
            actual=repr(text),
            remedy="Give whole tokens, not wei.",
        )
    return amount_wei


def tell_requirements(requirements: Sequence[Requirement], console: Console) -> None:
    """A table: each amount, the least that it must be, and the inequality with the figures that fixed it."""
    table = Table("amount", "is", "at least", "because", "figures")
    for one in requirements:
        found, least = one.show(one.actual), one.show(one.least)
        table.add_row(
            one.name, found if one.holds else f"{found} (too low)", least, one.inequality, one.because
        )
    console.rich.print(table, markup=False)


async def show_progress(chain: Chain, task: bytes, console: Console) -> None:
    """A bar with round and block under the lines, for ever; on a terminal only."""
    if not console.rich.is_terminal:
        return
    terms = await chain.registry.terms_of(task)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.rich, transient=True) as progress:
        bar = progress.add_task("", total=terms.rounds)
        while True:
            try:
                text, done = await _describe_round(chain, task, terms.rounds)
                progress.update(bar, description=text, completed=done)
            except EnvironmentFault as fault:
                progress.update(bar, description=fault.what)
            await asyncio.sleep(PROGRESS_POLL_S)


async def _describe_round(chain: Chain, task: bytes, rounds: int) -> tuple[str, int]:
    index = await chain.registry.current_round(task)
    state = await chain.registry.round_of(task, index)
    head = await chain.head()
    return f"round {index + 1}/{rounds} {state.status.name.lower()}, block {head.number}", index
