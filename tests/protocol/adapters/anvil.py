"""A fresh chain for one test: Anvil without interval blocks, DevToken, Vault, an account with money.

The other addresses hold the token: enough for everything that needs code at an address but no call.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from eth_account import Account

from touchstone.protocol.adapters.chain.chain_client import ChainClient, Sending, make_sender
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.creation import compute_creation_code
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, GameDeployment
from touchstone.protocol.adapters.chain.erc20 import ERC20_ABI
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender, Signer
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.scripts.network.devnet import CHAIN_ID, GRANT_COIN_WEI, fund, give_coin, run_anvil

STAKE_WEI = 10**18
QUICK = ResendPolicy(resend_after_s=0.3, attempts=5)
POLL_S = 0.02
NOBODY = "0x" + 40 * "0"


class VaultChain(ChainClient):
    """The chain with the two contracts that these tests call."""

    def __init__(self, connection: Connection, deployment: GameDeployment, sender: Sender | None) -> None:
        super().__init__(connection, deployment, sender)
        self.deployment = deployment
        tools = (connection, sender, self._reader)
        self.token = Contract("IERC20", deployment.token, *tools, entries=ERC20_ABI)
        self.vault = Contract("Vault", deployment.vault, *tools)
        self.game = Contract("Tasks", deployment.tasks, *tools)
        """The token stands there."""


@asynccontextmanager
async def open_vault_chain(
    rpc_url: str,
    deployment: GameDeployment,
    signer: Signer | None = None,
    *,
    sending: Sending | None = None,
    is_alone: bool = True,
) -> AsyncIterator[VaultChain]:
    """As `open_game_chain`, without what only the real `Tasks` could answer."""
    connection = Connection(rpc_url, POLL_S)
    try:
        sender = await make_sender(connection, deployment, signer, sending or Sending(QUICK))
        chain = VaultChain(connection, deployment, sender)
        await chain.recover(is_alone=is_alone)
        yield chain
    finally:
        await connection.close()


@dataclass(frozen=True)
class TestChain:
    """`account` has coin, 100,000 tokens, and has approved the vault."""

    __test__ = False

    chain: VaultChain
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
        async with open_vault_chain(rpc_url, deployment, account) as chain:
            await chain.token.approve(deployment.vault, 2**256 - 1)
            yield TestChain(chain, account, rpc_url)


def make_deployment(chain_id: int, addresses: Sequence[str]) -> GameDeployment:
    """A deployment with these sixteen addresses, token first, then as `GAME_CONTRACTS` has them."""
    where = dict(zip(("token", *GAME_CONTRACTS), addresses, strict=True))
    return GameDeployment(chain_id=chain_id, deploy_block=0, **where)


async def _deploy_vault(rpc_url: str, account: AccountKey) -> GameDeployment:
    connection = Connection(rpc_url, POLL_S)
    await give_coin(connection, account.address, GRANT_COIN_WEI)
    sender = Sender(connection, account, CHAIN_ID, QUICK)
    token = await _create(sender, "DevToken", [])
    vault = await _create(sender, "Vault", [token, NOBODY, NOBODY])
    others = [vault if name == "vault" else token for name in GAME_CONTRACTS]
    deployment = make_deployment(CHAIN_ID, [token, *others])
    await fund(connection, deployment, [account.address])
    await connection.close()
    return deployment


async def _create(sender: Sender, contract: str, arguments: list[object]) -> str:
    receipt = await sender.send("", compute_creation_code(contract, arguments), contract)
    return receipt.contract_address
