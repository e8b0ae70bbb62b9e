"""Parts of a world that play in processes of their own, and are killed by SIGKILL."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from tests.e2e.world import Part, World
from touchstone.node.kit.config import Status

Death = tuple[str, str]
"""Kind of record, and the side of its write."""
NEVER: Death = ("nothing", "after")


@dataclass
class Absent:
    """What the clock asks of a party that plays elsewhere."""

    status: Status
    following: Any = field(default_factory=lambda: SimpleNamespace(changed=asyncio.Event()))


async def play_killed(deaths: tuple[Death, ...], world: World, name: str, part: Part) -> None:
    """A part that dies in this order, then lives on until its task is closed."""
    for death in (*deaths, NEVER):
        command = _make_command(world, name, death)
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=PIPE, stdout=PIPE)
        try:
            await _follow(world, name, process)
            status = await process.wait()
        finally:
            world.parties.pop(name, None)
            if process.returncode is None:
                process.kill()
                await process.wait()
        expected = 0 if death == NEVER else -signal.SIGKILL
        assert status == expected, f"{name} was to die at {death}: {status}"
        world.lines.append(f"{name}: {death}")


def _make_command(world: World, name: str, death: Death) -> list[str]:
    config = world.configure(name)
    key = config.key._account.key.hex()
    places = (
        str(config.home),
        str(config.deployment),
        config.rpc_url,
        key,
        world.task.hex(),
        name.split()[0],
    )
    return ["-m", "tests.faults.mortal_process", *places, *death]


async def _follow(world: World, name: str, process: Process) -> None:
    assert process.stdout is not None and process.stdin is not None
    if await process.stdout.readline() != b"seated\n":
        return
    await world.wait_for_seats(name)
    process.stdin.write(b"\n")
    absent = Absent(Status(name))
    while line := await process.stdout.readline():
        absent.status.processed_block, absent.status.waiting_for_block = map(int, line.split())
        world.parties[name] = cast(Any, absent)
    world.parties.pop(name, None)
