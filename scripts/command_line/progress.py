"""Shows the progress of a task while a command works."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.command_line.console import Console

if TYPE_CHECKING:  # Import late, so that `--help` need not wait for the chain's libraries.
    from touchstone.protocol.adapters.chain.chain_client import GameChain


Result = TypeVar("Result")
PROGRESS_POLL_S = 1.0


async def show_progress(chain: "GameChain", task: bytes, console: Console) -> None:
    """Shows a bar with round and block under the lines, without end; on a terminal only."""
    if not console.rich.is_terminal:
        return
    rounds = (await chain.game.terms_of(task)).rounds
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.rich, transient=True) as progress:
        bar = progress.add_task("", total=rounds)
        while True:
            try:
                opened = await chain.game.next_round(task)
                text = f"rounds opened: {opened}/{rounds}, block {(await chain.head()).number}"
                progress.update(bar, description=text, completed=opened)
            except EnvironmentFault as fault:
                progress.update(bar, description=fault.what)
            await asyncio.sleep(PROGRESS_POLL_S)


async def with_company(work: Coroutine[Any, Any, Result], company: Coroutine[Any, Any, None]) -> Result:
    """Runs `work` and returns its result, with `company` beside it. `company` ends with `work`, and its
    failure is ignored."""
    beside = asyncio.create_task(company)
    try:
        return await work
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
