"""Subcommands that make a test network and a home, and show what the chain tells: devnet, init, status.

`touchstone status`: the tasks of the chain, and what an account has, can take out, and when.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.chain_client import GameChain, open_game_chain
from protocol.adapters.chain.deployment import read_game_deployment
from protocol.adapters.chain.refusal_words import format_tokens
from protocol.adapters.keys import read_new_password, read_password
from protocol.adapters.wire.conventions import choose_endpoint
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.game.fates import find_seat, get_required_stake
from protocol.spec.game.logs import LoggedGame
from protocol.spec.game.purse import ESCROW
from protocol.spec.game.state import SeatRole
from scripts import devnet
from scripts.clock import NEVER
from scripts.console import Console
from scripts.home import (
    CONFIG_FILE,
    HomeConfig,
    check_config,
    create_home,
    has_key,
    is_whole,
    read_config,
    refuse_whole,
)
from scripts.money_commands import Holding, Pace, find_holding, read_pace, tell_release
from scripts.tasks import (
    DIGITS,
    count_sitting,
    is_task_closable,
    list_open,
    read_state,
    show_seat,
    show_task,
    tell_missing,
    tell_phase,
)

NO_ACCOUNT = "0x" + 40 * "0"
ROLE_NAMES = ("solvers", "verifiers", "whistleblowers")
SHORT_NAMES = ("solve", "verify", "watch")
"""The same by their commands, on a narrow terminal."""
WIDE_COLUMNS = 100


async def tell_status(chain: GameChain, account: str, console: Console) -> None:
    """Tables of the deployment's tasks, and of the money, the seats and the own tasks of `account`."""
    account, pace = account.lower(), await read_pace(chain)
    state = await read_state(chain, account)
    show = console.rich.print
    show(_make_task_table(state, ROLE_NAMES if console.rich.width >= WIDE_COLUMNS else SHORT_NAMES))
    for line in _list_notes(state):
        show(line, markup=False)
    show(await _make_money_table(chain, account, state))
    seats = [
        (task, game, find_holding(game, seat, pace))
        for task, game in state.games.items()
        if (seat := find_seat(game, account)) is not None
    ]
    if seats:
        show(_make_seat_table(seats))
    own = {task: game for task, game in state.games.items() if game.terms.submitter == account}
    if any(not game.is_closed for game in own.values()):
        show(_make_escrow_table(own, pace))


def _make_task_table(state: ChainState, roles: Sequence[str]) -> Table:
    """roles: headings of the columns that count seats."""
    table = Table(title=f"Tasks at block {state.head_block}", title_justify="left")
    # An id that is cut short names nothing.
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("rounds opened", "status", *roles, "escrow left"):
        table.add_column(name, overflow="fold")
    for task, game in state.games.items():
        table.add_row(*_describe_task(task, game, state.head_block + 1))
    for task in state.refused:
        table.add_row(show_task(task), "", "cannot be understood")
    return table


def _list_notes(state: ChainState) -> list[str]:
    """What is unusual about tasks, a line each: in the table they would leave no room on a terminal of 80
    columns."""
    notes = [(task, f"cannot be understood: {reason}") for task, reason in state.refused.items()]
    for task, game in state.games.items():
        questions = len(game.contests) + len(game.disputes) + len(game.asks)
        missing = "" if game.is_closed else tell_missing(game)
        if questions:
            notes.append((task, f"asks, disputes and contests that have not ended: {questions}"))
        if missing:
            notes.append((task, f"lacks {missing}"))
    return [f"{show_task(task)}: {note}" for task, note in notes]


def _describe_task(task: bytes, game: LoggedGame, block: int) -> list[str]:
    counts = [str(count_sitting(game, role)) for role in SeatRole]
    return [
        show_task(task),
        f"{game.next_round}/{game.terms.rounds}",
        tell_phase(game, block),
        *counts,
        format_tokens(game.purse.get_wei(ESCROW)),
    ]


async def _make_money_table(chain: GameChain, account: str, state: ChainState) -> Table:
    coin_wei, credit_wei = await chain.connection.balance_of(account), state.credits[account]
    table = Table("", "amount", "can be taken out", title=f"Account {account}", title_justify="left")
    table.add_row("coin for gas", f"{coin_wei / 1e18:.4f}")
    table.add_row("tokens in the wallet", format_tokens(await chain.token.balance_of(account)))
    table.add_row("credit", format_tokens(credit_wei), "now: touchstone withdraw" if credit_wei else "")
    return table


def _make_seat_table(seats: Sequence[tuple[bytes, LoggedGame, Holding]]) -> Table:
    """What is at stake, and until when."""
    table = Table(title="Your seats", title_justify="left")
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("seat", "state", "stake"):
        table.add_column(name, overflow="fold")
    table.add_column("can be taken out", overflow="fold")
    for task, game, holding in seats:
        seat = holding.seat
        words = (show_seat(seat), seat.status.name.lower(), _tell_stake(game, holding))
        table.add_row(show_task(task), *words, tell_release(holding))
    return table


def _tell_stake(game: LoggedGame, holding: Holding) -> str:
    least_wei = get_required_stake(game, holding.seat.role)
    short = "" if holding.stake_wei >= least_wei else f" (to sit it takes {format_tokens(least_wei)})"
    return format_tokens(holding.stake_wei) + short


def _make_escrow_table(own: dict[bytes, LoggedGame], pace: Pace) -> Table:
    table, block = Table(title="Escrow of your tasks", title_justify="left"), pace.head_block + 1
    table.add_column("task", no_wrap=True, min_width=DIGITS + len("0x"))
    for name in ("left", "comes back as credit", "still open"):
        table.add_column(name, overflow="fold")
    for task, game in own.items():
        if not game.is_closed:
            when = "now: touchstone task close" if is_task_closable(game, block) else "when all is settled"
            row = (format_tokens(game.purse.get_wei(ESCROW)), when)
            table.add_row(show_task(task), *row, "; ".join(list_open(game, block)) or "nothing")
    return table


def run_devnet(options: argparse.Namespace) -> None:
    """Run a test network until it is interrupted."""
    asyncio.run(_serve_devnet(options))


async def _serve_devnet(options: argparse.Namespace) -> None:
    console = Console()
    defaults = devnet.DevnetOptions()
    setup = devnet.DevnetOptions(
        port=options.port, path=options.out or defaults.path, fund=tuple(options.fund)
    )
    async with devnet.run_devnet(setup, console.say) as net:
        console.say(f"chain {net.deployment.chain_id} at {net.rpc_url}; contracts in {net.path}")
        console.say("Next, in another terminal, for each party:")
        console.say(f"  touchstone init --home DIR --rpc-url {net.rpc_url} --deployment {net.path} --devnet")
        console.say("  touchstone solve TASK --home DIR (or verify, or watch)")
        console.say("Ctrl-C ends the network and everything on it.")
        await devnet.keep_time(net, console.say, NEVER if options.no_skip else options.parties)


def run_init(options: argparse.Namespace) -> None:
    """Make a home folder; on a test network fund its account."""
    asyncio.run(make_home(options, Console()))


async def make_home(options: argparse.Namespace, console: Console) -> None:
    """The same at a console. Raises InvalidInput where an endpoint, a deployment or a home is not usable."""
    choose_endpoint(options.listen_host, options.listen_port, options.public_url)
    if options.devnet and is_whole(options.home):
        return await _fund_again(options.home, console)
    refuse_whole(options.home)
    config = _make_config(options)
    read_game_deployment(options.deployment)
    if options.devnet:
        # First of all: a wrong --rpc-url must not get into the configuration.
        await _read_balances(config, NO_ACCOUNT)
    password = _ask_password(options)
    key = create_home(options.home, config, password, is_devnet=options.devnet)
    console.say(f"account {key.address} in {options.home}")
    if options.devnet:
        await _fund(config, key.address, console)
    console.say(
        "Next: touchstone solve TASK, verify, watch, or task create"
        + ("" if options.devnet else " (after sending it coin and tokens)")
    )


def _make_config(options: argparse.Namespace) -> HomeConfig:
    config = HomeConfig(
        rpc_url=options.rpc_url,
        deployment=str(options.deployment.absolute()),
        listen_host=options.listen_host,
        listen_port=options.listen_port,
        public_url=options.public_url,
        threads=options.threads,
        device=options.device,
        memory_mb=options.memory_mb,
        password_file=str(options.password_file.absolute()) if options.password_file else "",
        limits=options.limits or ("local" if options.devnet else "12s"),
    )
    return check_config(config)


def _ask_password(options: argparse.Namespace) -> str:
    if has_key(options.home):
        return read_password(options.password_file)
    return read_new_password(options.password_file, "Password for the new keystore: ")


async def _fund_again(home: Path, console: Console) -> None:
    """Give the account of a test network's home what it lacks: the chain did not answer when it was made, or
    its coin is spent. Raises InvalidInput where it has money."""
    config = read_config(home)
    coin_wei, token_wei = await _read_own_balances(config, home / CONFIG_FILE)
    if coin_wei and token_wei:
        raise InvalidInput(
            what="this home is made already, and its account has money",
            expected="an account without coin or without tokens",
            actual=f"{format_tokens(token_wei)} and coin in {config.account}",
            where=str(home),
            remedy="Use the home as it is, or choose another --home.",
        )
    await _fund(config, config.account, console)


async def _read_own_balances(config: HomeConfig, path: Path) -> tuple[int, int]:
    try:
        return await _read_balances(config, config.account)
    except EnvironmentFault as fault:
        raise EnvironmentFault(
            what=fault.what,
            expected=fault.expected,
            actual=fault.actual,
            where=fault.where,
            remedy=f"Start that chain, or correct rpc_url in {path}: a home that is made keeps its own.",
            retryable=fault.retryable,
        ) from fault


async def _read_balances(config: HomeConfig, address: str) -> tuple[int, int]:
    """Coin and tokens of an account in wei, by the chain and the deployment that a configuration names."""
    async with open_game_chain(config.rpc_url, read_game_deployment(Path(config.deployment))) as chain:
        return await chain.connection.balance_of(address), int(await chain.token.balance_of(address))


async def _fund(config: HomeConfig, address: str, console: Console) -> None:
    """Give an account of a test network coin, and tokens where it has none; nothing where it has both."""
    coin_wei, has_wei = await _read_balances(config, address)
    if coin_wei and has_wei:
        return
    token_wei = 0 if has_wei else devnet.GRANT_TOKEN_WEI
    async with open_game_chain(config.rpc_url, read_game_deployment(Path(config.deployment))) as chain:
        await devnet.fund(chain.connection, chain.deployment, [address], token_wei=token_wei)
    tokens = f"{format_tokens(token_wei)} and " if token_wei else ""
    console.say(f"funded with {tokens}coin for gas")


def run_status(options: argparse.Namespace) -> None:
    """Show the chain's view of tasks and of this home's account."""
    config = read_config(options.home)
    asyncio.run(_show_status(config))


async def _show_status(config: HomeConfig) -> None:
    async with open_game_chain(config.rpc_url, read_game_deployment(Path(config.deployment))) as chain:
        await tell_status(chain, config.account, Console())
