"""The chain's failures in our words, and its head as it moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from tests.protocol.adapters.anvil import TestChain, run_test_chain
from touchstone.protocol.adapters.chain import connection as module
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import GameDeployment
from touchstone.protocol.adapters.chain.endpoint_health import NoAnswer, RpcHealth
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.scripts.network.devnet import claim_port


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


async def test_no_chain_is_said_with_its_url(net: TestChain) -> None:
    url = f"http://127.0.0.1:{claim_port(0)}"
    with pytest.raises(EnvironmentFault, match="a chain that answers") as fault:
        async with open_game_chain(url, net.chain.deployment):
            pass
    assert fault.value.where == url and "touchstone devnet" in fault.value.remedy
    assert fault.value.retryable


async def test_another_chain_is_refused(net: TestChain) -> None:
    other = replace(net.chain.deployment, chain_id=1)
    with pytest.raises(InvalidInput, match="expected chain id 1, got chain id 31337"):
        async with open_game_chain(net.rpc_url, other):
            pass


EMPTY = "0x" + 40 * "7"


@pytest.mark.parametrize(
    "change",
    [
        lambda found: replace(found, token=EMPTY),
        lambda found: replace(found, vault=EMPTY),
        lambda found: replace(found, contests=EMPTY),
    ],
)
async def test_an_address_without_code_is_refused(
    net: TestChain, change: Callable[[GameDeployment], GameDeployment]
) -> None:
    with pytest.raises(InvalidInput, match=f"expected code at {EMPTY}, got none"):
        async with open_game_chain(net.rpc_url, change(net.chain.deployment)):
            pass


async def test_a_contract_of_another_version_is_said(net: TestChain) -> None:
    # The token stands at the tasks' address here; it has no such view.
    with pytest.raises(InvalidInput, match="Unknown"):
        await net.chain.game.bounds()


async def test_heads_come_when_they_change(net: TestChain) -> None:
    heads = net.chain.heads()
    first = await anext(heads)
    second = asyncio.ensure_future(anext(heads))
    await net.anvil("anvil_mine", 1)
    assert (await second).parent_hash == first.block_hash
    assert (await second).number == first.number + 1


async def test_a_reorg_at_the_same_height_is_a_new_head(net: TestChain) -> None:
    await net.anvil("anvil_mine", 2)
    heads = net.chain.heads()
    first = await anext(heads)
    second = asyncio.ensure_future(anext(heads))
    await net.anvil("anvil_reorg", 1, [])
    assert (await second).number == first.number and (await second).block_hash != first.block_hash


async def test_waiting_for_a_block_ends_at_it(net: TestChain) -> None:
    number = (await net.chain.head()).number
    waiting = asyncio.ensure_future(net.chain.wait_for_block(number + 3))
    await net.anvil("anvil_mine", 2)
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await net.anvil("anvil_mine", 1)
    assert (await waiting).number == number + 3
    assert (await net.chain.wait_for_block(1)).number >= 1


async def test_a_silent_chain_is_asked_again(net: TestChain, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = Connection.head, [EnvironmentFault(what="x", expected="", actual="", remedy="")] * 3

    async def fail_first(self: Connection) -> Head:
        if failures:
            raise failures.pop()
        return await real(self)

    monkeypatch.setattr(Connection, "head", fail_first)
    assert (await anext(net.chain.heads())).number > 0
    failures.extend([EnvironmentFault(what="x", expected="", actual="", remedy="")] * 3)
    monkeypatch.setattr(module, "GRACE_S", -1.0)
    with pytest.raises(EnvironmentFault):
        await anext(net.chain.heads())


async def test_a_request_that_the_chain_does_not_know_is_said(net: TestChain) -> None:
    with pytest.raises(EnvironmentFault, match="anvil_nonsense") as fault:
        await net.anvil("anvil_nonsense")
    assert not fault.value.retryable


def test_an_error_is_counted_by_its_kind_from_zero_on() -> None:
    """A counter that begins with its first error hides it."""
    health = RpcHealth()
    kinds = ("timeout", "http", "malformed", "refused", "connection", "busy", "behind")
    assert health.errors == dict.fromkeys(kinds, 0)
    refused, busy, behind = (ProviderError(kind, "no") for kind in (Kind.REFUSED, Kind.BUSY, Kind.BEHIND))
    for error in (
        TimeoutError(),
        refused,
        busy,
        behind,
        NoAnswer(),
        OSError(),
        aiohttp.ClientConnectionError(),
    ):
        health.note_error(error)
    assert +health.errors == {
        "timeout": 1, "refused": 1, "busy": 1, "behind": 1, "malformed": 1, "connection": 2,
    }  # fmt: skip
