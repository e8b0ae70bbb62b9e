"""A chain's node behind a bad line: it does what it is asked, and some of its answers never arrive."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web


@asynccontextmanager
async def run_lossy_node(rpc_url: str, method: str, losses: int = 1) -> AsyncIterator[str]:
    """A URL that hands every request on to `rpc_url`. The first `losses` answers to `method` are lost: the
    connection breaks instead."""
    left = losses

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal left
        call = await request.json()
        async with session.post(rpc_url, json=call) as response:
            found = await response.json()
        if call["method"] == method and left > 0:
            left -= 1
            assert request.transport is not None
            request.transport.close()
        return web.json_response(found)

    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application)
    async with aiohttp.ClientSession() as session:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
        await runner.cleanup()
