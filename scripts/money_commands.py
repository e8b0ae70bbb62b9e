"""Subcommands that move tokens: `stake` brings them in; `unstake`, `withdraw`, `claim` and `task close` bring
them out.

What the contracts would refuse is asked of the chain first, and said in words instead of sent.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.actions.view import View
from protocol.adapters.chain import Chain, Receipt, open_chain, read_deployment
from protocol.adapters.chain.refusals import format_tokens
from protocol.adapters.journal import FILE_NAME, Journal
from protocol.adapters.keys import AccountKey
from protocol.adapters.records import RECORDS
from protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError
from protocol.spec.statuses import Role
from protocol.spec.task import TaskState
from scripts.console import Console, parse_tokens
from scripts.holdings import list_holdings, list_seats
from scripts.home import HomeConfig, read_config, unlock_key
from scripts.pace import Pace, read_pace
from scripts.tasks import Closing, pick_task, read_closing, read_view, show_round, show_task

ALL = "all"
SHOWN_HOLDINGS = 3
"""Named in an error; `touchstone status` has all of them."""

Act = Callable[[Chain], Awaitable[None]]


class Leaving(NamedTuple):
    """Stake that was announced to leave: wei, and the first block in which it can."""

    amount_wei: int
    ready_block: int


def run_stake(options: argparse.Namespace) -> None:
    """Approve and deposit."""
    amount_wei, console = parse_tokens(options.amount), Console()
    _run(options, lambda chain: stake(chain, amount_wei, console))


def run_unstake(options: argparse.Namespace) -> None:
    """Announce that stake leaves."""
    amount_wei = None if options.amount.lower() == ALL else parse_tokens(options.amount)
    console = Console()
    _run(options, lambda chain: unstake(chain, amount_wei, console, is_agreed=options.yes))


def run_withdraw(options: argparse.Namespace) -> None:
    """Take out announced stake whose time has come."""
    console = Console()
    _run(options, lambda chain: withdraw(chain, console, is_waiting=options.wait))


def run_claim(options: argparse.Namespace) -> None:
    """Take out credits."""
    console = Console()
    _run(options, lambda chain: claim(chain, console))


def run_close(options: argparse.Namespace) -> None:
    """Close a task, so that the rest of its escrow becomes a credit of its submitter."""
    console = Console()
    _run(options, lambda chain: close_task(chain, options.task, console, is_agreed=options.yes))


def _run(options: argparse.Namespace, act: Act) -> None:
    config, key = read_config(options.home), unlock_key(options.home, options.password_file)
    asyncio.run(_act(config, key, act, is_alone=not is_node_running(options.home)))


async def _act(config: HomeConfig, key: AccountKey, act: Act, *, is_alone: bool) -> None:
    deployment = read_deployment(Path(config.deployment))
    async with open_chain(config.rpc_url, deployment, key, is_alone=is_alone) as chain:
        await act(chain)


def is_node_running(home: Path) -> bool:
    """Whether a node of this home runs, or may: its journal cannot be opened."""
    path = home / FILE_NAME
    try:
        if path.exists():
            Journal(path, RECORDS).close()
    except TouchstoneError:
        return True
    return False


# --- In -----------------------------------------------------------------------------------------------------
async def stake(chain: Chain, amount_wei: int, console: Console) -> None:
    """Move tokens of the wallet into the vault as free stake."""
    balance_wei = await chain.token.balance_of(chain.address)
    if balance_wei < amount_wei:
        raise InvalidInput(
            what="too few tokens to stake",
            expected=format_tokens(amount_wei),
            actual=f"{format_tokens(balance_wei)} in {chain.address}",
            remedy="Get tokens, or stake less; on a test network `touchstone devnet --fund` gives some.",
        )
    await _send(chain.token.approve(chain.deployment.vault, amount_wei))
    await _send(chain.vault.deposit(amount_wei))
    free_wei = await chain.vault.free_of(chain.address)
    console.say(f"staked {format_tokens(amount_wei)}; free stake now {format_tokens(free_wei)}")
    await _tell_wallet(chain, console)


# --- Announce -----------------------------------------------------------------------------------------------
async def unstake(chain: Chain, amount_wei: int | None, console: Console, *, is_agreed: bool) -> None:
    """Announce that stake leaves; None: all that is not announced yet. is_agreed: do not ask, whatever it
    costs. Raises InvalidInput where there is not so much, or where the operator does not agree."""
    leaving = Leaving(*await chain.vault.unbonding_of(chain.address))
    most_wei = await chain.vault.stake_of(chain.address) - leaving.amount_wei
    wanted_wei = most_wei if amount_wei is None else amount_wei
    pace = await read_pace(chain)
    _refuse_too_much(chain, wanted_wei, most_wei, leaving, pace)
    warnings = await _list_warnings(chain, wanted_wei, leaving, pace)
    _require_agreement(console, warnings, "Announce it all the same?", is_agreed)
    receipt = await _send(chain.vault.request_unbond(wanted_wei))
    ready_block = receipt.find("UnbondingStarted").arguments["ready_block"]
    console.say(f"announced {format_tokens(wanted_wei)}")
    await _tell_announced(chain, console, pace.show_block(ready_block))


def _refuse_too_much(chain: Chain, wanted_wei: int, most_wei: int, leaving: Leaving, pace: Pace) -> None:
    if most_wei == 0 and leaving.amount_wei:
        raise InvalidInput(
            what="all stake is announced already",
            expected="stake that is not",
            actual=f"{format_tokens(leaving.amount_wei)} leaves from {pace.show_block(leaving.ready_block)}",
            remedy="Take it out with `touchstone withdraw --wait`.",
        )
    if most_wei == 0:
        raise InvalidInput(
            what="there is no stake to take out",
            expected="stake in the vault",
            actual=f"none of {chain.address}",
            remedy="What was earned is taken out with `touchstone claim`.",
        )
    if wanted_wei > most_wei:
        raise InvalidInput(
            what="there is not so much stake to take out",
            expected=f"at most {format_tokens(most_wei)}",
            actual=format_tokens(wanted_wei),
            remedy="Announce less, or `touchstone unstake all`.",
        )


async def _list_warnings(chain: Chain, wanted_wei: int, leaving: Leaving, pace: Pace) -> list[str]:
    """What an announcement spoils, a line each; nothing where it spoils nothing."""
    warnings = []
    if leaving.amount_wei:
        is_ready = pace.head_block >= leaving.ready_block
        when = "now" if is_ready else f"from {pace.show_block(leaving.ready_block)}"
        wait = pace.show_wait(await chain.vault.unbonding_blocks())
        warnings.append(
            f"WARNING: {format_tokens(leaving.amount_wei)} leaves already and can be withdrawn {when}. "
            f"Another announcement starts its time again: all of it then waits for {wait}."
        )
    free_wei = await chain.vault.free_of(chain.address)
    left_wei = max(0, free_wei - wanted_wei)
    if left_wei < free_wei:
        view = await read_view(chain)
        warnings += [
            f"WARNING: free stake falls from {format_tokens(free_wei)} to {format_tokens(left_wei)}. {need}"
            for need in _list_needs(view, chain.address)
        ]
    return warnings


def _list_needs(view: View, account: str) -> list[str]:
    """What the tasks in which `account` has a seat still need free stake for, a line for each."""
    newest = {(state.task, role): state for state, role in list_seats(view, account)}
    needs = []
    for (task, role), state in newest.items():
        amounts, uses = state.terms.amounts, []
        if len(view.tasks[task].rounds) < state.terms.rounds:
            seat_wei = amounts.solver_stake if role == Role.SOLVER else amounts.enrol_stake
            uses.append(f"a seat in the next round takes {format_tokens(seat_wei)}")
        if role != Role.SOLVER:
            uses.append(
                f"each audit takes {format_tokens(amounts.audit_stake)}, and without it you stay silent, "
                f"which burns {format_tokens(amounts.no_show_fee)}"
            )
        if uses:
            needs.append(f"You are {role.name.lower()} in {show_round(state)}: {'; '.join(uses)}.")
    return needs


async def _tell_announced(chain: Chain, console: Console, when: str) -> None:
    leaving = Leaving(*await chain.vault.unbonding_of(chain.address))
    locked_wei = await chain.vault.locked_of(chain.address)
    console.say(f"leaving now: {format_tokens(leaving.amount_wei)}, all of it from {when}")
    if locked_wei:
        console.say(
            f"{format_tokens(locked_wei)} of your stake is exposed: it can be slashed, and it stays until it "
            "is released (`touchstone status` says when)"
        )
    console.say(f"free stake now: {format_tokens(await chain.vault.free_of(chain.address))}")
    await _tell_wallet(chain, console)
    console.say("Next: touchstone withdraw --wait")


# --- Out ----------------------------------------------------------------------------------------------------
async def withdraw(chain: Chain, console: Console, *, is_waiting: bool) -> None:
    """Take out announced stake that nothing holds. is_waiting: wait for its block first. Raises InvalidInput
    where nothing leaves, where its block has not come, or where all of it is exposed."""
    leaving, pace = await _read_leaving(chain), await read_pace(chain)
    while is_waiting and pace.head_block < leaving.ready_block:
        console.say(f"waiting for {pace.show_block(leaving.ready_block)}")
        await chain.wait_for_block(leaving.ready_block)
        # Meanwhile more may have been announced, or all of it slashed.
        leaving, pace = await _read_leaving(chain), await read_pace(chain)
    _refuse_early(leaving, pace)
    await _refuse_exposed(chain, leaving, pace)
    receipt = await _send(chain.vault.withdraw())
    amount_wei = receipt.find("Withdrawn").arguments["amount_wei"]
    console.say(f"withdrawn: {format_tokens(amount_wei)}")
    left_wei = (await chain.vault.unbonding_of(chain.address)).amount_wei
    if left_wei:
        holders = await _name_holdings(chain, pace)
        console.say(f"{format_tokens(left_wei)} that leaves is exposed still: {holders}")
    await _tell_wallet(chain, console)


async def _read_leaving(chain: Chain) -> Leaving:
    leaving = Leaving(*await chain.vault.unbonding_of(chain.address))
    if leaving.amount_wei == 0:
        staked_wei = await chain.vault.stake_of(chain.address)
        raise InvalidInput(
            what="no stake is leaving",
            expected="stake that was announced",
            actual=f"none of {format_tokens(staked_wei)} that {chain.address} has staked",
            remedy="Announce it with `touchstone unstake AMOUNT` or `touchstone unstake all`."
            if staked_wei
            else "What was earned is taken out with `touchstone claim`.",
        )
    return leaving


def _refuse_early(leaving: Leaving, pace: Pace) -> None:
    if pace.head_block < leaving.ready_block:
        raise InvalidInput(
            what="announced stake still has to stay",
            expected=pace.show_block(leaving.ready_block),
            actual=f"block {pace.head_block}",
            remedy="Come back then, or let `touchstone withdraw --wait` wait for it.",
        )


async def _refuse_exposed(chain: Chain, leaving: Leaving, pace: Pace) -> None:
    locked_wei = await chain.vault.locked_of(chain.address)
    if await chain.vault.stake_of(chain.address) <= locked_wei:
        raise InvalidInput(
            what="all stake is exposed still",
            expected=f"some of the {format_tokens(leaving.amount_wei)} that leaves, held by nothing",
            actual=await _name_holdings(chain, pace),
            remedy="Come back when it is released; `touchstone status` shows all that holds it.",
        )


async def _name_holdings(chain: Chain, pace: Pace) -> str:
    """What holds stake of this account and until when; of many the first."""
    found = list_holdings(await read_view(chain), chain.address, pace)
    named = [f"{format_tokens(one.amount_wei)} by {one.what} ({one.until})" for one in found]
    more = [f"{len(named) - SHOWN_HOLDINGS} more"] if len(named) > SHOWN_HOLDINGS else []
    return "; ".join(named[:SHOWN_HOLDINGS] + more)


async def claim(chain: Chain, console: Console) -> None:
    """Take out credits. Raises InvalidInput where there are none."""
    if await chain.vault.credit_of(chain.address) == 0:
        raise InvalidInput(
            what="there is nothing to claim",
            expected="credits in the vault",
            actual=f"none of {chain.address}",
            remedy="Pay becomes a credit when a round is settled, the rest of an escrow when its task is "
            "closed: see `touchstone status`.",
        )
    receipt = await _send(chain.vault.claim())
    console.say(f"claimed: {format_tokens(receipt.find('Claimed').arguments['amount_wei'])}")
    await _tell_wallet(chain, console)


# --- Close --------------------------------------------------------------------------------------------------
async def close_task(chain: Chain, name: str, console: Console, *, is_agreed: bool) -> None:
    """Close a task; anybody may. is_agreed: do not ask, whoever stays unpaid. Raises InvalidInput where no
    task or more than one is called so, where it is closed or cannot be yet, or where the operator does not
    agree."""
    view, pace = await read_view(chain), await read_pace(chain)
    state = view.tasks[pick_task(list(view.tasks), name)]
    _refuse_closed(state)
    closing = await read_closing(chain, state)
    _refuse_unready(closing, pace)
    _require_agreement(console, _list_unpaid(closing), "Close it all the same?", is_agreed)
    receipt = await _send(chain.registry.close_task(state.task))
    refund_wei, submitter = receipt.find("TaskClosed").arguments["refund_wei"], state.terms.submitter.lower()
    console.say(f"closed {show_task(state.task)}: {format_tokens(refund_wei)} is now a credit of {submitter}")
    if refund_wei and submitter == chain.address:
        console.say("Next: touchstone claim")
    await _tell_wallet(chain, console)


def _refuse_closed(state: TaskState) -> None:
    if state.is_closed:
        raise InvalidInput(
            what="the task is closed already",
            expected="an open task",
            actual=f"{show_task(state.task)}, whose escrow went back to {state.terms.submitter}",
            remedy="That account takes it out with `touchstone claim`.",
        )


def _refuse_unready(closing: Closing, pace: Pace) -> None:
    if not closing.is_ready:
        raise InvalidInput(
            what="the task cannot be closed yet",
            expected=f"all of it settled, or {pace.show_block(closing.ready_block)}",
            actual=f"block {pace.head_block}; {'; '.join(closing.open)}",
            remedy="Let nodes of the task run (`touchstone solve`, `verify`, `watch`): they play its rounds "
            "and settle them. Then close it.",
        )


def _list_unpaid(closing: Closing) -> list[str]:
    """What whoever waits for pay would lose."""
    if closing.is_all_paid:
        return []
    return [
        f"WARNING: {'; '.join(closing.open)}. A closed task pays nobody: who waits for pay gets the stake "
        "back and no pay. A node of the task that you start now settles with them first."
    ]


# --- All alike ----------------------------------------------------------------------------------------------
def _require_agreement(console: Console, warnings: Sequence[str], question: str, is_agreed: bool) -> None:
    """Show the warnings; where there are any, the operator has to agree."""
    for line in warnings:
        console.say(line)
    if warnings and not is_agreed and not console.confirm(question):
        raise InvalidInput(
            what="nothing was done",
            expected="your agreement to the warnings above",
            actual="none",
            remedy="Run it again and answer y, or pass --yes.",
        )


async def _send(sending: Awaitable[Receipt]) -> Receipt:
    """What sending returns. Raises EnvironmentFault that tells to look before anything is repeated: a chain
    that does not answer may have taken the transaction."""
    try:
        return await sending
    except EnvironmentFault as fault:
        if not fault.retryable:
            # The chain has answered, so nothing was sent: there is no coin for gas, for instance.
            raise
        raise EnvironmentFault(
            what=fault.what,
            expected=fault.expected,
            actual=fault.actual,
            where=fault.where,
            remedy=f"{fault.remedy} It may have been sent all the same: look at `touchstone status` first.",
            retryable=fault.retryable,
        ) from fault


async def _tell_wallet(chain: Chain, console: Console) -> None:
    console.say(f"in the wallet now: {format_tokens(await chain.token.balance_of(chain.address))}")
