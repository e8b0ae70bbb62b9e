"""The chain and the contracts as a role sees them, and proofs of a block's random value.

`contracts/game/interfaces` is the manual of each contract.

Proofs of a block's random value, which the calls that seal a draw take. A block's header is written as bytes
from what JSON-RPC tells of it: its Keccak hash is the block's. Signatures of drand's quicknet are fetched
over HTTPS. The contract checks what a drand server answers; nothing here believes it.
`contracts/interfaces/IRandomness.sol` is the manual.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import Annotated, Any

import aiohttp
import msgspec
import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from protocol.adapters.chain.abi import load_abi
from protocol.adapters.chain.connection import POLL_S, Connection, Head, check_deployment
from protocol.adapters.chain.contract import ERC20_ABI, Contract, Event, EventReader, Follower, LogBatch
from protocol.adapters.chain.deployment import Addresses, GameDeployment
from protocol.adapters.chain.own_contracts import require_own_contracts
from protocol.adapters.chain.transactions import MiningPatience, Sender, Signer
from protocol.adapters.messages import Form
from protocol.adapters.wire.session import read_at_most, tell_reason
from protocol.spec.drawing import CHAIN_HASH, SIGNATURE_BYTES, compute_due_s, expand_point
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.terms import LIMITS, DeploymentLimits, GameWindows
from protocol.spec.statements import SigningDomain

# --- Random values ------------------------------------------------------------------------------------------
# Ethereum Yellow Paper, section 4.4, then what forks appended: London, Shanghai, Cancun, Prague.
_FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom",
    "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot",
    "requestsHash",
)  # fmt: skip
_NUMBERS = frozenset({
    "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed",
    "excessBlobGas",
})  # fmt: skip


def encode_header(block: Mapping[str, Any]) -> bytes:
    """The RLP of the header of a block, as `eth_getBlockByNumber` tells it (values are `0x` strings).

    Raises EnvironmentFault where its hash is not the block's: the chain has headers of another shape, and no
    proof of its randomness can be made.
    """
    fields = [_encode_field(name, str(block[name])) for name in _FIELDS if block.get(name) is not None]
    header: bytes = rlp.encode(fields)
    if keccak(header) != bytes.fromhex(str(block["hash"])[2:]):
        raise EnvironmentFault(
            what="this chain's block headers are not those of Ethereum",
            expected=f"a header with hash {block['hash']}",
            actual=f"0x{keccak(header).hex()} from {len(fields)} fields",
            where=f"block {block['number']}",
            remedy="Use a chain whose block hash is Keccak over a header as Ethereum has it up to Prague.",
            retryable=False,
        )
    return header


def _encode_field(name: str, value: str) -> bytes | int:
    return int(value, 16) if name in _NUMBERS else bytes.fromhex(value[2:])


class Randomness(Contract):
    """The value of a past block, out of its header and, where the deployment mixes one in, a drand round."""

    async def prove(self, of_block: int) -> bytes:
        """What `sealBeacon`, `sealDraw`, `sealLate` and `sealLeaves` take as proof for a past block.

        Waits for the drand round of that block where one is mixed in, about a minute. Raises
        EnvironmentFault where the block, its header or the round cannot be had.
        """
        block = await self._connection.raw_block(of_block)
        header = encode_header(block)
        drand_round = await self.drand_round(int(block["timestamp"], 16))
        if drand_round == 0:
            return header
        return expand_point(await fetch_signature(drand_round)) + header


SERVERS = (
    "https://api.drand.sh",
    "https://api2.drand.sh",
    "https://api3.drand.sh",
    "https://drand.cloudflare.com",
)
"""The public ones; each serves every round that ever was."""
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 4_096
GRACE_S = 1.0
"""From a round's due time to its signature at the servers."""


class Answer(msgspec.Struct, frozen=True):
    """What a server of drand says of a round, as far as it is of use; servers say more."""

    signature: Annotated[str, msgspec.Meta(pattern=rf"\A[0-9a-f]{{{2 * SIGNATURE_BYTES}}}\Z")]


ANSWER = Form(Answer, MAX_ANSWER_BYTES, "no signature of drand")


async def fetch_signature(round_number: int, servers: Sequence[str] = SERVERS) -> bytes:
    """The signature (48 bytes) of a round, once it is due; the first server that has it.

    Raises EnvironmentFault when none answers with one.
    """
    await asyncio.sleep(max(0.0, compute_due_s(round_number) + GRACE_S - time.time()))
    failures = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        for server in servers:
            try:
                return await _fetch(session, f"{server}/{CHAIN_HASH}/public/{round_number}")
            except (aiohttp.ClientError, TimeoutError, ProtocolFault) as error:
                failures.append(f"{server}: {type(error).__name__} {tell_reason(error)}")
    raise EnvironmentFault(
        what="no server of drand gives the round's signature",
        expected=f"round {round_number} of quicknet",
        actual="; ".join(failures) or "no server named",
        remedy="Let this machine reach one of them; the seal is tried again until its window closes.",
    )


async def _fetch(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url) as answer:
        answer.raise_for_status()
        body = await read_at_most(answer, MAX_ANSWER_BYTES)
    return bytes.fromhex(ANSWER.decode(body).signature)


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

    def follow(self, processed: Sequence[Head] = ()) -> AsyncIterator[LogBatch]:
        """All events from the deployment on, then those of each new head, for ever. A batch with
        `forget_from` tells of a reorg. processed: heads up to which the caller has kept the events; what
        comes after the last of them that is still on the chain is read."""
        return Follower(self.connection, self._reader, self._deploy_block, processed).batches()

    async def recover(self, *, is_alone: bool = True) -> int:
        """After a crash, before anything is sent: wait for what was sent earlier; return how many that were.
        is_alone: no other process of this account runs, so what is stuck may be replaced."""
        return await self._sender.recover(is_alone=is_alone) if self._sender else 0


async def make_sender(
    connection: Connection, deployment: Addresses, signer: Signer | None, patience: MiningPatience | None
) -> Sender | None:
    """Check that the chain is the deployment's and has its contracts; what sends there, None without a
    signer."""
    await check_deployment(connection, deployment)
    return Sender(connection, signer, deployment.chain_id, patience or MiningPatience()) if signer else None


class GameChain(ChainClient):
    """One deployment of the round's contracts. Without a signer it only reads. Make one with
    `open_game_chain`. signing: where signatures of the round count; limits: what the deployment allows of
    tasks."""

    limits: DeploymentLimits

    def __init__(
        self,
        connection: Connection,
        deployment: GameDeployment,
        sender: Sender | None,
    ) -> None:
        super().__init__(connection, deployment, sender)
        self.deployment = deployment
        self._are_own = False
        self.signing = SigningDomain(deployment.chain_id, deployment.tasks)
        self._tools = tools = (connection, sender, self._reader)
        self.token = Contract("IERC20", deployment.token, *tools, entries=ERC20_ABI)
        self.purse = Contract("Purse", deployment.purse, *tools)
        self.tasks = Contract("Tasks", deployment.tasks, *tools)
        self.rounds = Contract("Rounds", deployment.rounds, *tools)
        self.votes = Contract("Votes", deployment.votes, *tools)
        self.settlement = Contract("Settlement", deployment.settlement, *tools)
        self.asks = Contract("Asks", deployment.asks, *tools)
        self.disputes = Contract("Disputes", deployment.disputes, *tools)
        self.evidence = Contract("Evidence", deployment.evidence, *tools)
        self.contests = Contract("Contests", deployment.contests, *tools)
        self.shares = Contract("Shares", deployment.shares, *tools)
        self.referee = Contract("Referee", deployment.referee, *tools)
        self.randomness = Randomness("BlockRandomness", deployment.randomness, *tools)

    async def open_shares(self, task: bytes) -> Contract:
        """The ERC-20 token of a task's shares (`contracts/game/interfaces/IShares.sol`)."""
        entries, address = load_abi("TaskShares"), await self.shares.shares_of(task)
        return Contract("TaskShares", address, *self._tools, entries=entries)

    async def require_own_contracts(self) -> None:
        """Raises InvalidInput unless all contracts are those of this version (`own_contracts`). Once they
        are, it is not asked again: no contract changes."""
        if not self._are_own:
            await require_own_contracts(self.connection, self.deployment, self.limits)
            self._are_own = True

    async def deposit_missing(self, wei: int) -> None:
        """Has so much credit: what is missing comes out of the account's tokens. It is the one way by which a
        node or a command moves tokens into the contracts. Raises as `require_own_contracts` does before a
        token moves, and ContractRefused where the account has too few."""
        missing_wei = wei - await self.purse.credit_of(self.address)
        if missing_wei > 0:
            await self.require_own_contracts()
            await self.token.approve(self.purse.address, missing_wei)
            await self.purse.deposit(missing_wei)

    async def prove_header(self, block: int) -> bytes:
        """What the calls that seal a draw take as proof of a past block's randomness. Raises EnvironmentFault
        where the block or its header cannot be had."""
        return await self.randomness.prove(block)


BLOCK_S = {"12s": 12.0, "2s": 2.0}
"""Between two blocks, by the name of the deployment's preset. The clock of a test network skips."""
LAG_BLOCKS, LAG_S = 5, 30.0
"""So many blocks, or seconds where that is more, may be missing before the head is old."""
LOOKS_A_BLOCK = 8
"""At the head of a chain whose blocks come at that pace: providers count requests."""


def is_old(head: Head, preset: str) -> bool:
    """Whether newer blocks than `head` must be there by this machine's clock. preset: of the deployment."""
    block_s = BLOCK_S.get(preset)
    return block_s is not None and time.time() - head.timestamp_s > max(LAG_S, LAG_BLOCKS * block_s)


@asynccontextmanager
async def open_game_chain(
    rpc_url: str,
    deployment: GameDeployment,
    signer: Signer | None = None,
    *,
    poll_s: float | None = None,
    patience: MiningPatience | None = None,
    is_alone: bool = True,
) -> AsyncIterator[GameChain]:
    """Connect, check that the chain is the deployment's and has its contracts, read its limits, and wait for
    earlier transactions of `signer` (is_alone: see `ChainClient.recover`). poll_s: pause between two looks at
    the head; None: as its blocks come. Raises EnvironmentFault (no chain) and InvalidInput (another chain, no
    code)."""
    connection = Connection(rpc_url, POLL_S if poll_s is None else poll_s)
    try:
        sender = await make_sender(connection, deployment, signer, patience)
        chain = GameChain(connection, deployment, sender)
        chain.limits = await read_limits(chain.tasks)
        if poll_s is None and chain.limits.name in BLOCK_S:
            connection.poll_s = BLOCK_S[chain.limits.name] / LOOKS_A_BLOCK
        await chain.recover(is_alone=is_alone)
        yield chain
    finally:
        await connection.close()


async def read_limits(tasks: Contract) -> DeploymentLimits:
    """What the deployment allows, with the name of the preset that it is, `own` where it is none."""
    said = await tasks.limits()
    values = {one.name: getattr(said, one.name) for one in fields(DeploymentLimits) if one.name != "name"}
    values["least"] = GameWindows(**{one.name: getattr(said.least, one.name) for one in fields(GameWindows)})
    found = DeploymentLimits(name="own", **values)
    return next((one for one in LIMITS.values() if replace(found, name=one.name) == one), found)
