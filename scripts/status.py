"""`touchstone status`: the tasks of the chain, and what an account has, can take out, and when."""

from collections.abc import Sequence

from rich.table import Table

from protocol.actions.view import View
from protocol.adapters.chain import Chain
from protocol.adapters.chain.refusals import format_tokens
from protocol.spec.task import TaskState
from scripts.console import Console
from scripts.holdings import Holding, list_holdings
from scripts.pace import Pace, read_pace
from scripts.tasks import DIGITS, Closing, read_closing, read_view, show_task


async def tell_status(chain: Chain, account: str, console: Console) -> None:
    """Tables of the deployment's tasks and of the money of `account`."""
    view, pace, account = await read_view(chain), await read_pace(chain), account.lower()
    console.rich.print(await _make_task_table(chain, view))
    console.rich.print(await _make_money_table(chain, account, pace))
    holdings = list_holdings(view, account, pace)
    if holdings:
        console.rich.print(make_holding_table(holdings))
    own = [state for state in view.tasks.values() if state.terms.submitter.lower() == account]
    if any(not state.is_closed for state in own):
        console.rich.print(await _make_escrow_table(chain, own, pace))


async def _make_task_table(chain: Chain, view: View) -> Table:
    table = Table(title=f"Tasks at block {view.head_block}", title_justify="left")
    # An id that is cut short names nothing.
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("round", "status", "solve", "verify", "watch", "escrow left"):
        table.add_column(name)
    for state in view.tasks.values():
        table.add_row(*await _describe_task(chain, state))
    return table


async def _describe_task(chain: Chain, task: TaskState) -> list[str]:
    index = await chain.registry.current_round(task.task)
    state = await chain.registry.round_of(task.task, index)
    status = "CLOSED" if task.is_closed else state.status.name
    counts = [str(count) for count in (state.solvers, state.verifiers, state.whistleblowers)]
    escrow = format_tokens(await chain.vault.escrow_of(task.task))
    return [show_task(task.task), f"{index + 1}/{task.terms.rounds}", status, *counts, escrow]


async def _make_money_table(chain: Chain, account: str, pace: Pace) -> Table:
    coin_wei, credit_wei = await chain.connection.balance_of(account), await chain.vault.credit_of(account)
    table = Table("", "amount", "can be taken out", title=f"Account {account}", title_justify="left")
    table.add_row("coin for gas", f"{coin_wei / 1e18:.4f}")
    table.add_row("tokens in the wallet", format_tokens(await chain.token.balance_of(account)))
    table.add_row("credits", format_tokens(credit_wei), "now: touchstone claim" if credit_wei else "")
    await _add_stake(table, chain, account, pace)
    return table


async def _add_stake(table: Table, chain: Chain, account: str, pace: Pace) -> None:
    """All stake, and the parts of it: exposed stake may be leaving as well."""
    vault = chain.vault
    staked_wei, locked_wei = await vault.stake_of(account), await vault.locked_of(account)
    free_wei, wait = await vault.free_of(account), pace.show_wait(await vault.unbonding_blocks())
    table.add_row("stake", format_tokens(staked_wei))
    if staked_wei:
        when = f"{wait} after touchstone unstake" if free_wei else ""
        table.add_row("of it free", format_tokens(free_wei), when)
        leaving = await _describe_leaving(chain, account, staked_wei - locked_wei, pace)
        table.add_row("of it leaving", *leaving)
        when = "when it is released, see below" if locked_wei else ""
        table.add_row("of it exposed", format_tokens(locked_wei), when)


async def _describe_leaving(chain: Chain, account: str, unlocked_wei: int, pace: Pace) -> tuple[str, str]:
    """How much stake is leaving, and when how much of it can."""
    leaving = await chain.vault.unbonding_of(account)
    if not leaving.amount_wei:
        return format_tokens(0), ""
    is_ready = pace.head_block >= leaving.ready_block
    when = "now" if is_ready else f"from {pace.show_block(leaving.ready_block)}"
    text = f"{when}: touchstone withdraw"
    if unlocked_wei < leaving.amount_wei:
        text += f" ({format_tokens(unlocked_wei)} of it; the rest is exposed)"
    return format_tokens(leaving.amount_wei), text


def make_holding_table(holdings: Sequence[Holding]) -> Table:
    """What holds exposed stake, and until when."""
    table = Table("exposed stake", "held by", title="What holds your stake", title_justify="left")
    # The names of calls are longer than a narrow column.
    table.add_column("released", overflow="fold")
    for one in holdings:
        table.add_row(format_tokens(one.amount_wei), one.what, one.until)
    return table


async def _make_escrow_table(chain: Chain, own: Sequence[TaskState], pace: Pace) -> Table:
    table = Table(title="Escrow of your tasks", title_justify="left")
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("left", "comes back as a credit", "still open"):
        table.add_column(name)
    for state in own:
        if not state.is_closed:
            closing, left_wei = await read_closing(chain, state), await chain.vault.escrow_of(state.task)
            row = (_tell_return(closing, pace), "; ".join(closing.open) or "nothing")
            table.add_row(show_task(state.task), format_tokens(left_wei), *row)
    return table


def _tell_return(closing: Closing, pace: Pace) -> str:
    if closing.is_ready:
        return "now: touchstone task close"
    return f"when all is settled, or from {pace.show_block(closing.ready_block)}: touchstone task close"
