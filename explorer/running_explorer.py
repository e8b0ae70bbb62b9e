"""Runs an explorer: it follows the chain and serves the pages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.names import Names
from touchstone.explorer.node_reports import Asked, follow
from touchstone.explorer.page_server import PageServer
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.wire.request_log import make_request_log
from touchstone.protocol.spec.errors import EnvironmentFault


@dataclass(frozen=True)
class Explorer:
    """A running explorer. `following` is an asyncio task that ends only with an error."""

    url: str
    view: ChainView
    following: "asyncio.Task[None]"


@asynccontextmanager
async def open_explorer(
    chain: GameChain,
    index: Path,
    names: Names,
    host: str = "127.0.0.1",
    port: int = 0,
    asked: Asked = Asked.NOBODY,
) -> AsyncIterator[Explorer]:
    """Follows the chain and serves the pages inside the `with` block. `index` is the file to keep the events
    in. `port` 0 takes a free one. `asked` says which nodes are asked for reports. Raises InvalidInput for
    another deployment's index and EnvironmentFault if the port is taken."""
    kept = EventIndex(index, chain.deployment)
    try:
        view = ChainView(chain, kept, names)
        server, log = PageServer(view), make_request_log()
        runner = web.AppRunner(server.make_app(), shutdown_timeout=0.2, access_log=None, logger=log)
        await runner.setup()
        assert runner.server is not None
        try:
            url = await _listen(runner, host, port)
            following = asyncio.create_task(follow(view, asked))
            watching = asyncio.create_task(server.watch.run(runner.server))
            try:
                yield Explorer(url, view, following)
            finally:
                for running in (watching, following):
                    running.cancel()
                    with suppress(asyncio.CancelledError, EnvironmentFault):
                        await running
        finally:
            await runner.cleanup()
    finally:
        kept.close()


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise EnvironmentFault(
            what="the explorer cannot listen",
            expected=f"{host}:{port} to be free",
            actual=str(error),
            remedy="Name another port with --port; 0 takes a free one.",
            retryable=False,
        ) from error
    name, taken = runner.addresses[0][:2]
    return f"http://[{name}]:{taken}/" if ":" in name else f"http://{name}:{taken}/"
