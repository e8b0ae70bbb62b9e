"""`touchstone top`: shows what a node does now, again and again.

What the node writes into its home is read each second. The chain is asked more seldom, because a look reads
all events of the deployment.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.live import Live
from rich.text import Text

from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.adapters.reports.node_state import NodeState, describe_node_state, read_node_state
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.account.task_names import show_task
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.overview_documents import TopDocument
from touchstone.scripts.home.home_config import HomeConfig, read_config
from touchstone.scripts.status.money_tables import describe_sum, find_money, has_money
from touchstone.scripts.status.node_lines import describe_node
from touchstone.scripts.status.sight import Sight, look

LOOK_S = 1.0
CHAIN_LOOK_S = 15.0
"""Seconds between two looks at the chain."""


@dataclass(frozen=True)
class ChainLook:
    """What the chain says of the account: sentences about its money by task, and the pace of blocks. `fault`
    says why it could not be asked, else it is empty."""

    pace: Pace
    money: tuple[str, ...] = ()
    fault: str = ""


def describe_money(sight: Sight) -> tuple[str, ...]:
    """Returns a sentence for each task in which the account has money."""
    found = []
    for task, game in sight.state.games.items():
        money = find_money(game, sight.account, sight.pace)
        if has_money(money):
            found.append(f"task {show_task(task)}: {describe_sum(game, money, sight.pace)}")
    return tuple(found)


def list_lines(state: NodeState | None, seen: ChainLook, now_s: float) -> Iterator[str]:
    """Yields what an operator wants to know: node and model, what it owes first, peers, money."""
    if state is None:
        yield "no node has run in this home yet: touchstone solve, verify or watch starts one"
    else:
        yield from describe_node_state(state, now_s)
        if state.is_running(now_s):
            yield from _list_work(state, seen.pace)
    yield from seen.money or (() if seen.fault else ("this account has no money in a task",))
    if seen.fault:
        yield f"WARNING: the chain was not asked: {seen.fault}"


def _list_work(state: NodeState, pace: Pace) -> Iterator[str]:
    if state.next_duty:
        yield f"next: {state.next_duty}, by {pace.show_block(state.next_block)}"
    else:
        yield "next: nothing is owed to the chain now"
    lag = max(0, pace.head_block - state.head_block)
    behind = "up to date with the chain" if lag <= 1 else f"WARNING: {lag} blocks behind the chain"
    yield f"{behind}; {state.peers} other member{'' if state.peers == 1 else 's'} of the task can be reached"


async def look_at_chain(config: HomeConfig) -> ChainLook:
    """Asks the chain once. A fault is part of the result."""
    try:
        async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
            sight = await look(chain, config.account)
    except EnvironmentFault as fault:
        return ChainLook(Pace(0, None), fault=fault.what)
    return ChainLook(sight.pace, describe_money(sight))


def watch_node(home: Path, console: Console) -> TopDocument:
    """Shows a home's node until Ctrl-C; once, if the output is no terminal. Returns the last look."""
    config = read_config(home)
    if not console.rich.is_terminal:
        return asyncio.run(_show_once(home, config, console))
    with suppress(KeyboardInterrupt):
        asyncio.run(_show_live(home, config, console))
    return _describe(home, asyncio.run(look_at_chain(config)))


async def _show_once(home: Path, config: HomeConfig, console: Console) -> TopDocument:
    seen = await look_at_chain(config)
    for line in list_lines(read_node_state(home), seen, time.time()):
        console.rich.print(line, markup=False, soft_wrap=True)
    return _describe(home, seen)


def _describe(home: Path, seen: ChainLook) -> TopDocument:
    state = read_node_state(home)
    return TopDocument(
        node=describe_node(state, time.time()),
        head_block=seen.pace.head_block,
        next_duty="" if state is None else state.next_duty,
        next_block=0 if state is None else state.next_block,
        peers=0 if state is None else state.peers,
        money=list(seen.money),
        fault=seen.fault,
    )


async def _show_live(home: Path, config: HomeConfig, console: Console) -> None:
    asking = asyncio.create_task(look_at_chain(config))
    seen, asked_s = await asking, time.monotonic()
    with Live(console=console.rich, auto_refresh=False) as live:
        while True:
            lines = list_lines(read_node_state(home), seen, time.time())
            live.update(Text("\n".join([*lines, "", "Ctrl-C ends this view, not the node."])), refresh=True)
            if asking.done():
                seen = asking.result()
                if time.monotonic() - asked_s > CHAIN_LOOK_S:
                    asking, asked_s = asyncio.create_task(look_at_chain(config)), time.monotonic()
            await asyncio.sleep(LOOK_S)
