"""Listens where a node announces itself, and answers probes of its endpoint."""

import asyncio
from contextlib import AsyncExitStack, suppress

from touchstone.node.kit.party import Party
from touchstone.protocol.adapters.wire.endpoint_urls import choose_endpoint
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.adapters.wire.tls_identity import TlsIdentity
from touchstone.protocol.spec.errors import EnvironmentFault

LISTEN_S = 60.0
"""Between two tries to listen."""


async def be_reached(
    party: Party, server: BlobServer, identity: TlsIdentity, stack: AsyncExitStack, *, is_held: bool
) -> None:
    """Listen where the home says until `stack` is closed, and say on chain where. is_held: the party has a
    seat already, or a bond. Then it goes on where its port is taken or the gas cannot be paid, and tries
    again: silence in a game costs more. Raises EnvironmentFault for any other party."""
    stack.push_async_callback(server.stop)
    try:
        await _listen(party, server, identity)
    except EnvironmentFault as fault:
        if not is_held:
            raise
        party.say(f"WARNING: {fault} Going on, for there is a seat already, or a bond. No peer reaches it.")
        stack.callback(asyncio.create_task(_listen_later(party, server, identity)).cancel)


async def _listen(party: Party, server: BlobServer, identity: TlsIdentity) -> None:
    chain, config = party.chain, party.config
    try:
        port = await server.start(config.listen_host, config.listen_port)
        url = choose_endpoint(config.listen_host, port, config.public_url)
        announced = await chain.tasks.peer_of(chain.address)
        if (announced.url, announced.certificate_sha256) != (url, identity.fingerprint):
            await chain.tasks.announce(url, identity.fingerprint)
    except EnvironmentFault:
        await server.stop()
        raise


async def _listen_later(party: Party, server: BlobServer, identity: TlsIdentity) -> None:
    is_reached = False
    while not is_reached:
        await asyncio.sleep(LISTEN_S)
        with suppress(EnvironmentFault):
            await _listen(party, server, identity)
            is_reached = True
    party.say("peers reach this node again")
