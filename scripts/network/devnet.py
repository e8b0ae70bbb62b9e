"""Runs a test network: Anvil, the contracts, money from a faucet.

New parties get coin (from Anvil) and DevTokens (any account may mint them).
"""

import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_utils.address import to_checksum_address

from touchstone.protocol.adapters.chain.abi import find_function, load_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import Addresses, GameDeployment
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.network.contract_creation import DEV_TOKEN, default_game_path, deploy_game_once
from touchstone.scripts.network.devnet_clock import DevnetClock
from touchstone.scripts.toolchain import ANVIL_VERSION, HARDFORK, anvil_path

CHAIN_ID = 31_337
GRANT_COIN_WEI = 1_000 * 10**18
GRANT_TOKEN_WEI = 100_000 * TOKEN_WEI
BLOCK_GAS = 60_000_000
"""The gas of a block, as on Ethereum; a transaction may take 16.7 million of it."""
KEPT_STATES = 128
"""States of past blocks that Anvil keeps. With all of them, each block would take longer than the last."""
STOP_TIMEOUT_S = 10.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class DevnetOptions:
    """Options. `port` 0 takes a free one. `path` is for the deployment file, `log` for Anvil's output. `fund`
    are addresses that get money. `block_time_s` is 0 if the devnet clock makes the blocks."""

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
    """Runs Anvil on 127.0.0.1 inside the `with` block; yields its URL. Blocks come every `block_time_s`; with
    0, with each transaction, until the devnet clock makes them (`devnet_clock.py`). `options` are more of
    Anvil's own. `hardfork` chooses the rules; empty means HARDFORK. Raises EnvironmentFault if the port is
    taken or Anvil does not start."""
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
    """Runs Anvil with the contracts inside the `with` block, and gives money to the accounts of
    `options.fund`."""
    gas = ("--gas-limit", str(BLOCK_GAS))
    async with run_anvil(options.port, options.log, options.block_time_s, gas) as rpc_url:
        connection = Connection(rpc_url)
        try:
            deployer = AccountKey(Account.create())
            await give_coin(connection, deployer.address, GRANT_COIN_WEI)
            deployment = await deploy_game_once(
                connection, deployer, options.path, BOUNDS_LOCAL, report=report
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
    """Runs the devnet clock without end (`devnet_clock.py`). It skips idle time once the expected number of
    parties has announced itself. `now_s` returns seconds."""
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
    """Sets the coin of each address, and mints DevTokens for it. Raises EnvironmentFault on a chain that is
    no Anvil."""
    faucet = AccountKey(Account.create())
    await give_coin(connection, faucet.address, GRANT_COIN_WEI)
    sender = Sender(connection, faucet, deployment.chain_id, ResendPolicy())
    mint = find_function(load_abi(DEV_TOKEN), "mint")
    for address in addresses:
        await give_coin(connection, address, coin_wei)
        await sender.send(deployment.token, encode_call(mint, [address, token_wei]), "DevToken.mint")


async def give_coin(connection: Connection, address: str, amount_wei: int) -> None:
    """Sets an account's coin in wei. Only Anvil can; other chains raise EnvironmentFault."""
    await connection.request("anvil_setBalance", to_checksum_address(address), hex(amount_wei))


def claim_port(port: int) -> int:
    """Returns `port`, or a free one for 0. Raises InvalidInput if it is taken, because an old Anvil would
    answer there."""
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
    """Ends one of our child processes: asks it, waits, then kills it."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _wait_until_it_listens(process: "subprocess.Popen[Any]", log: Path) -> None:
    """Waits until Anvil listens or has ended. It reads Anvil's own log instead of asking the port, because
    another Anvil could answer there."""
    while "Listening on" not in log.read_text(errors="replace"):
        if process.poll() is not None:
            raise EnvironmentFault(
                what="Anvil did not start",
                expected="it runs and listens",
                actual=_tail(log) or f"exit status {process.poll()} without a message",
                remedy=f"Read {log}. Perhaps another version of Anvil runs here: {ANVIL_VERSION} is tested.",
                retryable=False,
            )
        await asyncio.sleep(0.02)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:])
