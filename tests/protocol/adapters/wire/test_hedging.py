"""Several peers are asked for the same: a slow one is not waited for."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import Party, make_tensor, serve_hostile
from touchstone.protocol.adapters.wire import blob_client
from touchstone.protocol.adapters.wire.hedging import ask_in_turn
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault


async def answer(word: str, after_s: float, is_failing: bool = False) -> str:
    await asyncio.sleep(after_s)
    if is_failing:
        raise EnvironmentFault(what=word, expected="an answer", actual="none", remedy="Ask another.")
    return word


def attempt(*arguments: object) -> Callable[[], Awaitable[str]]:
    return partial(answer, *arguments)  # type: ignore[arg-type]


async def test_a_quick_first_one_is_asked_alone() -> None:
    asked = []

    async def second() -> str:
        asked.append(2)
        return "second"

    assert await ask_in_turn([attempt("first", 0.01), second], 5.0) == "first"
    assert not asked


async def test_a_slow_one_is_passed() -> None:
    async with asyncio.timeout(5):
        assert await ask_in_turn([attempt("slow", 60.0), attempt("second", 0.0)], 0.05) == "second"


async def test_a_failed_one_makes_room_at_once() -> None:
    async with asyncio.timeout(5):
        found = await ask_in_turn([attempt("fails", 0.0, True), attempt("second", 0.0)], 60.0)
    assert found == "second"


async def test_the_last_fault_is_told() -> None:
    with pytest.raises(EnvironmentFault, match="second"):
        await ask_in_turn([attempt("first", 0.0, True), attempt("second", 0.01, True)], 0.5)


async def test_a_fault_that_may_pass_is_told_rather_than_another() -> None:
    """Otherwise a peer that lies would keep a node from asking an honest one again."""

    async def lie() -> str:
        raise ProtocolFault(what="a lie", expected="an answer", actual="none", remedy="Ask another.")

    with pytest.raises(EnvironmentFault, match="busy"):
        await ask_in_turn([attempt("busy", 0.0, True), lie], 60.0)


async def test_a_blob_comes_past_a_peer_that_drips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that shows its pseudo-gradient as slowly as it may would keep it from the merge; others have
    it."""
    monkeypatch.setattr(blob_client, "PAUSE_S", 0.2)
    slow, honest, node = (Party(tmp_path / name, seed) for seed, name in enumerate("abc", 1))
    data, ref = make_tensor(1000)
    honest.store.put(ref, data)

    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = len(data)
        await response.prepare(request)
        for at in range(len(data)):
            await response.write(data[at : at + 1])
            await asyncio.sleep(0.1)
        return response

    async with (
        serve_hostile(slow, drip) as first,
        honest.serve() as second,
        node.make_client() as asking,
        asyncio.timeout(10),
    ):
        await asking.fetch_from_any([first, second], ref)
    assert node.store.get(ref) == data
