"""`touchstone explorer` serves a chain's tasks to who has no home, and ends when it is asked to."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from protocol.adapters.chain.deployment import write_game_deployment
from protocol.spec.game.terms import LIMITS_LOCAL
from scripts.explorer_command import choose_index
from tests.explorer.plays import make_deployment
from tests.rounds.campaign import make_player
from tests.rounds.chain import RoundChain, open_round_chain
from tests.scripts.network import DEADLINE_S, ROOT


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path / "chain", LIMITS_LOCAL) as opened:
        yield opened


async def test_it_serves_until_it_is_asked_to_end(chain: RoundChain, tmp_path: Path) -> None:
    task = make_player(chain, 11).twin.task
    path = tmp_path / "deployment.json"
    write_game_deployment(path, make_deployment(chain))
    arguments = ("explorer", "--deployment", str(path), "--rpc-url", chain.url, "--port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripts.touchstone", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path / "home"), "DISPLAY": ""},
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        url = (await process.stdout.readline()).decode().split()[-1]
        async with aiohttp.ClientSession(url) as browser:
            while True:
                async with browser.get("/api/tasks") as response:
                    tasks = [one["task"] for one in (await response.json())["tasks"]]
                if tasks:
                    break
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert tasks == [f"0x{task.hex()}"] and url.startswith("http://127.0.0.1:")
    assert not (tmp_path / "home").exists()


def test_each_deployment_has_a_file_of_its_own(
    chain: RoundChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    deployment = make_deployment(chain)
    path = choose_index(deployment)
    assert path.parent == tmp_path / "touchstone"
    assert str(deployment.chain_id) in path.name and deployment.tasks in path.name
