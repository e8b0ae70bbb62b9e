"""A node in a process of its own that kills itself with SIGKILL at a write of its journal.

python -m tests.faults.mortal_process HOME DEPLOYMENT RPC_URL KEY TASK ROLE [KIND SIDE]

It says `seated` once it has its seat, and begins when it is told to; then how far it has read the chain and
for which block it waits, again and again.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from eth_account import Account

from tests.e2e.roles import SOLVER, VERIFIER, WATCHER
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.keys.account_key import AccountKey

ROLES = {"solver": SOLVER, "verifier": VERIFIER, "watcher": WATCHER}
TELL_S = 0.03


def kill_at(kind: str, side: str) -> None:
    """The first record of this kind kills this process, before it is written or after."""
    write = Journal.append

    def append(journal: Journal, record: Any) -> None:
        is_fatal = type(record).__name__ == kind
        if is_fatal and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(journal, record)
        if is_fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = append  # type: ignore[method-assign,assignment]


async def tell(node: Node) -> None:
    """Where this node is."""
    while True:
        # While it is notified it has something to look at, so it waits for no block.
        head = node.status.processed_block
        print(head, head if node.following.changed.is_set() else node.status.waiting_for_block, flush=True)
        await asyncio.sleep(TELL_S)


async def play(home: str, deployment: str, rpc_url: str, key: str, task: str, role: str) -> None:
    """A part until its task is closed."""
    part, account = ROLES[role], AccountKey(Account.from_key(key))
    config = NodeConfig(Path(home), Path(deployment), rpc_url, account, notify=lambda line: None)
    async with open_node(config, part.role) as node:
        await node.following.take_next()
        await node.join(bytes.fromhex(task))
        await node.rooms.seat_taking.take_seat(part.request)
        print("seated", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        telling = asyncio.create_task(tell(node))
        await part.make_loop(node).run()
        telling.cancel()


if __name__ == "__main__":
    *options, kind, side = sys.argv[1:]
    kill_at(kind, side)
    asyncio.run(play(*options))
