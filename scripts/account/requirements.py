"""Checks what an account needs before a command sends: coin, tokens, the operator's agreement."""

import time
from collections.abc import Sequence

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain, is_old
from touchstone.protocol.adapters.chain.transactions import COIN_REMEDY, NO_COIN
from touchstone.protocol.spec.errors import Declined, EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account.task_names import OTHER_TASK, read_state, show_task
from touchstone.scripts.command_line.command_errors import NotNeeded
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.network.devnet import CHAIN_ID


async def require_coin(chain: GameChain, account: str) -> None:
    """Raises InvalidInput if an account has no coin to pay gas with."""
    if await chain.connection.balance_of(account) == 0:
        raise InvalidInput(
            what=NO_COIN,
            expected=f"coin of the chain in {account}",
            actual="none",
            remedy=COIN_REMEDY,
        )


def refuse_unasked(task: bytes, *, has_left: bool, is_convicted: bool) -> None:
    """Raises NotNeeded if a service, which asks nobody, would lock a stake again that its operator has taken
    out, or after a conviction, because what went wrong may go wrong again."""
    if not has_left and not is_convicted:
        return
    raise NotNeeded(
        what="this node has left the task for good" if has_left else "this account was convicted in the task",
        expected="an operator who says whether to stake again",
        actual="--yes",
        where=show_task(task),
        remedy=f"To join again, type the command once without --yes. {OTHER_TASK}",
    )


async def require_no_seat(chain: GameChain, task: bytes, state: ChainState) -> None:
    """Raises EnvironmentFault if an account that seems to have no seat and no bond may still have one. A
    service that hears NotNeeded does not start again, and silence costs money. `state` is what was read, as
    the account sees it."""
    connection, head, account = chain.connection, await chain.head(), state.account
    credit_wei: int = await chain.vault.credit_of(account)
    mined, sent = [await connection.transaction_count(account, at) for at in ("latest", "pending")]
    if is_old(head, chain.bounds.name):
        actual = f"its newest block is {head.number}, {time.time() - head.timestamp_s:.0f} s old"
    elif sent > mined:
        actual = f"transactions of {account} that wait for their block: {sent - mined}"
    elif await chain.game.seat_of(task, account):
        actual = "the contract has a seat of this account, but no event shows it"
    elif credit_wei != state.credits[account]:
        # A bond is taken out of the credit.
        told = f"{format_tokens(state.credits[account])} by the events that were read"
        actual = f"a credit of {format_tokens(credit_wei)}, and {told}"
    elif await _had_duties(chain, task, account):
        actual = f"it had a seat or a bond {REORG_BLOCKS} blocks ago, and a reorg may undo how that ended"
    else:
        return
    raise _untold_seat(actual, task, account)


def _untold_seat(actual: str, task: bytes, account: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the chain's node cannot tell yet whether this account has a seat",
        expected=f"the newest block, with all that {account} has sent",
        actual=actual,
        where=show_task(task),
        remedy="Start the command again in a minute. If that fails, check the chain's node and the clock.",
    )


async def _had_duties(chain: GameChain, task: bytes, account: str) -> bool:
    """Returns whether an account had a seat or a bond as many blocks ago as a reorg may undo. A local test
    network has no reorgs."""
    if chain.bounds.name == BOUNDS_LOCAL.name:
        return False
    game = (await read_state(chain, account, REORG_BLOCKS)).games.get(task)
    return game is not None and has_duties(game, account)


async def require_tokens(chain: GameChain, account: str, amount_wei: int) -> None:
    """Raises InvalidInput if the credit and the wallet of an account together hold less than `amount_wei`."""
    credit_wei = await chain.vault.credit_of(account)
    wallet_wei = await chain.token.balance_of(account)
    if credit_wei + wallet_wei < amount_wei:
        raise InvalidInput(
            what="too few tokens",
            expected=f"at least {format_tokens(amount_wei)}",
            actual=f"{format_tokens(credit_wei)} of credit, {format_tokens(wallet_wei)} in {account}",
            remedy=(
                "Get tokens: `touchstone devnet --fund` and `init --devnet` give some."
                if chain.deployment.chain_id == CHAIN_ID
                else "Send it tokens of the deployment from your own wallet."
            ),
        )


def require_agreement(console: Console, warnings: Sequence[str], question: str, is_agreed: bool) -> None:
    """Shows the warnings and asks the operator. Raises Declined if the operator does not agree."""
    for line in warnings:
        console.notify(line)
    if not is_agreed and not console.confirm(question):
        raise Declined(
            what="nothing was done",
            expected="your agreement",
            actual="none",
            remedy="Run it again and answer y, or pass --yes.",
        )


async def notify_wallet(chain: GameChain, console: Console) -> int:
    """Tells the operator what the account has in its wallet; returns it in wei."""
    wallet_wei = int(await chain.token.balance_of(chain.address))
    console.notify(f"in the wallet now: {format_tokens(wallet_wei)}")
    return wallet_wei
