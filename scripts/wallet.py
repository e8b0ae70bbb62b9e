"""What commands that move money share, and how they name tasks, seats and what a task waits for.

Settling seats, paying stakes out and closing a task bring money out, and any account may send these calls.
Running nodes send them too; a command sends what no node has sent. Of the tasks of a chain it is said here
which one a name means, what is open, and whether it can be closed.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from touchstone.explorer.task_documents import count_sitting, tell_phase
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain, Sending, is_old, open_game_chain
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.pace import Pace, show_duration
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.transaction_queue import QUEUE_FILE
from touchstone.protocol.adapters.chain.transactions import COIN_REMEDY, NO_COIN
from touchstone.protocol.adapters.journal import FILE_NAME, require_free
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import Declined, EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_duties
from touchstone.protocol.spec.game.presets import LIMITS_LOCAL
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.task_closing import is_closable
from touchstone.protocol.spec.game.terms import GameTerms, compute_release_blocks
from touchstone.protocol.spec.game.timing import REORG_BLOCKS, find_first_round, get_live_round, is_over
from touchstone.protocol.spec.game.upkeep import SETTLE_SEATS, list_upkeep
from touchstone.protocol.spec.params import LATE_RATE_ONE
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.console import Console, Document, NotNeeded
from touchstone.scripts.devnet import CHAIN_ID
from touchstone.scripts.home import HomeConfig, read_config, unlock_key

Answer = TypeVar("Answer")
OTHER_TASK = "Choose another task: `touchstone status` lists them."
DIGITS = 12
"""Hexadecimal digits of a task's id that are shown: enough to tell tasks apart."""
NUMBER_BITS = 16
"""of a seat's id: its number among the seats of its role."""


def show_task(task: bytes) -> str:
    """The first digits of a task's id."""
    return f"0x{task.hex()[:DIGITS]}"


def show_seat(seat: Seat) -> str:
    """The seat as people say it: `verifier 3`."""
    return f"{seat.role.name.lower()} {seat.number & (1 << NUMBER_BITS) - 1}"


async def read_state(chain: GameChain, account: str = "", behind_blocks: int = 0) -> ChainState:
    """Everything that the chain tells, folded up to its head, as `account` sees it. behind_blocks: so many of
    the newest blocks are left out."""
    state, head = ChainState(account.lower(), chain.limits, chain.signing), await chain.head()
    until = max(chain.deployment.deploy_block, head.number - behind_blocks)
    found = await chain.read_events(chain.deployment.deploy_block, until)
    state.take(LogBatch(head, tuple(found)))
    return state


def find_game(state: ChainState, name: str) -> tuple[bytes, LoggedGame]:
    """The one task that `name` means. Raises InvalidInput for none or several, and for one that this version
    does not understand."""
    task = pick_task([*state.games, *state.refused], name)
    if task in state.refused:
        raise InvalidInput(
            what="the task cannot be understood",
            expected="a task that this version can fold",
            actual=state.refused[task],
            where=show_task(task),
            remedy="Do not stake on it; its submitter has to post a corrected one.",
        )
    return task, state.games[task]


def find_own_game(state: ChainState, name: str) -> tuple[bytes, LoggedGame]:
    """As `find_game`; of several tasks the one in which this account has a seat or a bond. Else any
    account could post a task whose id starts like another one's, and keep a node that is started again from
    what it has to do there."""
    own = [task for task, game in state.games.items() if has_duties(game, state.account)]
    with suppress(InvalidInput):
        name = pick_task(own, name).hex()
    return find_game(state, name)


def pick_task(known: Sequence[bytes], name: str) -> bytes:
    """The one task whose id starts with the hexadecimal digits of `name`. Raises InvalidInput for none or
    several."""
    digits = name.lower().removeprefix("0x")
    found = [task for task in known if digits and task.hex().startswith(digits)]
    if not known:
        raise InvalidInput(
            what="unknown task: none was ever posted",
            expected="the id of a posted task",
            actual=repr(name),
            remedy="Post one with `touchstone task create`, or correct rpc_url in the home's config.toml.",
        )
    if len(found) != 1:
        raise InvalidInput(
            what="unknown task" if not found else "several tasks start like that",
            expected=f"one of: {', '.join(map(show_task, known))}",
            actual=repr(name),
            remedy="Copy the id from `touchstone status` or from its submitter.",
        )
    return found[0]


# --- Rounds -------------------------------------------------------------------------------------------------
def list_open(game: GameState, block: int) -> Iterator[str]:
    """What of a task is not over yet, in words. block: the next one."""
    now, terms = get_state_at(game, block), game.terms
    live, left = get_live_round(now), terms.rounds - now.next_round
    if live is not None:
        yield f"round {live.index}: {tell_phase(game, block)}"
    if left and not is_over(now, block):
        yield f"rounds still to open: {left}"
    for count, what in (
        (len(now.contests), "contests"),
        (len(now.disputes), "disputes"),
        (len(now.asks), "asks"),
        (len(now.seats), "seats still to be paid out"),
    ):
        if count:
            yield f"{what}: {count}"


def is_task_closable(game: GameState, block: int) -> bool:
    """Whether `closeTask` passes in `block`."""
    now = get_state_at(game, block)
    return not now.is_closed and is_closable(now, block)


def tell_missing(game: GameState) -> str:
    """Which seats a task lacks before it can play; empty where it lacks none."""
    pools = zip(
        SeatRole,
        (game.terms.least_solvers, game.terms.least_verifiers, game.terms.least_whistleblowers),
        strict=True,
    )
    missing = [
        f"{least - count} more {role.name.lower()}{'s' if least - count > 1 else ''}"
        for role, least in pools
        if (count := count_sitting(game, role)) < least
    ]
    return ", ".join(missing)


def tell_first_round(game: GameState) -> Iterator[str]:
    """Tells from which round on a seat works that is taken while a round runs: pools are frozen ahead."""
    first, rounds = find_first_round(game), game.terms.rounds
    if first is None:
        return
    if first < rounds:
        yield f"a seat that is taken now works from round {first} on; the task ends with round {rounds - 1}"
    else:
        yield (
            "WARNING: it is fixed already who works in each round that is left. A seat that is taken now "
            "earns nothing, unless the task stands still and starts again"
        )


def tell_solver(terms: GameTerms, disk_bytes: int) -> Iterator[str]:
    """What a solver has to have: disk, and where `respond` is short, speed."""
    yield f"a solver takes up to {disk_bytes / 1e6:,.0f} MB of disk"
    respond, train_min = terms.windows.respond, terms.windows.train_min
    if respond < train_min:
        yield (
            "WARNING: an answer in a dispute on an older round may take the training of that round again. It "
            f"has {respond} blocks (respond), a round {train_min} (train_min): join only with a machine that "
            f"trains a whole round in less than {respond} blocks, or silence can cost the stake"
        )


def tell_format(terms: GameTerms) -> Iterator[str]:
    """What a member of an exact task has to know before it stakes."""
    if terms.is_exact:
        yield (
            "an exact task: a result counts only with the bits that every other machine gets. Such tasks are "
            "new: lock only what you can lose"
        )


def tell_seat(game: GameState, role: SeatRole, stake_wei: int, pace: Pace) -> Iterator[str]:
    """What a new seat locks, until when, and what a round earns it."""
    blocks, amounts = compute_release_blocks(game.terms.windows), game.terms.amounts
    hours = "" if pace.block_s is None else f" ({show_duration(blocks * pace.block_s)})"
    yield (
        f"joining as a {role.name.lower()} locks {format_tokens(stake_wei)}. You get them back some "
        f"{blocks:,} blocks{hours} after you leave (`touchstone leave`) or the task ends. If you are proven "
        "wrong you lose all of them"
    )
    if role is SeatRole.SOLVER:
        earns = f"a round earns {format_tokens(amounts.solver_pay)} if your claim is accepted"
    else:
        wei = amounts.audit_pay if role is SeatRole.VERIFIER else amounts.late_pay
        earns = (
            f"an audit earns {format_tokens(wei)}, and you have about {count_audits(game, role):.1f} a round"
        )
    yield f"{earns}. It is paid about as long after its round (`touchstone status`)"


def count_audits(game: GameState, role: SeatRole) -> float:
    """Returns how many audits a round has on average for a new seat beside those that sit now."""
    terms = game.terms
    solvers = max(count_sitting(game, SeatRole.SOLVER), terms.least_solvers)
    draws = terms.draws if role is SeatRole.VERIFIER else terms.late_chance / LATE_RATE_ONE
    least = terms.least_verifiers if role is SeatRole.VERIFIER else terms.least_whistleblowers
    return solvers * draws / max(count_sitting(game, role) + 1, least)


Due = calls.SettleSeat | calls.PayOut | calls.FreeEpoch
STEPS_MAX = 64
"""Looks at the chain: each sends all that is due, which makes more due."""


async def send_dues(chain: GameChain, task: bytes, account: str = "") -> None:
    """Settle and pay out the seats of `account` in a task; the seats of all accounts where it is empty."""
    for _ in range(STEPS_MAX):
        found = await _list_dues(chain, task, account)
        if not found:
            return
        for call in found:
            await _send_due(chain, task, call)


async def _list_dues(chain: GameChain, task: bytes, account: str) -> list[Due]:
    """What is due now: settlements first, since they make payouts due."""
    state = await read_state(chain, account)
    game, block = state.games[task], state.head_block + 1
    due = list_upkeep(game, block)
    own = {number for number, seat in game.seats.items() if account in ("", seat.account)}
    settled: list[Due] = [one for one in due if isinstance(one, calls.SettleSeat) and one.seat in own]
    paid: list[Due] = [one for one in due if isinstance(one, calls.PayOut) and one.seat in own]
    freed: list[Due] = [one for one in due if isinstance(one, calls.FreeEpoch) and not account]
    return [*settled, *([] if settled else [*paid, *freed])][:SETTLE_SEATS]


async def _send_due(chain: GameChain, task: bytes, call: Due) -> None:
    """A running node may have been faster: then the next look finds nothing to do."""
    try:
        match call:
            case calls.SettleSeat():
                await send(chain.settlement.settle(task, [call.seat], call.until_round))
            case calls.PayOut():
                await send(chain.tasks.pay_out(task, call.seat))
            case calls.FreeEpoch():
                await send(chain.rounds.free_epoch(task))
    except ContractRefused:
        return


async def send(sending: Awaitable[Answer]) -> Answer:
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


Act = Callable[[GameChain], Awaitable[Document]]


def run_with_chain(options: argparse.Namespace, act: Act) -> Document:
    """Do something with the chain of the home in `options`, as its account; returns what came of it."""
    config, key = read_config(options.home), unlock_key(options.home, options.password_file)
    return asyncio.run(_act(options.home, config, key, act, is_alone=not is_node_running(options.home)))


async def _act(home: Path, config: HomeConfig, key: AccountKey, act: Act, *, is_alone: bool) -> Document:
    deployment = config.read_deployment()
    poll_s = config.poll_seconds or None
    sending = Sending(queue_path=home / QUEUE_FILE, cap_wei=config.max_fee_wei)
    opening = open_game_chain(
        config.endpoints, deployment, key, poll_s=poll_s, sending=sending, is_alone=is_alone
    )
    async with opening as chain:
        await require_coin(chain, chain.address)
        return await act(chain)


def is_node_running(home: Path) -> bool:
    """Whether a node of this home runs, or may: its journal cannot be opened."""
    try:
        require_free(home / FILE_NAME)
    except TouchstoneError:
        return True
    return False


async def require_coin(chain: GameChain, account: str) -> None:
    """Raises InvalidInput where an account has nothing to pay gas with."""
    if await chain.connection.balance_of(account) == 0:
        raise InvalidInput(
            what=NO_COIN,
            expected=f"coin of the chain in {account}",
            actual="none",
            remedy=COIN_REMEDY,
        )


def refuse_unasked(task: bytes, *, has_left: bool, is_convicted: bool) -> None:
    """Raises NotNeeded where a service, which asks nobody, would lock a stake again that its operator has
    taken out, or after a conviction: what went wrong once may go wrong again."""
    if not has_left and not is_convicted:
        return
    raise NotNeeded(
        what="this node has left the task for good" if has_left else "this account was convicted in the task",
        expected="somebody to ask whether it shall stake again",
        actual="--yes",
        where=show_task(task),
        remedy=f"To join again, type the command once without --yes. {OTHER_TASK}",
    )


async def require_no_seat(chain: GameChain, task: bytes, state: ChainState) -> None:
    """Raises EnvironmentFault where an account that has no seat and no bond by the events may have one all
    the same. A service that is told that it is not needed does not start again, and silence costs money.
    state: what was read, as the account sees it."""
    connection, head, account = chain.connection, await chain.head(), state.account
    credit_wei: int = await chain.purse.credit_of(account)
    mined, sent = [await connection.transaction_count(account, at) for at in ("latest", "pending")]
    if is_old(head, chain.limits.name):
        actual = f"its newest block is {head.number}, {time.time() - head.timestamp_s:.0f} s old"
    elif sent > mined:
        actual = f"transactions of {account} that wait for their block: {sent - mined}"
    elif await chain.tasks.seat_of(task, account):
        actual = "the contract has a seat of it, and no event tells of one"
    elif credit_wei != state.credits[account]:
        # A bond is taken out of it.
        told = f"{format_tokens(state.credits[account])} by the events that were read"
        actual = f"a credit of {format_tokens(credit_wei)}, and {told}"
    elif await _had_duties(chain, task, account):
        actual = f"it had one, or a bond, {REORG_BLOCKS} blocks ago: the chain may take back how that ended"
    else:
        return
    raise EnvironmentFault(
        what="the chain's node cannot tell yet whether this account has a seat",
        expected=f"the newest block, with all that {account} has sent",
        actual=actual,
        where=show_task(task),
        remedy="Start the command again in a minute; if it stays so, look at the chain's node and the clock.",
    )


async def _had_duties(chain: GameChain, task: bytes, account: str) -> bool:
    """Whether an account had a seat or a bond just so many blocks ago as a chain may take back. A local test
    network takes none back."""
    if chain.limits.name == LIMITS_LOCAL.name:
        return False
    game = (await read_state(chain, account, REORG_BLOCKS)).games.get(task)
    return game is not None and has_duties(game, account)


async def require_tokens(chain: GameChain, account: str, amount_wei: int) -> None:
    """Raises InvalidInput where credit and wallet of an account do not hold so much."""
    credit_wei = await chain.purse.credit_of(account)
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
    """Show the warnings; the operator has to agree. Raises Declined where it does not."""
    for line in warnings:
        console.say(line)
    if not is_agreed and not console.confirm(question):
        raise Declined(
            what="nothing was done",
            expected="your agreement",
            actual="none",
            remedy="Run it again and answer y, or pass --yes.",
        )


async def tell_wallet(chain: GameChain, console: Console) -> int:
    """Say what the account has in its wallet; in wei."""
    wallet_wei = int(await chain.token.balance_of(chain.address))
    console.say(f"in the wallet now: {format_tokens(wallet_wei)}")
    return wallet_wei
