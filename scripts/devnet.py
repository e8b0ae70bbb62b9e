"""A test network: Anvil, the contracts, money from a tap, and a clock that skips idle time.

Parties start from nothing, so accounts are given coin (by Anvil) and DevTokens (any account may mint them).

The clock makes the blocks: real time during work, jumps while all parties wait. Windows are generous in
blocks, so that no party is slashed for a slow machine. Waiting them out at two blocks a second would take
hours. Each party says at GET /status how far it has read the chain and for which block it waits. That is the
earliest block in which its next transaction can stand. Once every announced party has read the newest block
and waits for a later one, the clock mines the idle blocks before the first of those.

Otherwise it makes a block every BLOCK_S, and while transactions wait every BURST_S. So a window of n blocks
lasts at least n * BURST_S, however much is sent. Time runs ahead over windows only, and only while nothing
else is due. A party that has a seat, which it could lose, stops the jumps as long as it does not answer. The
clock does not wait for one without a seat.
"""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_utils.address import to_checksum_address

from touchstone.node.kit.chain_state import Seated
from touchstone.protocol.adapters.chain.abi import find_function, load_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import Addresses, GameDeployment
from touchstone.protocol.adapters.chain.transactions import MiningPatience, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.wire import request_paths
from touchstone.protocol.adapters.wire.addresses import may_lead_to
from touchstone.protocol.adapters.wire.json_answers import MAX_STATUS_BYTES, STATUS_FORM, NodeStatus
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import read_at_most
from touchstone.protocol.adapters.wire.session import Patience, PeerSession
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.protocol.spec.game.presets import LIMITS_LOCAL
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.deploy import DEV_TOKEN, default_game_path, deploy_game_once
from touchstone.scripts.toolchain import HARDFORK, anvil_path

POLL_S = 0.1
BLOCK_S = 0.5
"""Between blocks while a party is at work and no transaction waits."""
BURST_S = 0.25
"""Between blocks while transactions wait."""
PAGE_BLOCKS = 50
"""Blocks in one request: Anvil takes milliseconds a block once its chain is long, and answers no
request meanwhile."""
NEVER = sys.maxsize
"""As least_parties: real time, always."""
FAR_BLOCKS = 10 * LIMITS_LOCAL.window_max
"""More than any window of a test network: a party that waits for a block that far waits for others only."""


def compute_skip(head: int, peers: Sequence[NodeStatus | None]) -> int:
    """Blocks to mine at once, so that the next block is the first that a party waits for; 0: real time goes
    on.

    peers: None stands for a party that does not answer.
    """
    if not all(peer is not None and is_idle(head, peer) for peer in peers):
        return 0
    awaited = [peer.waiting_for_block for peer in peers if peer and peer.waiting_for_block is not None]
    near = [block for block in awaited if block <= head + FAR_BLOCKS]
    return min(near) - head - 1 if near else 0


def is_idle(head: int, peer: NodeStatus) -> bool:
    """Whether the party has read exactly the newest block and waits for a later one."""
    is_waiting = peer.waiting_for_block is None or peer.waiting_for_block > head
    return peer.processed_block == head and is_waiting


class DevnetClock:
    """Keeps a test network's time, beside the parties, on a chain that knows `anvil_mine`. Use as `async
    with`."""

    def __init__(
        self,
        chain: GameChain,
        report: Callable[[str], None] | None = None,
        least_parties: int = 1,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """least_parties: with fewer announced nothing is skipped; the others are still being started by hand.
        now_s: a clock of seconds."""
        self._chain = chain
        self._least_parties = least_parties
        self._report = report or (lambda _: None)
        self._peers: dict[str, Peer] = {}
        self._next_block = chain.deployment.deploy_block
        self._seated = Seated()
        self._session = PeerSession(
            Patience(attempts=1, connect_s=2.0, silence_s=2.0), partial(may_lead_to, own_host="127.0.0.1")
        )
        self._now_s = now_s
        self._last_block_s = now_s()
        self._busy = ""

    async def __aenter__(self) -> "DevnetClock":
        self._session.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def run(self) -> None:
        """Make blocks for ever; from now on only this clock makes them."""
        await self._chain.connection.request("evm_setAutomine", False)
        while True:
            await self.tick()
            await asyncio.sleep(POLL_S)

    async def tick(self) -> int:
        """Look once at all parties and mine what is due or can be skipped; return how many blocks it was."""
        head = (await self._chain.head()).number
        await self._read_events(head)
        if await self._is_block_due():
            return await self._mine(1)
        if len(self._peers) < self._least_parties:
            return 0
        skip = compute_skip(head, await self._ask_all(head))
        # A party that had sent something when it was asked is not idle, whatever it said.
        if skip <= 0 or await self._count_waiting():
            return 0
        self._report(f"all {len(self._peers)} parties wait: block {head} -> {head + skip}")
        return await self._mine(skip)

    async def _is_block_due(self) -> bool:
        elapsed_s = self._now_s() - self._last_block_s
        return elapsed_s >= BLOCK_S or (elapsed_s >= BURST_S and await self._count_waiting() > 0)

    async def _count_waiting(self) -> int:
        """Transactions that wait for a block."""
        pool = await self._chain.connection.request("txpool_status")
        return int(pool["pending"], 16)

    async def _read_events(self, head: int) -> None:
        for event in await self._chain.read_events(self._next_block, head):
            self._seated.take(event)
            if event.name == "Announced":
                self._add(event.arguments)
        self._next_block = head + 1

    def _add(self, announced: dict[str, Any]) -> None:
        account = announced["account"]
        try:
            self._peers[account] = Peer(account, announced["url"], announced["certificate_sha256"])
        except TouchstoneError as error:
            # No party can reach it, so the clock does not wait for it.
            self._peers.pop(account, None)
            self._report(str(error))

    async def _ask_all(self, head: int) -> list[NodeStatus | None]:
        """The status of every party; as long as the party last seen at work still works, its status alone. On
        a machine that runs all parties, ten questions a second to each would slow them down."""
        busy = self._peers.get(self._busy)
        if busy is not None:
            status = await self._ask(busy)
            if status is None or not is_idle(head, status):
                return [status]
        asked = list(self._peers.values())
        answers = zip(asked, await asyncio.gather(*map(self._ask, asked)), strict=True)
        # A party that neither answers nor has a seat is gone: nothing that it could miss costs it anything.
        waited = [(p, status) for p, status in answers if status or self._seated.holds(p.account)]
        peers, statuses = [peer for peer, _ in waited], [status for _, status in waited]
        at_work = (
            peer.account
            for peer, status in zip(peers, statuses, strict=True)
            if status is None or not is_idle(head, status)
        )
        self._busy = next(at_work, "")
        return statuses

    async def _ask(self, peer: Peer) -> NodeStatus | None:
        """None where it does not answer, or with nonsense: such a party is never skipped over."""
        try:
            async with self._session.get(peer, request_paths.STATUS, {}, MAX_STATUS_BYTES) as response:
                status = STATUS_FORM.decode(await read_at_most(response, MAX_STATUS_BYTES), peer.account)
        except TouchstoneError:
            return None
        return status if status.account == peer.account else None

    async def _mine(self, count: int) -> int:
        """Mine so many blocks; fewer where a party sends a transaction meanwhile. It may open a window, which
        must not be over before its owner has seen it."""
        mined = 0
        while mined < count and not (mined and await self._count_waiting()):
            page = min(PAGE_BLOCKS, count - mined)
            await self._chain.connection.request("anvil_mine", page)
            mined += page
        self._last_block_s = self._now_s()
        return mined


CHAIN_ID = 31_337
GRANT_COIN_WEI = 1_000 * 10**18
GRANT_TOKEN_WEI = 100_000 * TOKEN_WEI
BLOCK_GAS = 60_000_000
"""As on Ethereum: a transaction may take 16.7 million of it."""
KEPT_STATES = 128
"""States of past blocks that Anvil keeps: with all of them each block takes longer than the last."""
STOP_TIMEOUT_S = 10.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class DevnetOptions:
    """port 0: a free one; path: where the deployment file goes; log: Anvil's output; fund: addresses given
    money; block_time_s: 0 where the devnet clock makes the blocks."""

    port: int = 0
    path: Path = default_game_path(CHAIN_ID)
    log: Path = Path("build/devnet/anvil.log")
    block_time_s: int = 0
    fund: tuple[str, ...] = ()


@dataclass(frozen=True)
class Devnet:
    """A running test network."""

    rpc_url: str
    deployment: GameDeployment
    path: Path


@asynccontextmanager
async def run_anvil(
    port: int, log: Path, block_time_s: int = 0, options: Sequence[str] = (), hardfork: str = ""
) -> AsyncIterator[str]:
    """Anvil on 127.0.0.1 until the block ends; yields its URL. Blocks come every `block_time_s`; 0: with
    each transaction, until the devnet clock makes them (`scripts/devnet.py`). `options`: more of Anvil's own;
    `hardfork`: whose rules it has, empty: HARDFORK's. Raises EnvironmentFault when the port is taken or Anvil
    does not start."""
    port = claim_port(port)
    command = [str(anvil_path()), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--hardfork", hardfork or HARDFORK, "--chain-id", str(CHAIN_ID), "--accounts", "1"]
    command += ["--prune-history", str(KEPT_STATES)]
    command += ["--block-time", str(block_time_s)] if block_time_s else []
    command += options
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        await _wait_until_it_listens(process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


@asynccontextmanager
async def run_devnet(options: DevnetOptions, report: Report = print) -> AsyncIterator[Devnet]:
    """Anvil with the contracts on it and the accounts of `options.fund` given money, until the block ends."""
    gas = ("--gas-limit", str(BLOCK_GAS))
    async with run_anvil(options.port, options.log, options.block_time_s, gas) as rpc_url:
        connection = Connection(rpc_url)
        try:
            deployer = AccountKey(Account.create())
            await give_coin(connection, deployer.address, GRANT_COIN_WEI)
            deployment = await deploy_game_once(
                connection, deployer, options.path, LIMITS_LOCAL, report=report
            )
            await fund(connection, deployment, options.fund)
        finally:
            await connection.close()
        yield Devnet(rpc_url, deployment, options.path)


async def keep_time(
    devnet: Devnet,
    report: Report | None = None,
    least_parties: int = 1,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Run the devnet clock for ever (`scripts.devnet`): idle time is skipped once so many parties are there.
    now_s: a clock of seconds."""
    async with (
        open_game_chain(devnet.rpc_url, devnet.deployment) as chain,
        DevnetClock(chain, report, least_parties, now_s) as clock,
    ):
        await clock.run()


async def fund(
    connection: Connection,
    deployment: Addresses,
    addresses: Sequence[str],
    *,
    coin_wei: int = GRANT_COIN_WEI,
    token_wei: int = GRANT_TOKEN_WEI,
) -> None:
    """Set the coin of each address and mint it DevTokens. Raises EnvironmentFault on a chain that is no
    Anvil."""
    tap = AccountKey(Account.create())
    await give_coin(connection, tap.address, GRANT_COIN_WEI)
    sender = Sender(connection, tap, deployment.chain_id, MiningPatience())
    mint = find_function(load_abi(DEV_TOKEN), "mint")
    for address in addresses:
        await give_coin(connection, address, coin_wei)
        await sender.send(deployment.token, encode_call(mint, [address, token_wei]), "DevToken.mint")


async def give_coin(connection: Connection, address: str, amount_wei: int) -> None:
    """Set an account's coin, in wei. Only Anvil does that; other chains raise EnvironmentFault."""
    await connection.request("anvil_setBalance", to_checksum_address(address), hex(amount_wei))


def claim_port(port: int) -> int:
    """`port`, or a free one for 0. Raises InvalidInput when it is taken: a left-over Anvil would answer
    there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InvalidInput(
                what="the port is taken",
                expected=f"a free port {port} on 127.0.0.1",
                actual=str(error),
                remedy="End whatever listens there, or leave --port out to get a free one.",
            ) from error
        return int(probe.getsockname()[1])


def stop(process: "subprocess.Popen[Any]") -> None:
    """End our own child: ask, wait, insist."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _wait_until_it_listens(process: "subprocess.Popen[Any]", log: Path) -> None:
    """Wait until Anvil listens, however long that takes, or has ended. Its own log is asked, not the port:
    another Anvil could be answering there."""
    while "Listening on" not in log.read_text(errors="replace"):
        if process.poll() is not None:
            raise EnvironmentFault(
                what="Anvil did not start",
                expected="it runs and listens",
                actual=_tail(log) or f"exit status {process.poll()} and no word",
                remedy=f"Read {log}; install again with ./dev setup.",
                retryable=False,
            )
        await asyncio.sleep(0.02)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:])
