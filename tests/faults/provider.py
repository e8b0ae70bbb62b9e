"""A provider of the chain that misbehaves: a proxy in front of a real Anvil.

Each request is looked at by faults, in turn; the first that answers counts, else Anvil answers. A batch goes
to one backend, as at a real provider.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import aiohttp
from aiohttp import web

Ask = Callable[[str, Sequence[Any]], Awaitable[Any]]


@dataclass
class Refusal(Exception):
    """A JSON-RPC error."""

    message: str
    code: int = -32000
    data: Any = None


@dataclass
class HttpRefusal(Exception):
    """An answer that is no JSON-RPC."""

    status: int
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One request. ask: asks Anvil; chance: of the backend that answers; post: which HTTP request it came in,
    of a batch the same for all."""

    method: str
    params: list[Any]
    ask: Ask
    chance: random.Random
    post: int


class Pass:
    """What a fault returns that leaves a request to the next one."""


PASS = Pass()
Fault = Callable[[Request], Awaitable[Any]]


@dataclass
class Provider:
    """What runs. asked: methods in the order in which they came; faults may be changed at any time."""

    url: str
    faults: list[Fault]
    asked: list[str] = field(default_factory=list)


@asynccontextmanager
async def run_provider(rpc_url: str, *faults: Fault, seed: int = 0) -> AsyncIterator[Provider]:
    """A provider in front of `rpc_url`, at a URL of its own."""
    chance, provider, posts = random.Random(seed), Provider("", list(faults)), count()

    async def ask(method: str, params: Sequence[Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        async with session.post(rpc_url, json=body) as response:
            found = await response.json()
        if "error" in found:
            error = found["error"]
            raise Refusal(error["message"], error["code"], error.get("data"))
        return found["result"]

    async def answer_one(call: dict[str, Any], backend: float, post: int) -> dict[str, Any]:
        provider.asked.append(call["method"])
        request = Request(call["method"], call["params"], ask, random.Random(backend), post)
        try:
            found: Any = PASS
            for fault in provider.faults:
                found = await fault(request)
                if found is not PASS:
                    break
            if found is PASS:
                found = await ask(call["method"], call["params"])
        except Refusal as refusal:
            error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
            if refusal.data is not None:
                error["data"] = refusal.data
            return {"jsonrpc": "2.0", "id": call["id"], "error": error}
        return {"jsonrpc": "2.0", "id": call["id"], "result": found}

    async def answer(request: web.Request) -> web.StreamResponse:
        calls = await request.json()
        one = chance.random(), next(posts)
        try:
            if isinstance(calls, dict):
                return web.json_response(await answer_one(calls, *one))
            return web.json_response([await answer_one(call, *one) for call in calls])
        except HttpRefusal as refusal:
            return web.Response(text=refusal.text, status=refusal.status, headers=refusal.headers)

    application = web.Application(client_max_size=1 << 30)
    application.router.add_post("/", answer)
    runner = web.AppRunner(application)
    async with aiohttp.ClientSession() as session:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        try:
            yield provider
        finally:
            await runner.cleanup()


def lag(blocks: int, share: float, *, refuses_ranges: bool = False) -> Fault:
    """A backend that is some blocks behind answers this share of the requests. refuses_ranges: a range beyond
    its head is an error, where other backends leave out what they do not have."""

    async def answer(request: Request) -> Any:
        if request.chance.random() >= share:
            return PASS
        head = max(0, int(await request.ask("eth_blockNumber", []), 16) - blocks)
        return await _answer_behind(request, head, refuses_ranges)

    return answer


async def _answer_behind(request: Request, head: int, refuses_ranges: bool) -> Any:
    method, params, ask = request.method, request.params, request.ask
    if method == "eth_blockNumber":
        return hex(head)
    if method == "eth_getBlockByNumber":
        number = head if params[0] == "latest" else int(params[0], 16)
        return None if number > head else await ask(method, [hex(number), *params[1:]])
    if method == "eth_getBlockByHash":
        found = await ask(method, params)
        return None if found is None or int(found["number"], 16) > head else found
    if method == "eth_getLogs":
        return await _answer_logs(request, head, refuses_ranges)
    if method in ("eth_getTransactionReceipt", "eth_getTransactionByHash"):
        found = await ask(method, params)
        is_known = found is not None and int(found["blockNumber"] or "0x0", 16) <= head
        return found if is_known else None
    if method in ("eth_call", "eth_estimateGas", "eth_getCode", "eth_getBalance", "eth_getTransactionCount"):
        at = params[-1] if params[-1] not in ("latest", "pending") else hex(head)
        if int(at, 16) > head:
            raise Refusal("header not found")
        return await ask(method, [*params[:-1], at])
    return PASS


async def _answer_logs(request: Request, head: int, refuses_ranges: bool) -> Any:
    chosen = request.params[0]
    if "blockHash" in chosen:
        block = await request.ask("eth_getBlockByHash", [chosen["blockHash"], False])
        if block is None or int(block["number"], 16) > head:
            raise Refusal("unknown block")
        return PASS
    last = int(chosen["toBlock"], 16)
    if last > head and refuses_ranges:
        raise Refusal(f"block range extends beyond current head block {head}")
    if int(chosen["fromBlock"], 16) > head:
        return []
    return await request.ask("eth_getLogs", [{**chosen, "toBlock": hex(min(last, head))}])


def hide(methods: Sequence[str], share: float = 1.0) -> Fault:
    """This share of the answers to these methods is null."""

    async def answer(request: Request) -> Any:
        return None if request.method in methods and request.chance.random() < share else PASS

    return answer


def refuse(
    refusal: Refusal | HttpRefusal, share: float = 1.0, methods: Sequence[str] = (), times: int = 1 << 30
) -> Fault:
    """This share of the requests is refused, at most so many; methods: of these only, of all where empty."""
    left = times

    async def answer(request: Request) -> Any:
        nonlocal left
        is_one = not methods or request.method in methods
        if is_one and left > 0 and request.chance.random() < share:
            left -= 1
            raise refusal
        return PASS

    return answer


def change(method: str, alter: Callable[[Any], Any], share: float = 1.0) -> Fault:
    """This share of the answers to a method comes in another form."""

    async def answer(request: Request) -> Any:
        if request.method != method or request.chance.random() >= share:
            return PASS
        return alter(await request.ask(method, request.params))

    return answer
