"""What the commands that move tokens share: an account's chain, its money, and asking before something is
done."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from protocol.actions.runtime.rooms import RECORDS
from protocol.adapters.chain.game import GameChain, open_game_chain
from protocol.adapters.chain.game_deployment import read_game_deployment
from protocol.adapters.chain.refusals import format_tokens
from protocol.adapters.journal import FILE_NAME, Journal
from protocol.adapters.keys import AccountKey
from protocol.spec.errors import InvalidInput, TouchstoneError
from scripts.console import Console
from scripts.dues import send
from scripts.home import HomeConfig, read_config, unlock_key

Act = Callable[[GameChain], Awaitable[None]]


def run_with_chain(options: argparse.Namespace, act: Act) -> None:
    """Do something with the chain of the home in `options`, as its account."""
    config, key = read_config(options.home), unlock_key(options.home, options.password_file)
    asyncio.run(_act(config, key, act, is_alone=not is_node_running(options.home)))


async def _act(config: HomeConfig, key: AccountKey, act: Act, *, is_alone: bool) -> None:
    deployment = read_game_deployment(Path(config.deployment))
    async with open_game_chain(config.rpc_url, deployment, key, is_alone=is_alone) as chain:
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


async def require_tokens(chain: GameChain, account: str, amount_wei: int) -> None:
    """Raises InvalidInput where credit and wallet of an account do not hold so much."""
    credit_wei = await chain.purse.credit_of(account)
    wallet_wei = await chain.token.balance_of(account)
    if credit_wei + wallet_wei < amount_wei:
        raise InvalidInput(
            what="too few tokens",
            expected=f"at least {format_tokens(amount_wei)}",
            actual=f"{format_tokens(credit_wei)} of credit, {format_tokens(wallet_wei)} in {account}",
            remedy="Get tokens; on a test network `touchstone devnet --fund` and `init --devnet` give some.",
        )


async def deposit_missing(chain: GameChain, amount_wei: int) -> None:
    """Have so much credit: what is missing comes out of the wallet."""
    missing_wei = amount_wei - await chain.purse.credit_of(chain.address)
    if missing_wei > 0:
        await send(chain.token.approve(chain.purse.address, missing_wei))
        await send(chain.purse.deposit(missing_wei))


def require_agreement(console: Console, warnings: Sequence[str], question: str, is_agreed: bool) -> None:
    """Show the warnings; the operator has to agree. Raises InvalidInput where it does not."""
    for line in warnings:
        console.say(line)
    if not is_agreed and not console.confirm(question):
        raise InvalidInput(
            what="nothing was done",
            expected="your agreement",
            actual="none",
            remedy="Run it again and answer y, or pass --yes.",
        )


async def tell_wallet(chain: GameChain, console: Console) -> None:
    """Say what the account has in its wallet."""
    console.say(f"in the wallet now: {format_tokens(await chain.token.balance_of(chain.address))}")
