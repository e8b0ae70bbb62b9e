"""The chain as a role sees it: a proxy per contract, the head, the events; nothing of JSON-RPC."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocol.adapters.chain.audit_book import AuditBook
from protocol.adapters.chain.connection import POLL_S, Connection, Head, check_deployment
from protocol.adapters.chain.deployment import Deployment
from protocol.adapters.chain.disputes import DisputeGame, OuterContest
from protocol.adapters.chain.ledger import RoundLedger
from protocol.adapters.chain.logs import Batch, Event, EventReader, Follower
from protocol.adapters.chain.randomness import Randomness
from protocol.adapters.chain.referee import Referee
from protocol.adapters.chain.registry import TaskRegistry
from protocol.adapters.chain.transactions import Patience, Sender, Signer
from protocol.adapters.chain.vault import StakeVault, Token


class Chain:
    """One deployment on one chain. Without a signer it only reads. Make one with `open_chain`."""

    def __init__(self, connection: Connection, deployment: Deployment, sender: Sender | None) -> None:
        self.deployment = deployment
        self.connection = connection
        self._sender = sender
        self._reader = reader = EventReader(connection, deployment)
        self.token = Token(connection, sender, reader, deployment.token)
        self.vault = StakeVault(connection, sender, reader, deployment.vault)
        self.registry = TaskRegistry(connection, sender, reader, deployment.registry)
        self.ledger = RoundLedger(connection, sender, reader, deployment.ledger)
        self.audit_book = AuditBook(connection, sender, reader, deployment.audit_book)
        self.dispute_game = DisputeGame(connection, sender, reader, deployment.dispute_game)
        self.outer_contest = OuterContest(connection, sender, reader, deployment.outer_contest)
        self.referee = Referee(connection, sender, reader, deployment.referee)
        self.randomness = Randomness(connection, sender, reader, deployment.randomness)

    @property
    def address(self) -> str:
        """The signing account, lower-case `0x`; empty when reading only."""
        return self._sender.address if self._sender else ""

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

    def follow(self, from_block: int | None = None) -> AsyncIterator[Batch]:
        """All events from `from_block` (default: the deployment's) on, then those of each new head, for ever.
        A batch with `forget_from` tells of a reorg."""
        start = self.deployment.deploy_block if from_block is None else from_block
        return Follower(self.connection, self._reader, start).batches()

    async def recover(self) -> int:
        """After a crash, before anything is sent: wait for what was sent earlier; return how many that
        were."""
        return await self._sender.recover() if self._sender else 0


@asynccontextmanager
async def open_chain(
    rpc_url: str,
    deployment: Deployment,
    signer: Signer | None = None,
    *,
    poll_s: float = POLL_S,
    patience: Patience | None = None,
) -> AsyncIterator[Chain]:
    """Connect, check that the chain is the deployment's and has its contracts, and wait for earlier
    transactions of `signer`. Raises EnvironmentFault (no chain) and InvalidInput (another chain, no code)."""
    connection = Connection(rpc_url, poll_s)
    try:
        await check_deployment(connection, deployment)
        sender = Sender(connection, signer, deployment.chain_id, patience or Patience()) if signer else None
        chain = Chain(connection, deployment, sender)
        await chain.recover()
        yield chain
    finally:
        await connection.close()
