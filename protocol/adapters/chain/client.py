"""The chain as a role sees it, whatever stands there: the head, the events; nothing of JSON-RPC."""

from collections.abc import AsyncIterator

from protocol.adapters.chain.connection import Connection, Head, check_deployment
from protocol.adapters.chain.deployment import Addresses
from protocol.adapters.chain.logs import Batch, Event, EventReader, Follower
from protocol.adapters.chain.transactions import Patience, Sender, Signer


class ChainClient:
    """The chain and the events of one deployment on it, whichever contracts these are. Without a sender it
    only reads."""

    def __init__(self, connection: Connection, deployment: Addresses, sender: Sender | None) -> None:
        self.connection = connection
        self._sender = sender
        self._reader = EventReader(connection, deployment)
        self._deploy_block = deployment.deploy_block

    @property
    def address(self) -> str:
        """The signing account, lower-case `0x`; empty when reading only."""
        return self._sender.address if self._sender else ""

    @property
    def mined_block(self) -> int:
        """The latest block that is known to hold a transaction of this account; 0 before the first."""
        return self._sender.mined_block if self._sender else 0

    async def head(self) -> Head:
        """The latest block."""
        return await self.connection.head()

    def heads(self) -> AsyncIterator[Head]:
        """The latest block now and whenever it changes; see Connection.heads."""
        return self.connection.heads()

    async def wait_for_block(self, number: int) -> Head:
        """Wait until the head is at `number` or later."""
        return await self.connection.wait_for_block(number)

    async def read_events(self, from_block: int, to_block: int) -> list[Event]:
        """Events of the contracts in the blocks [from_block, to_block], in order."""
        return await self._reader.read(from_block, to_block)

    def follow(self) -> AsyncIterator[Batch]:
        """All events from the deployment on, then those of each new head, for ever. A batch with
        `forget_from` tells of a reorg."""
        return Follower(self.connection, self._reader, self._deploy_block).batches()

    async def recover(self, *, is_alone: bool = True) -> int:
        """After a crash, before anything is sent: wait for what was sent earlier; return how many that were.
        is_alone: no other process of this account runs, so what is stuck may be replaced."""
        return await self._sender.recover(is_alone=is_alone) if self._sender else 0


async def make_sender(
    connection: Connection, deployment: Addresses, signer: Signer | None, patience: Patience | None
) -> Sender | None:
    """Check that the chain is the deployment's and has its contracts; what sends there, None without a
    signer."""
    await check_deployment(connection, deployment)
    return Sender(connection, signer, deployment.chain_id, patience or Patience()) if signer else None
