"""A solver's disk runs full in the middle of a round, and has room again: the node says so in its log, in a
metric and in `touchstone status`, keeps its seat, and trains on.

The disk is a real one of 200 MB, which a test may mount where it is root.
"""

import asyncio
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.reading import list_closed, read_statuses
from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.world import KILL_LOOK_S, TINY_PLAN, Part, World, join, open_world, run_world
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.protocol.adapters.reports.node_state import HealthIssue, read_node_state
from touchstone.protocol.spec.game.enums import ClaimStatus
from touchstone.protocol.spec.game.state import GameRound
from touchstone.scripts.status.node_lines import list_node_lines

NAME, ROUNDS, SIZE = "solver 0", 4, "200m"
PLAN = replace(
    TINY_PLAN,
    rounds=ROUNDS,
    schedule=replace(TINY_PLAN.schedule, total_steps=ROUNDS * TINY_PLAN.inner_steps),
)
SAID = "the disk of this node is full"
FULL = 'touchstone_health_issue{kind="disk_full"}'


@dataclass
class Disk:
    """Where the node's home is. said: what was seen of the full disk, by where it was seen."""

    home: Path
    said: dict[str, str] = field(default_factory=dict)

    def fill(self) -> None:
        """Until it takes nothing more."""
        with (self.home / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 20)):
                    pass
            except OSError:
                pass
        assert shutil.disk_usage(self.home).free < 1 << 20

    def make_room(self) -> None:
        """As it was."""
        (self.home / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    home = tmp_path / NAME
    home.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(home)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system mounts no disk for this user")
    yield Disk(home)
    subprocess.run(["umount", "-l", str(home)], check=True)


async def _play(disk: Disk, log: Callable[[], str], world: World, name: str, part: Part) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with open_node(replace(world.configure(name), metrics_port=port), part.role) as node:
        world.parties[name] = node
        try:
            await join(world, node, name, part)
            looping = asyncio.create_task(part.make_loop(node).run())

            async def wait_until(is_so: Callable[[], bool]) -> None:
                while not is_so():
                    assert not looping.done(), log()
                    await asyncio.sleep(KILL_LOOK_S)

            await wait_until(partial(_is_training, node))
            disk.fill()
            failures = node.meter.failures.total()
            await wait_until(lambda: SAID in log() and node.meter.failures.total() > failures)
            disk.said["log"] = log()
            disk.said["status"] = " ".join(
                list_node_lines(read_node_state(disk.home), disk.home, time.time())
            )
            disk.said["metric"] = await asyncio.to_thread(_read_metric, port)
            disk.make_room()
            await wait_until(lambda: "has room again" in log())
            disk.said["metric after"] = await asyncio.to_thread(_read_metric, port)
            await looping
        finally:
            world.parties.pop(name, None)


def _is_training(node: Node) -> bool:
    works = node.rooms.tools.claims.works.items()
    return any(index == 1 and work.boundaries and work.finished is None for (index, _), work in works)


def _read_metric(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return next(line for line in lines if line.startswith(FULL)).removeprefix(FULL).strip()


async def test_a_node_whose_disk_is_full_says_so_and_goes_on_once_it_has_room(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cast = make_cast(3, 3, 3)
    cast[NAME] = replace(SOLVER, plays=partial(_play, disk, lambda: "\n".join(caplog.messages)))
    rounds: dict[int, GameRound] = {}

    def get_view(submitter: Node) -> bool:
        """Keeps rounds as they were last, for the chain forgets them; never enough."""
        for game in submitter.state.games.values():
            rounds.update(game.rounds)
        return False

    async with open_world(tmp_path, list(cast)) as world:
        game, _ = await run_world(world, PLAN, cast, get_view)
        statuses = read_statuses(world, replace(game, rounds=rounds), ROUNDS - 1, 1 << 40)
    assert game.is_closed and list_closed(world, game) == set()
    assert statuses[NAME] == ClaimStatus.ACCEPTED.name, statuses
    assert SAID in disk.said["log"] and "disk of this home is full" in disk.said["status"]
    assert float(disk.said["metric"]) == 1.0 and float(disk.said["metric after"]) == 0.0
    state = read_node_state(disk.home)
    assert state is not None and HealthIssue.DISK_FULL not in [one.kind for one in state.health_issues]
