"""Opening a party on a real chain: its endpoint is announced where it changed, and it answers there."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.actions.join import catch_up
from protocol.actions.party import open_party
from protocol.actions.runtime.config import JOURNAL_FILE, SCRATCH_FOLDER
from protocol.adapters.chain import open_chain
from protocol.adapters.wire.answers import NodeStatus
from protocol.compute.determinism import name_hardware
from protocol.compute.room import LARGE_BYTES, allocate, use_room
from protocol.spec.errors import EnvironmentFault, InvalidInput
from scripts.devnet import claim_port
from tests.e2e.world import World, open_world


async def test_a_party_announces_itself_once_and_answers(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node", "peer"]) as world:
        config = replace(world.configure("node"), listen_port=claim_port(0))
        async with open_party(config) as node:
            [announced] = [
                event
                for event in await node.chain.read_events(0, (await node.chain.head()).number)
                if event.name == "Announced"
            ]
            assert announced.arguments["url"] == f"https://127.0.0.1:{config.listen_port}"
            async with open_party(world.configure("peer")) as peer:
                await catch_up(peer)
                node.status.waiting_for_block = 12
                status = await peer.client.get_status(peer.view.network.find(node.account))
            assert status == NodeStatus(node.account, 0, 12, name_hardware())

        # The same home at the same address: nothing to announce. Another address: announced anew.
        async with open_party(config) as node:
            head = (await node.chain.head()).number
            assert not await node.chain.read_events(announced.block_number + 2, head)
        async with open_party(replace(config, public_url="https://example.org:1")) as node:
            assert (await node.chain.registry.peer_of(node.account)).url == "https://example.org:1"


async def list_announced(world: World) -> list[str]:
    async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
        events = await chain.read_events(0, (await chain.head()).number)
    return [event.arguments["url"] for event in events if event.name == "Announced"]


UNUSABLE: list[dict[str, Any]] = [
    {"listen_host": "0.0.0.0"},
    {"listen_host": "::"},
    {"listen_host": ""},
    {"public_url": "https://0.0.0.0:8443"},
    {"public_url": "http://node.example"},
]


async def test_an_endpoint_that_no_peer_can_use_is_never_announced(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node"]) as world:
        for changes in UNUSABLE:
            with pytest.raises(InvalidInput, match="--public-url"):
                async with open_party(replace(world.configure("node"), **changes)):
                    pass
        assert not await list_announced(world)
        assert not list((tmp_path / "node").iterdir()), "nothing was begun"


def has_version_six() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_version_six(), reason="this machine has no address of version six")
async def test_a_party_listens_on_an_address_of_version_six(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node", "peer"]) as world:
        config = replace(world.configure("node"), listen_host="::1")
        async with open_party(config) as node, open_party(world.configure("peer")) as peer:
            await catch_up(peer)
            found = peer.view.network.find(node.account)
            assert found.url.startswith("https://[::1]:")
            assert (await peer.client.get_status(found)).account == node.account


async def test_a_home_is_open_once(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node"]) as world:
        config = world.configure("node")
        async with open_party(config):
            # The second one has not even looked at the chain: it would replace what the first one has sent.
            with pytest.raises(EnvironmentFault, match=JOURNAL_FILE):
                async with open_party(replace(config, rpc_url="http://127.0.0.1:1")):
                    pass


async def test_the_journal_of_another_account_is_refused(tmp_path: Path) -> None:
    """As after `cp -r` of a home and a new key: it would commit to what another account has trained."""
    async with open_world(tmp_path, ["node", "peer"]) as world:
        config = world.configure("node")
        for _ in range(2):
            async with open_party(config):
                pass
        with pytest.raises(InvalidInput, match="another account's"):
            async with open_party(replace(config, key=world.configure("peer").key)):
                pass
        assert len(await list_announced(world)) == 2


async def test_a_party_with_little_memory_keeps_large_tensors_in_files(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node"]) as world:
        config = replace(world.configure("node"), memory_mb=100)
        async with open_party(config):
            tensor = allocate(LARGE_BYTES)
        use_room(None)
        assert f"{config.home / SCRATCH_FOLDER}/" in Path("/proc/self/maps").read_text()
        assert tensor.numel() == LARGE_BYTES
