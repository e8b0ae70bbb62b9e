"""A node meets the deployed referee before it stakes: the contract itself, and others put in its place."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from node.submit import create_task
from protocol.actions.join import catch_up, join_task
from protocol.actions.party import Party, open_party
from protocol.spec.errors import InvalidInput
from tests.e2e.world import TINY_PLAN, World, make_dataset, open_world

CHECKED = "verifier: checked one step: all inside the bounds, and the referee judges 20 kinds of operations"
ALWAYS_FAULT, NEVER_FAULT = "0x600160005260206000f3", "0x600060005260206000f3"
"""return(1) and return(0)."""
REFUSES, NOBODY = "0x60006000fd", "0x"


@asynccontextmanager
async def open_newcomer(world: World) -> AsyncIterator[Party]:
    """A verifier that has caught up with a chain with one task, whose submitter is there."""
    async with open_party(world.configure("submitter")) as submitter:
        world.task = await create_task(submitter, TINY_PLAN, make_dataset(), bytes(32))
        await catch_up(submitter)
        async with open_party(world.configure("verifier")) as party:
            await catch_up(party)
            yield party


async def test_the_deployed_referee_judges_as_nodes_do_and_another_is_refused(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["verifier"]) as world, open_newcomer(world) as party:
        connection, address = party.chain.connection, world.deployment.referee
        right = "0x" + (await connection.code_at(address)).hex()
        for code, words in {
            ALWAYS_FAULT: "expected no fault for an honest element, got a fault",
            NEVER_FAULT: "expected a fault for a spoiled element, got no fault",
            REFUSES: "got a refusal",
            NOBODY: "got no verdict",
        }.items():
            await connection.request("anvil_setCode", address, code)
            with pytest.raises(InvalidInput, match=f"does not judge as this node does.*{words}"):
                await join_task(party, world.task)
            assert party.task == b"" and not any(line.startswith(CHECKED) for line in world.lines)
        await connection.request("anvil_setCode", address, right)
        await asyncio.wait_for(join_task(party, world.task), timeout=600)
        assert party.task == world.task and any(line.startswith(CHECKED) for line in world.lines)
