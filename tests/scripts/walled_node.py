"""A peer, or a doctor at a node's home, as a process inside a network namespace.

`python -m tests.scripts.walled_node peer|node FOLDER`. Both know each other's endpoint, as from the chain.
The doctor looks once for each line that it reads. Each time the peer takes a minute for gone.
"""

import asyncio
import json
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.protocol.adapters.parties import DOMAIN, Party, make_key
from touchstone.node.kit.chain_state import Network
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.doctor.endpoint_checks import check_reach
from touchstone.scripts.doctor.patient import Patient
from touchstone.scripts.doctor.peer_checks import check_peers
from touchstone.scripts.home.home_config import HomeConfig

NODE, PEER = 1, 2
ADDRESSES = {NODE: "10.77.0.1", PEER: "10.77.0.2"}
PORT = 8443


def read_network(folder: Path) -> Network:
    """The endpoints of both."""
    network = Network()
    for seed, address in ADDRESSES.items():
        fingerprint = load_or_create_identity(make_home(folder, seed)).fingerprint
        network.announce(make_key(seed).address.lower(), f"https://{address}:{PORT}", fingerprint)
    return network


def make_home(folder: Path, seed: int) -> Path:
    """Where the certificate of a party lies."""
    home = folder / str(seed) / "tls"
    home.mkdir(parents=True, exist_ok=True)
    return home


async def serve_peer(folder: Path) -> None:
    """Answer, until standard input ends."""
    party = Party(folder / str(PEER), PEER)
    state: Any = SimpleNamespace(network=read_network(folder))
    minutes = count(0, 60)
    probe = ReachabilityProbe(state, party.account, lambda account: False, lambda: next(minutes))
    party.handlers = probe.make_handlers()
    server = party.make_server()
    await server.start(ADDRESSES[PEER], PORT)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()


async def examine_node(folder: Path) -> dict[str, str]:
    """What the doctor finds of the endpoint: from the own machine, and from the peer."""
    key, home = make_key(NODE), make_home(folder, NODE)
    config = HomeConfig(
        "http://127.0.0.1:1", "none", account=key.address, listen_host=ADDRESSES[NODE], listen_port=PORT
    )
    network = read_network(folder)
    state: Any = SimpleNamespace(network=network, games={}, is_staked=lambda account: False)
    chain: Any = SimpleNamespace(signing=DOMAIN)
    patient = Patient(home, config=config, key=key, chain=chain, state=state)
    found = {"reach": await check_reach(patient)}
    try:
        found["peers"] = await check_peers(patient)
    except EnvironmentFault as fault:
        found["fault"], found["actual"] = fault.what, str(fault.actual)
    return found


if __name__ == "__main__":
    part, place = sys.argv[1], Path(sys.argv[2])
    if part == "peer":
        asyncio.run(serve_peer(place))
    else:
        for _ in sys.stdin:
            print(json.dumps(asyncio.run(examine_node(place))), flush=True)
