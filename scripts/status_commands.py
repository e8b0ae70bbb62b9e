"""`touchstone status`: the tasks of the chain or one in detail, and what an account has and can take out.

What is shown and what `--json` writes come from the same look at the chain. What the node of this home wrote
of its own troubles is shown first: it can be read where the chain is silent.
"""

import argparse
import asyncio
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from touchstone.explorer.task_documents import count_sitting, tell_phase
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace
from touchstone.protocol.adapters.reports.node_state import (
    FULL_DISK_BYTES,
    NodeState,
    read_node_state,
    tell_node_state,
)
from touchstone.protocol.economics.account_money import AccountMoney, compute_money
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from touchstone.protocol.spec.game.purse import ESCROW
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.console import Console, Document, spell_id
from touchstone.scripts.home import HomeConfig, read_config
from touchstone.scripts.money_commands import Holding, describe_stake, find_holding
from touchstone.scripts.money_tables import (
    describe_money,
    find_money,
    has_money,
    make_money_table,
    make_rounds_table,
    sum_account,
)
from touchstone.scripts.wallet import (
    DIGITS,
    find_game,
    is_task_closable,
    list_open,
    read_state,
    show_seat,
    show_task,
    tell_missing,
)

ROLE_NAMES = ("solvers", "verifiers", "whistleblowers")
SHORT_NAMES = ("solve", "verify", "watch")
"""The same by their commands, on a narrow terminal."""
WIDE_COLUMNS = 100


@dataclass(frozen=True)
class Sight:
    """One look at the chain: everything folded, the pace of its blocks, and the money of an account in
    wei."""

    state: ChainState
    pace: Pace
    account: str
    coin_wei: int
    token_wei: int


def run_status(options: argparse.Namespace) -> Document:
    """Show the chain's view of tasks and of this home's account."""
    config, console, node = read_config(options.home), Console(), read_node_state(options.home)
    for line in list_node_lines(node, options.home, time.time()):
        console.rich.print(line, markup=False, soft_wrap=True)
    found = asyncio.run(_show_status(config, options.task, console))
    return {**found, "node": describe_node(node, time.time())}


def list_node_lines(node: NodeState | None, home: Path, now_s: float) -> Iterator[str]:
    """What the node of a home says of itself, and what it could not write where its disk is full; nothing
    where none has run."""
    if node is not None:
        yield from tell_node_state(node, now_s)
    free_bytes = shutil.disk_usage(home).free
    if free_bytes < FULL_DISK_BYTES:
        yield f"WARNING: the disk of this home is full: {free_bytes / 1e6:,.0f} MB free"


def describe_node(node: NodeState | None, now_s: float) -> Document | None:
    """The same as `--json` writes it."""
    if node is None:
        return None
    facts: dict[str, Any] = {"running": node.is_running(now_s), "end": node.end.value}
    facts |= {"started_s": node.started_s, "seen_s": node.seen_s, "block": node.head_block}
    troubles = [{"kind": one.kind.value, "since_s": one.since_s, "said": one.said} for one in node.troubles]
    return facts | {"restarts": node.restarts, "kills": node.kills, "troubles": troubles}


async def _show_status(config: HomeConfig, name: str | None, console: Console) -> Document:
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        sight = await look(chain, config.account)
    if name is None:
        show_status(sight, console)
        return describe_status(sight)
    task, game = find_game(sight.state, name)
    show_task_status(sight, task, game, console)
    return describe_task_status(sight, task, game)


async def look(chain: GameChain, account: str) -> Sight:
    """What the chain tells an account now."""
    account, pace = account.lower(), await read_pace(chain)
    state = await read_state(chain, account)
    coin_wei = await chain.connection.balance_of(account)
    return Sight(state, pace, account, coin_wei, int(await chain.token.balance_of(account)))


async def tell_status(chain: GameChain, account: str, console: Console) -> None:
    """Tables of the deployment's tasks, and of the money, the seats and the own tasks of `account`."""
    show_status(await look(chain, account), console)


def show_status(sight: Sight, console: Console) -> None:
    """The same of a look that was taken."""
    show, state = console.rich.print, sight.state
    show(_make_task_table(state, ROLE_NAMES if console.rich.width >= WIDE_COLUMNS else SHORT_NAMES))
    for line in _list_notes(state):
        show(line, markup=False)
    show(_make_wallet_table(sight))
    for task, game in state.games.items():
        money = find_money(game, sight.account, sight.pace)
        if has_money(money):
            show(make_money_table(task, game, money, sight.pace))


def _list_seats(sight: Sight) -> list[tuple[bytes, LoggedGame, Holding]]:
    return [
        (task, game, find_holding(game, seat, sight.pace))
        for task, game in sight.state.games.items()
        if (seat := find_seat(game, sight.account)) is not None
    ]


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
        missing = _tell_lack(game, state.head_block + 1)
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


def _make_wallet_table(sight: Sight) -> Table:
    credit_wei = sight.state.credits[sight.account]
    table = Table("", "amount", "can be taken out", title=f"Account {sight.account}", title_justify="left")
    table.add_row("coin for gas", f"{sight.coin_wei / 1e18:.4f}")
    table.add_row("tokens in the wallet", format_tokens(sight.token_wei))
    table.add_row("credit", format_tokens(credit_wei), "now: touchstone withdraw" if credit_wei else "")
    return table


# --- One task -----------------------------------------------------------------------------------------------
def show_task_status(sight: Sight, task: bytes, game: LoggedGame, console: Console) -> None:
    """Tables of a task's rounds and seats, and what of it is not over."""
    show, block = console.rich.print, sight.state.head_block + 1
    now = get_state_at(game, block)
    show(f"task {spell_id(task)}, posted by {game.terms.submitter}", markup=False)
    show(f"at block {block - 1}: {tell_phase(game, block)}; escrow {format_tokens(_get_escrow(game))}")
    for line in [
        *list_open(game, block),
        *([f"lacks {missing}"] if (missing := _tell_lack(game, block)) else []),
    ]:
        show(f"- {line}", markup=False)
    rounds = Table(title="Rounds", title_justify="left")
    for name in ("round", "state", "opened", "closed", "claims", "audits", "merged", "root"):
        rounds.add_column(name, overflow="fold")
    for index, one in sorted(now.rounds.items()):
        rounds.add_row(str(index), *_describe_round_shortly(one))
    show(rounds)
    show(_make_seat_table(now, compute_money(now, game.money, block)))
    money = find_money(game, sight.account, sight.pace)
    if has_money(money):
        show(make_money_table(task, game, money, sight.pace))
    if money.rounds:
        show(make_rounds_table(money, sight.pace))


def _make_seat_table(now: GameState, money: Mapping[str, AccountMoney]) -> Table:
    """All seats, with what their accounts have in the task."""
    table = Table(title="Seats", title_justify="left")
    for name in ("seat", "account", "state", "stake", "earned", "settled", "lost"):
        table.add_column(name, overflow="fold")
    for seat in now.seats.values():
        amounts = (get_stake(now, seat.number), *sum_account(money[seat.account]))
        shown = (format_tokens(wei).split()[0] for wei in amounts)
        table.add_row(show_seat(seat), seat.account, seat.status.name.lower(), *shown)
    return table


def _describe_round_shortly(one: GameRound) -> list[str]:
    closed, votes = "" if one.closed is None else str(one.closed), sum(map(len, one.votes.values()))
    claims = f"{len(one.claims)}/{len(one.pool.solvers)}"
    root = "" if one.root is None else one.root.hex()[:DIGITS]
    return [tell_round(one), str(one.opened), closed, claims, str(votes), str(len(one.merged)), root]


def tell_round(one: GameRound) -> str:
    """What a round does, in a word: `training`, `audits`, `posted`, `standing`, `fallen` or `undone`."""
    if one.phase == RoundPhase.RUNNING:
        return "training" if one.closed is None else "audits"
    return one.phase.name.lower()


def _get_escrow(game: GameState) -> int:
    return game.purse.get_wei(ESCROW)


def _tell_lack(game: GameState, block: int) -> str:
    """Which seats a task waits for: none, where no round is to come."""
    return "" if game.is_closed or is_over(get_state_at(game, block), block) else tell_missing(game)


# --- As JSON ------------------------------------------------------------------------------------------------
def describe_status(sight: Sight) -> Document:
    """What `touchstone status --json` writes (docs/schemas/status.json), but for the node."""
    state = sight.state
    return {
        "block": state.head_block,
        "tasks": [_describe_game(sight, task, game) for task, game in state.games.items()],
        "refused": [{"task": spell_id(task), "reason": why} for task, why in state.refused.items()],
        "account": _describe_account(sight),
        "seats": [_describe_seat(task, game, holding) for task, game, holding in _list_seats(sight)],
        "money": [
            describe_money(task, money)
            for task, game in state.games.items()
            if has_money(money := find_money(game, sight.account, sight.pace))
        ],
    }


def describe_task_status(sight: Sight, task: bytes, game: LoggedGame) -> Document:
    """The same with one task, all of its rounds and all of its seats."""
    now = get_state_at(game, sight.state.head_block + 1)
    return {
        "block": sight.state.head_block,
        "tasks": [_describe_game(sight, task, game)],
        "refused": [],
        "account": _describe_account(sight),
        "seats": [
            _describe_seat(task, game, find_holding(game, seat, sight.pace)) for seat in now.seats.values()
        ],
        "money": [
            describe_money(task, money)
            for money in compute_money(now, game.money, sight.state.head_block + 1).values()
        ],
        "rounds": [_describe_round(index, one) for index, one in sorted(now.rounds.items())],
    }


def _describe_account(sight: Sight) -> Document:
    money = {"coin_wei": sight.coin_wei, "wallet_wei": sight.token_wei}
    money["credit_wei"] = sight.state.credits[sight.account]
    return {"address": sight.account, **{name: str(wei) for name, wei in money.items()}}


def _describe_game(sight: Sight, task: bytes, game: LoggedGame) -> Document:
    block = sight.state.head_block + 1
    counts = zip(ROLE_NAMES, SeatRole, strict=True)
    return {
        "task": spell_id(task),
        "submitter": game.terms.submitter,
        "status": tell_phase(game, block),
        "rounds_opened": game.next_round,
        "rounds": game.terms.rounds,
        **{name: count_sitting(game, role) for name, role in counts},
        "lacks": _tell_lack(game, sight.state.head_block + 1),
        "escrow_wei": str(_get_escrow(game)),
        "contests": len(game.contests),
        "disputes": len(game.disputes),
        "asks": len(game.asks),
        "still_open": list(list_open(game, block)),
        "can_be_closed": is_task_closable(game, block),
    }


def _describe_seat(task: bytes, game: LoggedGame, holding: Holding) -> Document:
    seat = holding.seat
    facts: dict[str, Any] = describe_stake(task, seat, holding.stake_wei)
    required_wei = str(get_required_stake(game, seat.role))
    facts |= {"account": seat.account, "state": seat.status.name.lower(), "required_wei": required_wei}
    return facts | {"held_by": list(holding.held_by)}


def _describe_round(index: int, one: GameRound) -> Document:
    return {
        "round": index,
        "state": tell_round(one),
        "opened_block": one.opened,
        "closed_block": one.closed,
        "solvers": len(one.pool.solvers),
        "claims": len(one.claims),
        "votes": sum(map(len, one.votes.values())),
        "merged": len(one.merged),
        "root": None if one.root is None else spell_id(one.root),
    }
