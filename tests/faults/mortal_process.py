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
from touchstone.node.joining.joining import catch_up, open_task
from touchstone.node.joining.seat_taking import take_seat
from touchstone.node.kit.config import PartyConfig
from touchstone.node.kit.party import Party
from touchstone.node.loop.node_loop import Loop
from touchstone.node.loop.opening import open_party
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


async def tell(party: Party) -> None:
    """Where this node is."""
    while True:
        # While it is woken it has something to look at, so it waits for no block.
        head = party.status.processed_block
        print(head, head if party.woken.is_set() else party.status.waiting_for_block, flush=True)
        await asyncio.sleep(TELL_S)


async def play(home: str, deployment: str, rpc_url: str, key: str, task: str, role: str) -> None:
    """A part until its task is closed."""
    part, account = ROLES[role], AccountKey(Account.from_key(key))
    config = PartyConfig(Path(home), Path(deployment), rpc_url, account, say=lambda line: None)
    async with open_party(config) as party:
        await catch_up(party)
        await open_task(party, bytes.fromhex(task))
        await take_seat(party, part.wish)
        print("seated", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        telling = asyncio.create_task(tell(party))
        await Loop(party, part.rooms).run()
        telling.cancel()


if __name__ == "__main__":
    *options, kind, side = sys.argv[1:]
    kill_at(kind, side)
    asyncio.run(play(*options))
