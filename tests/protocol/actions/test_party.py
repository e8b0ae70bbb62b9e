"""Opening a party on a real chain: its endpoint is announced where it changed, and it answers there."""

from dataclasses import replace
from pathlib import Path

import pytest

from protocol.actions.join import catch_up
from protocol.actions.party import JOURNAL_FILE, SCRATCH_FOLDER, open_party
from protocol.compute.determinism import name_hardware
from protocol.compute.room import LARGE_BYTES, allocate, use_room
from protocol.spec.errors import EnvironmentFault
from scripts.devnet import claim_port
from tests.e2e.world import open_world


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
            expected = {"account": node.account, "processed_block": 0, "waiting_for_block": 12}
            assert status == {**expected, "hardware": name_hardware(), "reports": []}

        # The same home at the same address: nothing to announce. Another address: announced anew.
        async with open_party(config) as node:
            head = (await node.chain.head()).number
            assert not await node.chain.read_events(announced.block_number + 2, head)
        async with open_party(replace(config, public_url="https://example.org:1")) as node:
            assert (await node.chain.registry.peer_of(node.account)).url == "https://example.org:1"


async def test_a_home_is_open_once(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node"]) as world:
        config = world.configure("node")
        async with open_party(config):
            with pytest.raises(EnvironmentFault, match=JOURNAL_FILE):
                async with open_party(config):
                    pass


async def test_a_party_with_little_memory_keeps_large_tensors_in_files(tmp_path: Path) -> None:
    async with open_world(tmp_path, ["node"]) as world:
        config = replace(world.configure("node"), memory_mb=100)
        async with open_party(config):
            tensor = allocate(LARGE_BYTES)
        use_room(None)
        assert f"{config.home / SCRATCH_FOLDER}/" in Path("/proc/self/maps").read_text()
        assert tensor.numel() == LARGE_BYTES
