"""The chain as a role sees it: the contracts, the head, the events; nothing of JSON-RPC."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocol.adapters.chain.connection import POLL_S, Connection, Head, check_deployment
from protocol.adapters.chain.contract import Contract
from protocol.adapters.chain.deployment import Addresses, Deployment
from protocol.adapters.chain.erc20 import ERC20_ABI
from protocol.adapters.chain.logs import Batch, Event, EventReader, Follower
from protocol.adapters.chain.randomness import Randomness
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
        start = self._deploy_block if from_block is None else from_block
        return Follower(self.connection, self._reader, start).batches()

    async def recover(self, *, is_alone: bool = True) -> int:
        """After a crash, before anything is sent: wait for what was sent earlier; return how many that were.
        is_alone: no other process of this account runs, so what is stuck may be replaced."""
        return await self._sender.recover(is_alone=is_alone) if self._sender else 0


class Chain(ChainClient):
    """One deployment on one chain. Without a signer it only reads. Make one with `open_chain`."""

    def __init__(self, connection: Connection, deployment: Deployment, sender: Sender | None) -> None:
        super().__init__(connection, deployment, sender)
        self.deployment = deployment
        tools = (connection, sender, self._reader)
        self.token = Contract("IERC20", deployment.token, *tools, entries=ERC20_ABI)
        self.vault = Contract("StakeVault", deployment.vault, *tools)
        self.registry = Contract("TaskRegistry", deployment.registry, *tools)
        self.ledger = Contract("RoundLedger", deployment.ledger, *tools)
        self.audit_book = Contract("AuditBook", deployment.audit_book, *tools)
        self.dispute_game = Contract("DisputeGame", deployment.dispute_game, *tools)
        self.outer_contest = Contract("OuterContest", deployment.outer_contest, *tools)
        self.referee = Contract("Referee", deployment.referee, *tools)
        self.randomness = Randomness("Randomness", deployment.randomness, *tools)


@asynccontextmanager
async def open_chain(
    rpc_url: str,
    deployment: Deployment,
    signer: Signer | None = None,
    *,
    poll_s: float = POLL_S,
    patience: Patience | None = None,
    is_alone: bool = True,
) -> AsyncIterator[Chain]:
    """Connect, check that the chain is the deployment's and has its contracts, and wait for earlier
    transactions of `signer` (is_alone: see `Chain.recover`). Raises EnvironmentFault (no chain) and
    InvalidInput (another chain, no code)."""
    connection = Connection(rpc_url, poll_s)
    try:
        sender = await make_sender(connection, deployment, signer, patience)
        chain = Chain(connection, deployment, sender)
        await chain.recover(is_alone=is_alone)
        yield chain
    finally:
        await connection.close()


async def make_sender(
    connection: Connection, deployment: Addresses, signer: Signer | None, patience: Patience | None
) -> Sender | None:
    """Check that the chain is the deployment's and has its contracts; what sends there, None without a
    signer."""
    await check_deployment(connection, deployment)
    return Sender(connection, signer, deployment.chain_id, patience or Patience()) if signer else None
