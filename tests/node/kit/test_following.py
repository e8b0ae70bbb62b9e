"""How a node follows the chain: a batch is folded once, by one reader; a wrong fold is made anew."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from touchstone.node.kit.config import Status
from touchstone.node.kit.following import Following
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.spec.errors import EnvironmentFault


class FoldedState:
    """Folds numbers; 13 cannot be folded behind others."""

    def __init__(self) -> None:
        self.folded = list[int]()
        self.head_block = 0

    def take(self, batch: Any) -> None:
        number = batch.head.number
        if self.folded and number == 13:
            raise KeyError(number)
        self.folded.append(number)
        self.head_block = number

    def forget_all(self) -> None:
        self.folded.clear()


def follow(queue: "asyncio.Queue[int]", *anew: int) -> tuple[Following, Any]:
    """What follows the numbers of a queue; behind these where all is read again."""

    async def read(*first: int) -> AsyncIterator[Any]:
        for number in first:
            yield SimpleNamespace(head=SimpleNamespace(number=number))
        while True:
            yield SimpleNamespace(head=SimpleNamespace(number=await queue.get()))

    chain: Any = SimpleNamespace(note=lambda head: None, follow=lambda **_: read(*anew))
    state: Any = FoldedState()
    return Following(chain, state, Status("0x"), cast(Any, read())), state


async def test_who_stops_following_leaves_the_next_batch_to_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A node that got no seat, and follows on without one."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    following, state = follow(queue)
    keeping = asyncio.create_task(following.keep_up())
    await queue.put(1)
    await asyncio.sleep(0.01)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await queue.put(2)
    async with asyncio.timeout(5):
        await following.take_next()
    assert state.folded == [1, 2] and not caplog.records
    following.stop_reading()


async def test_who_catches_up_folds_until_the_newest_block_is_of_now() -> None:
    """What an account has done last stands in blocks that a provider which is behind does not show."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    following, state = follow(queue)

    async def pass_through() -> None:
        if state.head_block < 2:
            raise GateShut(what="nothing is signed now", expected="", actual="it is old", remedy="")

    cast(Any, following.chain).gate = SimpleNamespace(pass_through=pass_through, reason="it is old")
    catching_up = asyncio.create_task(following.catch_up(lambda line: None))
    await queue.put(1)
    done, _ = await asyncio.wait({catching_up}, timeout=0.1)
    assert state.folded == [1] and not done
    await queue.put(2)
    async with asyncio.timeout(5):
        await catching_up
    assert state.folded == [1, 2]
    following.stop_reading()


async def test_a_batch_that_cannot_be_folded_has_all_read_anew_before_the_loop_too() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()
    following, state = follow(queue, 14)
    keeping = asyncio.create_task(following.keep_up())
    for number in (1, 13, 15):
        await queue.put(number)
        await asyncio.sleep(0.01)
    assert state.folded == [14, 15] and following.meter.refolds == 1
    await queue.put(13)
    with pytest.raises(EnvironmentFault, match="cannot use the chain that it has read"):
        async with asyncio.timeout(5):
            await keeping
    following.stop_reading()
