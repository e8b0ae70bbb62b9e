"""Sends calls of the home's account.

Settling seats, paying out stakes and closing a task pay money out, and any account may send these calls.
Running nodes send them too; a command sends those that no node has sent.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from touchstone.protocol.adapters.chain.chain_client import GameChain, Sending, open_game_chain
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.transaction_queue import QUEUE_FILE
from touchstone.protocol.adapters.journal import FILE_NAME, require_free
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import EnvironmentFault, TouchstoneError
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.upkeep import SETTLE_SEATS, list_upkeep
from touchstone.scripts.account.requirements import require_coin
from touchstone.scripts.account.task_names import read_state
from touchstone.scripts.command_line.command_errors import advise
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.document_fields import Document
from touchstone.scripts.home.home_config import HomeConfig, read_config
from touchstone.scripts.home.home_folder import unlock_key

Answer = TypeVar("Answer")
Due = calls.SettleSeat | calls.PayOut | calls.FreeEpoch
STEPS_MAX = 64
"""The most looks at the chain. At each one, all due calls are sent, which makes more due."""


async def send_dues(chain: GameChain, task: bytes, account: str = "") -> None:
    """Settles and pays out the seats of `account` in a task, or of all accounts if `account` is empty."""
    for _ in range(STEPS_MAX):
        found = await _list_dues(chain, task, account)
        if not found:
            return
        for call in found:
            await _send_due(chain, task, call)


async def _list_dues(chain: GameChain, task: bytes, account: str) -> list[Due]:
    """Returns the due calls: settlements first, because they make payouts due."""
    state = await read_state(chain, account)
    game, block = state.games[task], state.head_block + 1
    due = list_upkeep(game, block)
    own = {number for number, seat in game.seats.items() if account in ("", seat.account)}
    settled: list[Due] = [one for one in due if isinstance(one, calls.SettleSeat) and one.seat in own]
    paid: list[Due] = [one for one in due if isinstance(one, calls.PayOut) and one.seat in own]
    freed: list[Due] = [one for one in due if isinstance(one, calls.FreeEpoch) and not account]
    return [*settled, *([] if settled else [*paid, *freed])][:SETTLE_SEATS]


async def _send_due(chain: GameChain, task: bytes, call: Due) -> None:
    """Sends one due call. If a running node was faster, the next look finds nothing to do."""
    try:
        match call:
            case calls.SettleSeat():
                await send(chain.game.settle(task, [call.seat], call.until_round))
            case calls.PayOut():
                await send(chain.game.pay_out(task, call.seat))
            case calls.FreeEpoch():
                await send(chain.game.free_epoch(task))
    except ContractRefused:
        return


async def send(sending: Awaitable[Answer]) -> Answer:
    """Awaits a sending, and returns its result. Raises EnvironmentFault that says to look before repeating,
    because a chain that does not answer may have the transaction."""
    try:
        return await sending
    except EnvironmentFault as fault:
        if not fault.retryable:
            # The chain has answered, so nothing was sent. For instance, there is no coin for gas.
            raise
        remedy = f"{fault.remedy} It may have been sent all the same: look at `touchstone status` first."
        raise advise(fault, remedy) from fault


Found = TypeVar("Found", bound=Document)
Act: TypeAlias = Callable[[GameChain, Console], Awaitable[Found]]


def run_with_chain(home: Path, password_file: Path | None, act: Act[Found]) -> Found:
    """Runs work with the chain of a home, as its account, at a console; returns the result."""
    config, key = read_config(home), unlock_key(home, password_file)
    return asyncio.run(_act(home, config, key, act, is_alone=not is_node_running(home)))


async def _act(home: Path, config: HomeConfig, key: AccountKey, act: Act[Found], *, is_alone: bool) -> Found:
    deployment = config.read_deployment()
    poll_s = config.poll_seconds or None
    sending = Sending(queue_path=home / QUEUE_FILE, cap_wei=config.max_fee_wei)
    opening = open_game_chain(
        config.endpoints, deployment, key, poll_s=poll_s, sending=sending, is_alone=is_alone
    )
    async with opening as chain:
        await require_coin(chain, chain.address)
        return await act(chain, Console())


def is_node_running(home: Path) -> bool:
    """Returns whether a node of this home runs, or may run, because its journal cannot be opened."""
    try:
        require_free(home / FILE_NAME)
    except TouchstoneError:
        return True
    return False
