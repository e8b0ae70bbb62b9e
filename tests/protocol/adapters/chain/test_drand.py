"""A round's signature comes from the first server that has it, and nonsense counts as having none."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tools.vectors.fixed_values import ROUND_1000
from touchstone.protocol.adapters.chain.drand import fetch_signature
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.quicknet import CHAIN_HASH

CLOSED = "http://127.0.0.1:1"
Handler = Callable[[web.Request], Awaitable[web.Response]]


async def start(answer: Handler) -> TestServer:
    application = web.Application()
    application.router.add_get(f"/{CHAIN_HASH}/public/{{round}}", answer)
    server = TestServer(application, host="127.0.0.1")
    await server.start_server()
    return server


async def give_round(request: web.Request) -> web.Response:
    assert request.match_info["round"] == "1000"
    return web.json_response({"round": 1000, "signature": ROUND_1000.hex()})


async def give_nothing(_: web.Request) -> web.Response:
    raise web.HTTPNotFound


async def give_half(_: web.Request) -> web.Response:
    return web.json_response({"signature": ROUND_1000.hex()[:48]})


async def give_text(_: web.Request) -> web.Response:
    return web.Response(text="[" * 3000)


@pytest.mark.parametrize("bad", [give_nothing, give_half, give_text])
async def test_the_next_server_is_asked(bad: Handler) -> None:
    first, second = await start(bad), await start(give_round)
    try:
        servers = [CLOSED, str(first.make_url("")).rstrip("/"), str(second.make_url("")).rstrip("/")]
        assert await fetch_signature(1000, servers) == ROUND_1000
        with pytest.raises(EnvironmentFault, match="no server of drand") as fault:
            await fetch_signature(1000, servers[:2])
        assert fault.value.retryable and all(server in str(fault.value) for server in servers[:2])
    finally:
        await first.close()
        await second.close()


async def test_a_round_that_is_years_away_is_not_waited_for() -> None:
    """One false time of a block, or one false answer to `drandRound`, once kept a duty for ever."""
    with pytest.raises(EnvironmentFault, match="is far in the future"):
        await fetch_signature(10**9, ())
