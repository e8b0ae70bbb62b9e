"""What strangers may ask of the explorer's pages: connections, ledgers, logs and time are bounded."""

import asyncio
import csv
import io
import logging
import socket
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.explorer.test_page_server import open_pages
from tests.faults.test_strangers import count_open
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player
from tools.vectors.fixed_values import MALFORMED_REQUESTS
from touchstone.explorer import page_server
from touchstone.explorer.running_explorer import Explorer
from touchstone.protocol.adapters.wire.limits import WireLimits


def get_place(explorer: Explorer) -> tuple[str, int]:
    url = urlsplit(explorer.url)
    return url.hostname or "", url.port or 0


def name_ledger(players: list[Player]) -> str:
    return f"/api/tasks/0x{players[0].twin.task.hex()}/work.csv"


@pytest.mark.parametrize("kind", range(len(MALFORMED_REQUESTS)))
async def test_malformed_requests_are_not_logged(
    chain: RoundChain, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    """A traceback for each would fill the disk of an explorer that serves everybody."""
    async with open_pages(chain, tmp_path) as explorer:
        reader, writer = await asyncio.open_connection(*get_place(explorer))
        writer.write(MALFORMED_REQUESTS[kind])
        await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_connections_that_ask_nothing_are_few(
    chain: RoundChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is an open file. Who has none left answers nobody, and reads no chain."""
    monkeypatch.setattr(page_server, "LIMITS", WireLimits(connections=4))
    async with open_pages(chain, tmp_path) as explorer, aiohttp.ClientSession(explorer.url) as browser:
        bare = [socket.create_connection(get_place(explorer)) for _ in range(40)]
        async with asyncio.timeout(30):
            while count_open(bare) > 4:
                await asyncio.sleep(0.1)
        async with browser.get("/api/status") as response:
            assert response.status == 200
        for one in bare:
            one.close()


async def test_few_ledgers_are_written_at_once(
    chain: RoundChain, players: list[Player], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each goes through all rounds of a task, and takes its share of the one core that answers all."""
    monkeypatch.setattr(page_server, "LEDGERS_MAX", 1)
    go_on, begun, prepare = asyncio.Event(), asyncio.Event(), web.StreamResponse.prepare

    async def wait(response: web.StreamResponse, request: web.BaseRequest) -> object:
        if response.content_type == "text/csv":
            begun.set()
            await go_on.wait()
        return await prepare(response, request)

    async with open_pages(chain, tmp_path) as explorer, aiohttp.ClientSession(explorer.url) as browser:
        monkeypatch.setattr(web.StreamResponse, "prepare", wait)

        async def ask() -> int:
            async with browser.get(name_ledger(players)) as response:
                await response.read()
                return response.status

        first = asyncio.create_task(ask())
        await begun.wait()
        assert await ask() == 503
        go_on.set()
        assert (await first, await ask()) == (200, 200)


async def test_who_reads_nothing_holds_no_ledger_for_ever(
    chain: RoundChain,
    players: list[Player],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(page_server, "LEDGERS_MAX", 1)
    monkeypatch.setattr(page_server, "LIMITS", WireLimits(write_seconds=0.05))
    left, write = 1, web.StreamResponse.write

    async def hang(response: web.StreamResponse, piece: bytes) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            await asyncio.Event().wait()
        await write(response, piece)

    async with open_pages(chain, tmp_path) as explorer, aiohttp.ClientSession(explorer.url) as browser:
        monkeypatch.setattr(web.StreamResponse, "write", hang)
        async with asyncio.timeout(60):
            with pytest.raises(aiohttp.ClientError):
                async with browser.get(name_ledger(players)) as response:
                    await response.read()
            async with browser.get(name_ledger(players)) as response:
                assert response.status == 200 and await response.read()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_no_cell_of_a_ledger_is_a_formula(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    """A table that is opened in a spreadsheet computes what begins so."""
    async with (
        open_pages(chain, tmp_path) as explorer,
        aiohttp.ClientSession(explorer.url) as browser,
        browser.get(name_ledger(players)) as response,
    ):
        rows = list(csv.reader(io.StringIO(await response.text())))
    assert len(rows) > 1
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
