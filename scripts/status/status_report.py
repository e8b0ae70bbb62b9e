"""`touchstone status`: shows the tasks of the chain or one in detail, and an account's money.

The tables and the `--json` come from the same look at the chain. The node's own note of its health comes
first.
"""

import asyncio
import time
from pathlib import Path

from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.reports.node_state import read_node_state
from touchstone.scripts.account.task_names import find_game
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.overview_documents import NodeFacts, StatusDocument
from touchstone.scripts.home.home_config import HomeConfig, read_config
from touchstone.scripts.status.node_lines import describe_node, list_node_lines
from touchstone.scripts.status.sight import look
from touchstone.scripts.status.status_documents import describe_status, describe_task_status
from touchstone.scripts.status.status_tables import show_status, show_task_status


def report_status(home: Path, name: str | None) -> StatusDocument:
    """Shows the chain's tasks, or the one called `name`, and this home's account."""
    config, console, node = read_config(home), Console(), read_node_state(home)
    for line in list_node_lines(node, home, time.time()):
        console.rich.print(line, markup=False, soft_wrap=True)
    return asyncio.run(_show_status(config, name, console, describe_node(node, time.time())))


async def _show_status(
    config: HomeConfig, name: str | None, console: Console, node: NodeFacts | None
) -> StatusDocument:
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        sight = await look(chain, config.account)
    if name is None:
        show_status(sight, console)
        return describe_status(sight, node)
    task, game = find_game(sight.state, name)
    show_task_status(sight, task, game, console)
    return describe_task_status(sight, task, game, node)
