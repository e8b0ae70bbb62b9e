"""A node without a task, as a process: it opens that of a home, watches itself, and waits."""

import asyncio
import signal
import sys
from pathlib import Path

from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.log_lines import open_logs
from touchstone.scripts.home.node_config import open_config


async def run(home: Path) -> None:
    """Until it is cancelled."""
    async with open_node(open_config(home, None, Console()), Node) as node:
        print("up", flush=True)
        async for batch in node.following.batches:
            node.state.take(batch)


if __name__ == "__main__":
    # Tests that a shell runs in the background hand on that SIGINT is ignored, and, once they have called a
    # command in their own process, that it is blocked.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with open_logs(None, None):
        asyncio.run(run(Path(sys.argv[1])))
