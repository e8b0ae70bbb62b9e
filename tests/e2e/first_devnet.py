"""The test network of the first round: Anvil with its contracts, and its clock. It goes with this folder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account

from protocol.actions.view import View
from protocol.adapters.chain import Batch, Chain, Deployment, open_chain
from protocol.adapters.chain.connection import Connection
from protocol.adapters.keys import AccountKey
from protocol.spec.params import DEVNET
from scripts.deploy import default_path, deploy_once
from scripts.devnet import CHAIN_ID, GRANT_COIN_WEI, Report, fund, give_coin, run_anvil
from tests.e2e.first_clock import DevnetClock

UNBONDING_BLOCKS = DEVNET.unbonding_blocks


@dataclass(frozen=True)
class DevnetOptions:
    port: int = 0
    path: Path = default_path(CHAIN_ID)
    log: Path = Path("build/devnet/anvil.log")
    block_time_s: int = 0
    unbonding_blocks: int = UNBONDING_BLOCKS
    fund: tuple[str, ...] = ()


@dataclass(frozen=True)
class Devnet:
    rpc_url: str
    deployment: Deployment
    path: Path


@asynccontextmanager
async def run_devnet(options: DevnetOptions, report: Report = print) -> AsyncIterator[Devnet]:
    """Anvil with the contracts on it and the accounts of `options.fund` given money, until the block ends."""
    async with run_anvil(options.port, options.log, options.block_time_s) as rpc_url:
        connection = Connection(rpc_url)
        try:
            deployer = AccountKey(Account.create())
            await give_coin(connection, deployer.address, GRANT_COIN_WEI)
            deployment = await deploy_once(
                connection, deployer, options.path, unbonding_blocks=options.unbonding_blocks, report=report
            )
            await fund(connection, deployment, options.fund)
        finally:
            await connection.close()
        yield Devnet(rpc_url, deployment, options.path)


async def keep_time(devnet: Devnet, report: Report | None = None, least_parties: int = 1) -> None:
    """Run the clock for ever: idle time is skipped once so many parties are there."""
    async with (
        open_chain(devnet.rpc_url, devnet.deployment) as chain,
        DevnetClock(chain, report, least_parties) as clock,
    ):
        await clock.run()


async def read_view(chain: Chain) -> View:
    """Everything that the chain tells, folded up to its head."""
    head = await chain.head()
    found = await chain.read_events(chain.deployment.deploy_block, head.number)
    view = View("", chain.deployment.chain_id, chain.deployment.registry)
    view.take(Batch(head, tuple(found)))
    return view
