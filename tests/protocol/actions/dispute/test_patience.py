"""A claimant is waited for until a block, and then what it shows has ended."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.dispute.patience import BlocksLeft, start_waiting, wait_for
from protocol.spec.errors import EnvironmentFault

PARTY = cast(Any, SimpleNamespace(state=SimpleNamespace(head_block=10)))


async def test_what_is_shown_before_the_block_is_given_on() -> None:
    async def show() -> int:
        return 7

    assert await wait_for(PARTY, 11, show()) == 7


async def test_at_the_block_the_asking_has_ended() -> None:
    ended = asyncio.Event()

    async def trickle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(EnvironmentFault, match="too slowly"):
        await wait_for(PARTY, 10, trickle())
    assert ended.is_set()


async def test_patience_for_several_things_is_that_for_one() -> None:
    """Blocks that pass while one is waited for are gone for the next; `until` counts as well."""
    party: Any = SimpleNamespace(state=SimpleNamespace(head_block=10))
    patience = BlocksLeft(5)

    async def show() -> int:
        party.state.head_block += 3
        return 7

    assert await patience.wait(party, 99, show()) == 7
    assert patience.blocks == 2
    party.state.head_block += 50  # What the node does meanwhile is its own time.
    assert await patience.wait(party, 99, show()) == 7
    assert patience.blocks == 0
    with pytest.raises(EnvironmentFault, match="too slowly"):
        await patience.wait(party, 99, asyncio.Event().wait())
    with pytest.raises(EnvironmentFault, match="too slowly"):
        await BlocksLeft(9).wait(party, party.state.head_block, asyncio.Event().wait())


@pytest.mark.parametrize(("until", "expected"), [(9, 11), (10, 11), (12, 12)])
def test_a_node_that_was_down_waits_one_block(until: int, expected: int) -> None:
    assert start_waiting(PARTY, until) == expected
