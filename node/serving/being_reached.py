"""Listens at a node's announced endpoint, and answers probes of it."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from touchstone.node.kit.config import Notify
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.wire.endpoint_urls import choose_endpoint
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.adapters.wire.tls_identity import TlsIdentity
from touchstone.protocol.spec.errors import EnvironmentFault

LISTEN_S = 60.0
"""Seconds between two attempts to listen."""


@dataclass(frozen=True)
class OwnEndpoint:
    """The address where a node listens, and the one that it announces."""

    chain: GameChain
    host: str
    port: int
    public_url: str
    notify: Notify

    async def be_reached(
        self, server: BlobServer, identity: TlsIdentity, stack: AsyncExitStack, *, is_held: bool
    ) -> None:
        """Listens as the home says until `stack` is closed, and announces the endpoint on chain. `is_held`
        says that the account already has a seat or a bond. Such a node goes on and tries again if its port is
        taken or the gas cannot be paid, because silence in a game costs more. Any other node gets
        EnvironmentFault."""
        stack.push_async_callback(server.stop)
        try:
            await self._listen(server, identity)
        except EnvironmentFault as fault:
            if not is_held:
                raise
            self.notify(
                f"WARNING: {fault} No peer reaches the node. It goes on, because it has a seat or a bond."
            )
            stack.callback(asyncio.create_task(self._listen_later(server, identity)).cancel)

    async def _listen(self, server: BlobServer, identity: TlsIdentity) -> None:
        chain = self.chain
        try:
            port = await server.start(self.host, self.port)
            url = choose_endpoint(self.host, port, self.public_url)
            announced = await chain.game.peer_of(chain.address)
            if (announced.url, announced.certificate_sha256) != (url, identity.fingerprint):
                await chain.game.announce(url, identity.fingerprint)
        except EnvironmentFault:
            await server.stop()
            raise

    async def _listen_later(self, server: BlobServer, identity: TlsIdentity) -> None:
        is_reached = False
        while not is_reached:
            await asyncio.sleep(LISTEN_S)
            with suppress(EnvironmentFault):
                await self._listen(server, identity)
                is_reached = True
        self.notify("peers reach this node again")
