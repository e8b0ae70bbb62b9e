"""Gives a role the chain and the contracts.

`contracts/game/interfaces` is the manual of each contract.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from touchstone.protocol.adapters.chain.abi import load_abi
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import POLL_S, Connection, check_deployment
from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.contract_events import Event, EventReader
from touchstone.protocol.adapters.chain.deployment import Addresses, GameDeployment
from touchstone.protocol.adapters.chain.erc20 import ERC20_ABI
from touchstone.protocol.adapters.chain.fees import NO_CAP_WEI
from touchstone.protocol.adapters.chain.follower import Follower, LogBatch
from touchstone.protocol.adapters.chain.gate import BLOCK_S, Gate, find_age_fault
from touchstone.protocol.adapters.chain.own_contracts import require_own_contracts
from touchstone.protocol.adapters.chain.randomness import Randomness
from touchstone.protocol.adapters.chain.transaction_queue import TransactionQueue
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender, Signer
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.terms import DeploymentBounds, GameWindows
from touchstone.protocol.spec.typed_data import SigningDomain


class ChainClient:
    """The chain, and the events of one deployment's contracts. Without a sender it only reads."""

    def __init__(self, connection: Connection, deployment: Addresses, sender: Sender | None) -> None:
        self.connection = connection
        self.sender = sender
        self.gate = Gate(connection)
        if sender is not None:
            sender.gate = self.gate.pass_through
        self._reader = EventReader(connection, deployment)
        self._deploy_block = deployment.deploy_block

    @property
    def address(self) -> str:
        """The signing account, lower-case `0x`; empty when reading only."""
        return self.sender.address if self.sender else ""

    @property
    def mined_block(self) -> int:
        """The latest block that is known to hold a transaction of this account; 0 before the first."""
        return self.sender.mined_block if self.sender else 0

    async def head(self) -> Head:
        """Returns the latest block."""
        return await self.connection.head()

    def heads(self) -> AsyncIterator[Head]:
        """Yields the latest block now and whenever it changes; see Connection.heads."""
        return self.connection.heads()

    async def wait_for_block(self, number: int) -> Head:
        """Waits until the head is at `number` or later."""
        return await self.connection.wait_for_block(number)

    async def read_events(self, from_block: int, to_block: int) -> list[Event]:
        """Returns the contracts' events in the blocks from_block .. to_block, both included, in order."""
        return await self._reader.read(from_block, to_block)

    def follow(self, processed: Sequence[Head] = (), grace_s: float | None = None) -> AsyncIterator[LogBatch]:
        """Yields all events from the deployment on, then those of each new head, without end. A batch with
        `forget_from` reports a reorg. `processed` are heads up to which the caller has kept the events;
        reading goes on after the last of them that is still on the chain. `grace_s` is explained in
        `Follower.batches`."""
        follower = Follower(self.connection, self._reader, self._deploy_block, processed)
        return follower.batches(grace_s)

    async def recover(self, *, is_alone: bool = True) -> int:
        """Waits, after a crash and before anything is sent, for transactions that were sent earlier. Returns
        their number. `is_alone` says that no other process of this account runs, so that stuck ones may be
        replaced."""
        return await self.sender.recover(is_alone=is_alone) if self.sender else 0


@dataclass(frozen=True)
class Sending:
    """How one account sends transactions. `queue_path` is the file of the waiting ones (None: in memory).
    `cap_wei` is the most that one gas may cost."""

    resend_policy: ResendPolicy = ResendPolicy()
    queue_path: Path | None = None
    cap_wei: int = NO_CAP_WEI


async def make_sender(
    connection: Connection, deployment: Addresses, signer: Signer | None, sending: Sending
) -> Sender | None:
    """Checks that the chain is the deployment's and has its contracts. Returns a sender for it; None without
    a signer."""
    await check_deployment(connection, deployment)
    if signer is None:
        return None
    queue = TransactionQueue(signer.address.lower(), sending.queue_path)
    return Sender(connection, signer, deployment.chain_id, sending.resend_policy, queue, sending.cap_wei)


class GameChain(ChainClient):
    """The contracts of one deployment. Without a signer it only reads. Make one with `open_game_chain`.
    `signing` is the domain in which signatures are valid; `bounds` say what tasks the deployment allows."""

    bounds: DeploymentBounds

    def __init__(
        self,
        connection: Connection,
        deployment: GameDeployment,
        sender: Sender | None,
    ) -> None:
        super().__init__(connection, deployment, sender)
        self.deployment = deployment
        self._are_own = False
        self.signing = SigningDomain(deployment.chain_id, deployment.game)
        self._tools = tools = (connection, sender, self._reader)
        self.token = Contract("IERC20", deployment.token, *tools, entries=ERC20_ABI)
        self.vault = Contract("Vault", deployment.vault, *tools)
        self.game = Contract("Game", deployment.game, *tools)
        self.shares = Contract("Shares", deployment.shares, *tools)
        self.referee = Contract("Referee", deployment.referee, *tools)
        self.randomness = Randomness("BlockRandomness", deployment.randomness, *tools)

    async def open_shares(self, task: bytes) -> Contract:
        """Returns the ERC-20 token of a task's shares (`contracts/game/interfaces/IShares.sol`)."""
        entries, address = load_abi("TaskShares"), await self.shares.shares_of(task)
        return Contract("TaskShares", address, *self._tools, entries=entries)

    def note(self, folded: Head) -> None:
        """Notes the newest folded block: the node has applied all events up to it. From now on signing and
        reading rely on the chain of this block."""
        self.gate.folded, self.connection.floor = folded, folded.number

    async def require_provable(self) -> None:
        """Raises EnvironmentFault unless the header of the newest folded block can be proven to the
        contracts. If it cannot, no draw can be recorded, and training earns nothing."""
        head = self.gate.folded or await self.head()
        await self.randomness.read_header(head.number)

    async def require_own_contracts(self) -> None:
        """Raises InvalidInput unless all contracts have this version's code (`own_contracts`). It checks
        once, because contracts do not change."""
        if not self._are_own:
            await require_own_contracts(self.connection, self.deployment, self.bounds)
            self._are_own = True

    async def deposit_missing(self, wei: int) -> None:
        """Deposits tokens of the account until its credit is at least `wei`. Nodes and commands move tokens
        into the contracts only here. Raises as `require_own_contracts` does, before a token moves, and
        ContractRefused if the account has too few tokens."""
        missing_wei = wei - await self.vault.credit_of(self.address)
        if missing_wei > 0:
            await self.require_own_contracts()
            await self.token.approve(self.vault.address, missing_wei)
            await self.vault.deposit(missing_wei)

    async def prove_header(self, block: int) -> bytes:
        """Returns a proof of a past block's randomness, as the calls that record a draw take it. Raises
        EnvironmentFault if the block or its header is not available."""
        return await self.randomness.prove(block)


LOOKS_A_BLOCK = 8
"""How often a node looks for a new head in one block time. Providers count requests."""


def is_old(head: Head, preset: str) -> bool:
    """Returns whether the chain must have newer blocks than `head`, by this machine's clock. `preset` is the
    deployment's."""
    now_s = time.time()
    return now_s > head.timestamp_s and bool(find_age_fault(head, preset, now_s))


@asynccontextmanager
async def open_game_chain(
    rpc_urls: str | Sequence[str],
    deployment: GameDeployment,
    signer: Signer | None = None,
    *,
    poll_s: float | None = None,
    sending: Sending | None = None,
    is_alone: bool = True,
) -> AsyncIterator[GameChain]:
    """Connects, checks that the chain has the deployment's contracts, reads the deployment's bounds, and
    waits for earlier transactions of `signer` (`is_alone`: see `ChainClient.recover`). `poll_s` is the pause
    between two looks at the head; None follows the block time. Raises EnvironmentFault (no chain) and
    InvalidInput (another chain, no code)."""
    connection = Connection(rpc_urls, POLL_S if poll_s is None else poll_s)
    try:
        sender = await make_sender(connection, deployment, signer, sending or Sending())
        chain = GameChain(connection, deployment, sender)
        chain.bounds = await read_bounds(chain.game)
        chain.gate.preset = connection.preset = chain.bounds.name
        if poll_s is None and chain.bounds.name in BLOCK_S:
            connection.poll_s = BLOCK_S[chain.bounds.name] / LOOKS_A_BLOCK
        await chain.recover(is_alone=is_alone)
        yield chain
    finally:
        await connection.close()


async def read_bounds(tasks: Contract) -> DeploymentBounds:
    """Returns the bounds of the deployment, with the name of the preset that they equal; `own` if they equal
    none."""
    said = await tasks.bounds()
    values = {one.name: getattr(said, one.name) for one in fields(DeploymentBounds) if one.name != "name"}
    values["least"] = GameWindows(**{one.name: getattr(said.least, one.name) for one in fields(GameWindows)})
    found = DeploymentBounds(name="own", **values)
    return next((one for one in BOUNDS.values() if replace(found, name=one.name) == one), found)
