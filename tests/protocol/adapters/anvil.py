"""A fresh chain for one test: Anvil without interval blocks, DevToken, StakeVault, an account with money.

The other addresses hold the token: enough for everything that needs code at an address but no call.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account

from protocol.adapters.chain.client import Chain, open_chain
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.deployment import Deployment
from protocol.adapters.chain.transactions import Patience, Sender
from protocol.adapters.keys import AccountKey
from scripts.creation import compute_creation_code
from scripts.devnet import CHAIN_ID, GRANT_COIN_WEI, fund, give_coin, run_anvil

STAKE_WEI = 10**18
QUICK = Patience(resend_after_s=0.3, attempts=5)
POLL_S = 0.02


@dataclass(frozen=True)
class TestChain:
    """`account` has coin, 100,000 tokens, and has approved the vault."""

    __test__ = False

    chain: Chain
    account: AccountKey
    rpc_url: str

    async def anvil(self, method: str, *parameters: object) -> object:
        """A request that only Anvil knows."""
        return await self.chain.connection.request(method, *parameters)


@asynccontextmanager
async def run_test_chain(folder: Path) -> AsyncIterator[TestChain]:
    """Boot, deploy, fund, approve; end everything with the block."""
    async with run_anvil(0, folder / "anvil.log", block_time_s=0) as rpc_url:
        account = AccountKey(Account.create())
        deployment = await _deploy_vault(rpc_url, account)
        async with open_chain(rpc_url, deployment, account, poll_s=POLL_S, patience=QUICK) as chain:
            await chain.token.approve(deployment.vault, 2**256 - 1)
            yield TestChain(chain, account, rpc_url)


def make_deployment(chain_id: int, addresses: Sequence[str]) -> Deployment:
    """A deployment with these nine addresses, token first, vault second."""
    token, vault, registry, ledger, audit_book, dispute_game, outer_contest, referee, randomness = addresses
    return Deployment(
        chain_id,
        token,
        vault,
        registry,
        ledger,
        audit_book,
        dispute_game,
        outer_contest,
        referee,
        randomness,
        deploy_block=0,
    )


async def _deploy_vault(rpc_url: str, account: AccountKey) -> Deployment:
    connection = Connection(rpc_url, POLL_S)
    await give_coin(connection, account.address, GRANT_COIN_WEI)
    sender = Sender(connection, account, CHAIN_ID, QUICK)
    token = await _create(sender, "DevToken", [])
    vault = await _create(sender, "StakeVault", [token, 100, []])
    deployment = make_deployment(CHAIN_ID, [token, vault, *([token] * 7)])
    await fund(connection, deployment, [account.address])
    await connection.close()
    return deployment


async def _create(sender: Sender, contract: str, arguments: list[object]) -> str:
    receipt = await sender.send("", compute_creation_code(contract, arguments), contract)
    return str(receipt["contractAddress"]).lower()
