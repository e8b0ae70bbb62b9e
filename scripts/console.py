"""What `touchstone` shows and reads: lines with a time, tables, amounts, and a bar while long work runs."""

import asyncio
import time
from collections.abc import Sequence

import rich.console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.table import Table

from protocol.adapters.chain import Chain
from protocol.adapters.chain.refusals import format_tokens
from protocol.spec.economics import Requirement
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.params import TOKEN_WEI

PROGRESS_POLL_S = 1.0
DIGITS = 12
"""Hexadecimal digits of a task's id that are shown: enough to tell tasks apart."""


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


async def tell_status(chain: Chain, account: str, console: Console) -> None:
    """Tables of the deployment's tasks and of the money of `account`."""
    console.rich.print(await _make_task_table(chain))
    console.rich.print(await _make_money_table(chain, account))


async def _make_task_table(chain: Chain) -> Table:
    head = await chain.head()
    table = Table(title=f"Tasks at block {head.number}", title_justify="left")
    # An id that is cut short names nothing.
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("round", "status", "solve", "verify", "watch", "escrow left"):
        table.add_column(name)
    for event in await chain.read_events(chain.deployment.deploy_block, head.number):
        if event.name == "TaskCreated":
            table.add_row(
                *await _describe_task(chain, event.arguments["task"], event.arguments["terms"].rounds)
            )
    return table


async def _describe_task(chain: Chain, task: bytes, rounds: int) -> list[str]:
    index = await chain.registry.current_round(task)
    state = await chain.registry.round_of(task, index)
    counts = [str(count) for count in (state.solvers, state.verifiers, state.whistleblowers)]
    escrow = format_tokens(await chain.vault.escrow_of(task))
    return [f"0x{task.hex()[:DIGITS]}", f"{index + 1}/{rounds}", state.status.name, *counts, escrow]


async def _make_money_table(chain: Chain, account: str) -> Table:
    vault = chain.vault
    table = Table(title=f"Account {account}", title_justify="left", show_header=False)
    coin_wei = await chain.connection.balance_of(account)
    leaving = await vault.unbonding_of(account)
    table.add_row("coin for gas", f"{coin_wei / 1e18:.4f}")
    table.add_row("tokens", format_tokens(await chain.token.balance_of(account)))
    table.add_row("stake", format_tokens(await vault.stake_of(account)))
    table.add_row("of it exposed", format_tokens(await vault.locked_of(account)))
    table.add_row("of it leaving", f"{format_tokens(leaving.amount_wei)}, from block {leaving.ready_block}")
    table.add_row("of it free", format_tokens(await vault.free_of(account)))
    table.add_row("credits to claim", format_tokens(await vault.credit_of(account)))
    return table
