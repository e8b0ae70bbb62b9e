"""What `touchstone` shows and reads: lines with a time, tables, amounts, and a bar while long work runs."""

import asyncio
import time
from collections.abc import Sequence

import rich.console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.table import Table

from protocol.adapters.chain.chain_client import GameChain
from protocol.adapters.chain.refusal_words import format_tokens
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.game.money import MoneyRule
from protocol.spec.params import TOKEN_WEI
from scripts.log_lines import show_time, tell

PROGRESS_POLL_S = 1.0
SHOWN_WEI = TOKEN_WEI // 10**6
"""Leasts are shown rounded up to this."""
MAX_WHOLE_DIGITS = 59
"""Of whole tokens: their wei fit into 256 bits."""
MAX_SHOWN_CHARACTERS = 80
"""Of what was typed, in an error."""


class Console:
    """The operator's terminal."""

    def __init__(self, rich_console: rich.console.Console | None = None) -> None:
        self.rich = rich_console or rich.console.Console(highlight=False)

    def say(self, line: str) -> None:
        """One line, with the time of day on a terminal and else with date and zone too; logged as well. It is
        broken on a terminal only: a file keeps a path or an id whole."""
        if tell(line):
            stamp = time.strftime("%H:%M:%S") if self.rich.is_terminal else show_time(time.time())
            self.rich.print(f"{stamp} {line}", markup=False, soft_wrap=not self.rich.is_terminal)

    def confirm(self, question: str) -> bool:
        """Ask; no answer means no."""
        try:
            return Confirm.ask(question, default=False, console=self.rich)
        except EOFError:
            self.rich.print()
            return False


def parse_tokens(text: str) -> int:
    """`12.5` whole tokens in wei. Raises InvalidInput where it is not a positive decimal number of at most 18
    decimals, or longer than any amount."""
    whole, _, decimals = text.partition(".")
    is_short = len(whole) <= MAX_WHOLE_DIGITS and len(decimals) <= 18
    is_number = is_short and (whole + decimals).isascii() and (whole + decimals).isdigit()
    amount_wei = int(whole or 0) * TOKEN_WEI + int(decimals.ljust(18, "0")) if is_number else 0
    if amount_wei <= 0:
        raise InvalidInput(
            what="not an amount of tokens",
            expected="a positive number such as 1000 or 12.5",
            actual=repr(text) if len(text) <= MAX_SHOWN_CHARACTERS else f"{len(text)} characters",
            remedy="Give whole tokens, not wei.",
        )
    return amount_wei


def show_money(rules: Sequence[MoneyRule], console: Console) -> None:
    """A table: each amount, the least that it must be (and the most), and the inequality that fixed it."""
    table = Table("amount", "is", "at least", "because")
    for rule in rules:
        found = format_tokens(rule.amount) + ("" if rule.holds else " (wrong)")
        most = "" if rule.greatest is None else f", at most {format_tokens(rule.greatest)}"
        least = -(-rule.least // SHOWN_WEI) * SHOWN_WEI
        table.add_row(rule.name, found, format_tokens(least) + most, rule.inequality)
    console.rich.print(table, markup=False)


async def show_progress(chain: GameChain, task: bytes, console: Console) -> None:
    """A bar with round and block under the lines, for ever; on a terminal only."""
    if not console.rich.is_terminal:
        return
    rounds = (await chain.tasks.terms_of(task)).rounds
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.rich, transient=True) as progress:
        bar = progress.add_task("", total=rounds)
        while True:
            try:
                opened = await chain.rounds.next_round(task)
                text = f"rounds opened: {opened}/{rounds}, block {(await chain.head()).number}"
                progress.update(bar, description=text, completed=opened)
            except EnvironmentFault as fault:
                progress.update(bar, description=fault.what)
            await asyncio.sleep(PROGRESS_POLL_S)
