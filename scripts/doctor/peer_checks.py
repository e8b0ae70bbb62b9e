"""Asks peers whether they reach the endpoint of a home's node."""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from touchstone.node.joining.reachability import (
    SeenBy,
    ask_peers,
    describe_seen,
    list_askable,
    make_unreached,
)
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.endpoint_urls import ANY_PORT, choose_endpoint, find_own_host
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.reach_messages import Reach
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.storage_reader import TLS_PORT
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.scripts.account.sending import is_node_running
from touchstone.scripts.account.task_names import show_seat, show_task
from touchstone.scripts.doctor.endpoint_checks import listen_as_node
from touchstone.scripts.doctor.patient import NotTested, Patient


async def check_peers(patient: Patient) -> str:
    """Checks that peers reach this account's announced endpoint. Asks up to three of them."""
    config, state = patient.get_config(), patient.get_state()
    own = state.network.peers.get(config.account.lower())
    if own is None:
        raise NotTested("no endpoint of this account is announced: the node does that when it starts")
    if patient.key is None:
        raise NotTested("the key is locked, and peers answer signed questions: name a password file")
    if is_node_running(patient.home):
        port = urlsplit(own.url).port if config.listen_port == ANY_PORT else config.listen_port
        return await _ask_peers(patient, patient.key, own, port or TLS_PORT)
    if config.listen_port == ANY_PORT:
        raise NotTested("a node takes a free port at each start: ask again while it runs")
    async with listen_as_node(patient) as port:
        return await _ask_peers(patient, patient.key, own, port)


async def _ask_peers(patient: Patient, key: AccountKey, own: Peer, port: int) -> str:
    config, identity = patient.get_config(), load_or_create_identity(patient.home)
    url = choose_endpoint(config.listen_host, port, config.public_url)
    if (own.url, own.fingerprint) != (url, identity.fingerprint):
        raise NotTested(
            f"announced is {own.url} with {own.fingerprint.hex()[:8]}, this home has {url} with "
            f"{identity.fingerprint.hex()[:8]}: the node announces its own when it starts"
        )
    waiting = list_askable(patient.get_state(), own, patient.task)
    if not waiting:
        raise NotTested("nobody could be asked: no other account has announced an endpoint")
    with tempfile.TemporaryDirectory() as folder:
        signer, store = RequestSigner(key, patient.get_chain().signing), BlobStore(Path(folder) / "blobs")
        own_host = find_own_host(config.listen_host, config.public_url)
        async with BlobClient(store, signer, own_host=own_host) as client:
            seen = await ask_peers(client, waiting, own, partial(describe_peer, patient))
    return judge_reach(own.url, seen)


def describe_peer(patient: Patient, peer: Peer) -> str:
    """Describes a peer: its address, and its seat."""
    games = patient.get_state().games
    named = [patient.task] if patient.task is not None else []
    for task in [*named, *games]:
        seat = find_seat(games[task], peer.account)
        if seat is not None:
            return f"{peer.account[:10]} at {peer.url} ({show_seat(seat)} of {show_task(task)})"
    return f"{peer.account[:10]} at {peer.url} (without a seat)"


def judge_reach(url: str, seen: Sequence[SeenBy]) -> str:
    """Describes what peers saw. Raises EnvironmentFault if one of them does not reach this node, NotTested if
    none could tell."""
    told = describe_seen(seen)
    answers = [one.reach is Reach.REACHED for one in seen if one.reach is not None]
    if not answers:
        raise NotTested(f"no peer that was asked could tell: {told}")
    if all(answers):
        return f"{url}: {told}"
    if any(answers):
        raise EnvironmentFault(
            what="peers disagree: some reach this node, others do not",
            expected="all that were asked reach it",
            actual=told,
            where=url,
            remedy="Ask again in a minute. If the same ones stay out, look for firewall rules by address or "
            "country. If others do, the line or the peers are at fault.",
        )
    raise make_unreached(url, told)
