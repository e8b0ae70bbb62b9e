"""Requests to an endpoint: a cancelled one leaves nothing behind, a broken one is tried again where that
changes nothing, an answer of another form is none, and no error tells a key."""

import asyncio
import json
import random
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web

from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.providers import ATTEMPTS
from touchstone.protocol.adapters.chain.rpc import (
    MAX_DEPTH,
    MOST_BYTES,
    decode_json,
    name_place,
    read_retry_after,
)
from touchstone.protocol.spec.errors import EnvironmentFault

TIMEOUT_S = 5.0


@dataclass
class Node:
    """A JSON-RPC server that breaks off the first `broken` requests. error: it answers with one; said: it
    answers with that."""

    url: str = ""
    broken: int = 0
    status: int = 200
    error: bool = False
    said: str = ""
    is_packed: bool = False
    delay_s: float = 0.001
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        call = await request.json()
        self.asked.append(call["method"] if isinstance(call, dict) else "several")
        if len(self.asked) <= self.broken:
            assert request.transport is not None
            request.transport.close()
        await asyncio.sleep(self.delay_s)
        if self.said:
            response = web.Response(text=self.said, content_type="text/html", status=self.status)
            if self.is_packed:
                response.enable_compression(web.ContentCoding.gzip)
            return response
        if self.error:
            error = {"code": -32000, "message": "no"}
            return web.json_response({"jsonrpc": "2.0", "id": call["id"], "error": error})
        return web.json_response(
            {"jsonrpc": "2.0", "id": call["id"], "result": call["method"]}, status=self.status
        )


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node, app = Node(), web.Application()
    app.router.add_post("/{rest:.*}", node.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    node.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield node
    await runner.cleanup()


@pytest.fixture
async def connection(node: Node) -> AsyncIterator[Connection]:
    connection = Connection(node.url, timeout_s=TIMEOUT_S)
    yield connection
    await connection.close()


async def test_cancelled_requests_do_not_hold_up_later_ones(connection: Connection) -> None:
    chance = random.Random(1)
    for _ in range(50):
        asked = [asyncio.create_task(connection.request("eth_blockNumber")) for _ in range(6)]
        await asyncio.sleep(chance.random() * 0.003)
        for task in asked[::2]:
            task.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            found = await asyncio.gather(*asked, return_exceptions=True)
        assert found[1::2] == 3 * ["eth_blockNumber"]


async def test_a_question_is_asked_again_after_a_broken_connection(
    node: Node, connection: Connection
) -> None:
    node.broken = ATTEMPTS - 1
    assert await connection.request("eth_blockNumber") == "eth_blockNumber"
    assert len(node.asked) == ATTEMPTS


async def test_a_node_that_stays_broken_is_given_up(node: Node, connection: Connection) -> None:
    node.broken = ATTEMPTS
    with pytest.raises(EnvironmentFault, match="a chain that answers"):
        await connection.request("eth_blockNumber")
    assert len(node.asked) == ATTEMPTS


async def test_what_changes_the_chain_is_sent_once(node: Node, connection: Connection) -> None:
    node.broken = 1
    with pytest.raises(EnvironmentFault):
        await connection.request("anvil_mine")
    assert node.asked == ["anvil_mine"]


async def test_a_closed_connection_opens_again(connection: Connection) -> None:
    assert await connection.request("eth_a") == "eth_a"
    await connection.close()
    assert await connection.request("eth_a") == "eth_a"


async def test_another_endpoint_answers_for_a_silent_one(node: Node) -> None:
    connection = Connection(["http://127.0.0.1:1", node.url], timeout_s=TIMEOUT_S)
    try:
        assert await connection.request("eth_a") == "eth_a"
        node.asked.clear()
        # The one that answered is asked first from now on.
        assert await connection.request("eth_b") == "eth_b" and connection.health.errors["connection"] == 1
    finally:
        await connection.close()


async def test_a_chain_that_is_down_is_told_in_words_of_the_system() -> None:
    connection = Connection("http://127.0.0.1:1")
    try:
        with pytest.raises(EnvironmentFault, match="chain does not answer") as fault:
            await connection.chain_id()
    finally:
        await connection.close()
    assert "Connect call failed" in str(fault.value.actual) and "ssl:" not in str(fault.value)


# How it answers
async def test_an_answer_ends_a_silence(connection: Connection) -> None:
    connection.health.answered_s = before = -5.0
    await connection.request("eth_blockNumber")
    assert connection.health.answered_s > before and not connection.health.errors.total()


async def test_requests_that_fail_are_counted_by_how(node: Node, connection: Connection) -> None:
    connection.health.answered_s = before = -5.0
    node.broken = 10 * ATTEMPTS
    with pytest.raises(EnvironmentFault):
        await connection.request("anvil_mine")
    node.broken, node.status = 0, 503
    with pytest.raises(EnvironmentFault):
        await connection.request("anvil_mine")
    assert +connection.health.errors == {"connection": 1, "http": 1}
    assert connection.health.answered_s == before
    node.status, node.error = 200, True
    with pytest.raises(EnvironmentFault):
        await connection.chain_id()
    assert connection.health.errors["refused"] == 1 and connection.health.answered_s == before


async def test_a_node_that_takes_too_long_is_counted(node: Node) -> None:
    connection = Connection(node.url, timeout_s=0.05)
    node.delay_s = 0.5
    try:
        with pytest.raises(EnvironmentFault):
            await connection.request("anvil_mine")
    finally:
        await connection.close()
    assert +connection.health.errors == {"timeout": 1}


NULL = '{"jsonrpc": "2.0", "id": 1, "result": null}'
BLOCK = dict.fromkeys(("hash", "parentHash"), "0x" + 64 * "1") | {"number": "0x1", "timestamp": "0x1"}
ODD = [
    {"result": {**BLOCK, "hash": None}},
    {"result": {**BLOCK, "baseFeePerGas": None}},
    {"result": {**BLOCK, "number": "1"}},
    {"result": {**BLOCK, "timestamp": 7}},
    {"result": []},
    {},
]


@pytest.mark.parametrize(
    "said", [
        "<html>Please log in to this network</html>", "[]", '"no"', "\ufeff{}", "[" * 100_000,
        '{"result":' + '{"a":' * 100_000, NULL, *map(json.dumps, ODD),
    ],
)  # fmt: skip
async def test_a_node_that_answers_something_else_is_silent(
    node: Node, connection: Connection, said: str
) -> None:
    """A proxy before it shows a page of its own, or a node behind it has no block yet. It is asked again: a
    node of ours that ended there would be silent itself."""
    node.said = said
    with pytest.raises(EnvironmentFault, match="the chain does not answer as it should") as fault:
        await connection.head()
    assert fault.value.retryable
    heads = connection.heads()
    waiting = asyncio.ensure_future(anext(heads))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_null_error_beside_a_result_is_none(node: Node, connection: Connection) -> None:
    node.said = json.dumps({"jsonrpc": "2.0", "id": 1, "error": None, "result": BLOCK})
    assert (await connection.head()).number == 1


async def test_a_chain_without_a_base_fee_has_none(node: Node, connection: Connection) -> None:
    node.said = json.dumps({"result": BLOCK | {"extraData": "0x" + 97 * "ab"}})
    assert (await connection.head()).base_fee_wei == 0


@pytest.mark.parametrize("number", ["[]", "{}", "null", '"0"', "[[0]]"])
async def test_an_answer_to_several_whose_number_is_none_is_no_answer(
    node: Node, connection: Connection, number: str
) -> None:
    node.said = f'[{{"id": {number}, "result": null}}]'
    with pytest.raises(EnvironmentFault, match="NoAnswer") as fault:
        await connection.blocks_of_one([1, 2])
    assert fault.value.retryable


async def test_whatever_reading_an_answer_raises_it_is_no_answer(
    node: Node, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: bytes) -> object:
        raise LookupError(text)

    monkeypatch.setattr("touchstone.protocol.adapters.chain.rpc.decode_json", fail)
    with pytest.raises(EnvironmentFault, match="NoAnswer: the answer cannot be read: LookupError"):
        await connection.head()


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("7", 7.0), (" 7 ", 7.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("", None), ("soon", None),
        ("\u00b2", None), ("2\u00b2", None), ("-1", None), ("Wed, 99 Oct 99999 07:28:00 GMT", None),
    ],
)  # fmt: skip
def test_a_time_to_wait_is_read_or_is_none(text: str, wait_s: float | None) -> None:
    assert read_retry_after(text) == wait_s


@pytest.mark.parametrize("is_packed", [False, True])
async def test_a_long_answer_is_refused_by_its_size_while_it_comes(
    node: Node, connection: Connection, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    """Unpacked it counts: a thousandth may have come. Of logs more may come."""

    def fail(text: bytes) -> object:
        raise AssertionError("decoded")

    node.said, node.is_packed = MOST_BYTES * " " + "[]", is_packed
    monkeypatch.setattr("touchstone.protocol.adapters.chain.rpc.decode_json", fail)
    with pytest.raises(EnvironmentFault, match="an answer of more than"):
        await connection.head()


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 1_000_000, b"[" * 4_000_000, b"[" + b"{}," * 2_000_000 + b"{}]", b'"' + b'\\"' * 1_000_000,
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), b'["\\"]]]]",' + b"[" * MAX_DEPTH,
    ],
    ids=["deep", "deeper", "many parts", "a string without end", "too deep", "deep beside a string"],
)  # fmt: skip
def test_an_answer_is_refused_by_its_parts_and_depth_before_it_is_decoded(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding stops the whole process for as long as it takes: no timeout ends it, no peer is heard."""

    def fail(text: bytes) -> object:
        raise AssertionError("decoded")

    monkeypatch.setattr(msgspec.json, "decode", fail)
    with pytest.raises(ValueError, match="too deep|too many parts"):
        decode_json(text)


def test_an_answer_is_decoded_whatever_its_strings_hold() -> None:
    for value in ["[" * 100, '"[' * 100, "\\" * 101, '\\"' * 99 + "[" * 70, [[["]" * 99]]], {"a\\": ["{"]}]:
        assert decode_json(json.dumps(value).encode()) == value


# Where it is
KEY = "f00dfacecafe"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("http://127.0.0.1:8545/", "http://127.0.0.1:8545"),
        (f"https://rpc.example/v3/{KEY}", "https://rpc.example/..."),
        (f"https://rpc.example:8443/?key={KEY}", "https://rpc.example:8443/..."),
        (f"https://user:{KEY}@rpc.example", "https://rpc.example/..."),
        (f"https://rpc.example/#{KEY}", "https://rpc.example/..."),
        (f"{KEY}", "an invalid address (not shown)"),
        ("", "an invalid address (not shown)"),
    ],
)
def test_a_place_is_named_without_what_may_be_a_key(url: str, place: str) -> None:
    assert name_place(url) == place


@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("is_there", [True, False])
async def test_no_error_tells_the_key_of_a_provider(node: Node, status: int, is_there: bool) -> None:
    """Errors go into logs, and whoever is asked for help gets to see them."""
    url = f"{node.url if is_there else 'http://127.0.0.1:1/'}v3/{KEY}?key={KEY}"
    node.status, node.said = status, "" if status != 200 else "<html>no</html>"
    connection = Connection(url, timeout_s=TIMEOUT_S)
    try:
        with pytest.raises(EnvironmentFault) as fault:
            await connection.chain_id()
    finally:
        await connection.close()
    assert KEY not in "".join(traceback.format_exception(fault.value))
    assert fault.value.where.endswith("/...")


@pytest.mark.parametrize("url", [f"ftp://rpc.example/{KEY}", f"http:///{KEY}", KEY])
async def test_an_address_that_is_none_is_not_told_either(url: str) -> None:
    connection = Connection(url, timeout_s=TIMEOUT_S)
    try:
        with pytest.raises(EnvironmentFault) as fault:
            await connection.chain_id()
    finally:
        await connection.close()
    assert KEY not in "".join(traceback.format_exception(fault.value))
