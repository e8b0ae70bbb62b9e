"""Proxies of the money: StakeVault, and the token that it holds. `contracts/interfaces/IStakeVault.sol` is
the manual."""

from typing import NamedTuple

from protocol.adapters.chain.abi import parse_abi
from protocol.adapters.chain.proxy import Proxy, Receipt


class Unbonding(NamedTuple):
    """Stake on its way out, payable from `ready_block` on."""

    amount_wei: int
    ready_block: int


class Exposure(NamedTuple):
    """Stake of `account` that one claim, audit, enrolment or bond holds."""

    account: str
    amount_wei: int


class StakeVault(Proxy):
    """Custody of stakes, escrows and credits."""

    contract = "StakeVault"

    async def deposit(self, amount_wei: int) -> Receipt:
        """Add stake; the vault must be approved for the tokens."""
        return await self._send("deposit", amount_wei)

    async def deposit_with_permit(
        self, amount_wei: int, deadline: int, v: int, r: bytes, s: bytes
    ) -> Receipt:
        """Add stake with an ERC-2612 permit in one call."""
        return await self._send("depositWithPermit", amount_wei, deadline, v, r, s)

    async def request_unbond(self, amount_wei: int) -> Receipt:
        """Announce that stake leaves after the unbonding time. What is exposed stays slashable."""
        return await self._send("requestUnbond", amount_wei)

    async def withdraw(self) -> Receipt:
        """Pay out what has finished unbonding and is not exposed."""
        return await self._send("withdraw")

    async def claim(self) -> Receipt:
        """Pay out one's credits."""
        return await self._send("claim")

    async def burn(self) -> Receipt:
        """Send all that is to be burned to the dead address. Anybody may."""
        return await self._send("burn")

    async def token(self) -> str:
        """Address of the staked token."""
        return await self._read(str, "token")

    async def unbonding_blocks(self) -> int:
        """Blocks between the announcement and the withdrawal."""
        return await self._read(int, "unbondingBlocks")

    async def stake_of(self, account: str) -> int:
        """All stake of the account, in wei: free, locked and unbonding."""
        return await self._read(int, "stakeOf", account)

    async def locked_of(self, account: str) -> int:
        """Stake that is exposed now, in wei."""
        return await self._read(int, "lockedOf", account)

    async def unbonding_of(self, account: str) -> Unbonding:
        """Stake that is leaving."""
        return await self._read(Unbonding, "unbondingOf", account)

    async def free_of(self, account: str) -> int:
        """Stake that can be exposed now, in wei."""
        return await self._read(int, "freeOf", account)

    async def credit_of(self, account: str) -> int:
        """Earnings waiting for `claim`, in wei."""
        return await self._read(int, "creditOf", account)

    async def escrow_of(self, task: bytes) -> int:
        """What is left of a task's escrow, in wei."""
        return await self._read(int, "escrowOf", task)

    async def is_module(self, account: str) -> bool:
        """Whether the account is one of the contracts that may move stake."""
        return await self._read(bool, "isModule", account)

    async def exposure_of(self, exposure: bytes) -> Exposure:
        """Who is exposed under this id and with how much."""
        return await self._read(Exposure, "exposureOf", exposure)

    async def burn_pending(self) -> int:
        """What waits for `burn`, in wei."""
        return await self._read(int, "burnPending")


def _function(name: str, inputs: str, output: str, mutability: str = "view") -> dict[str, object]:
    return {
        "type": "function",
        "name": name,
        "stateMutability": mutability,
        "inputs": [{"name": f"a{i}", "type": kind} for i, kind in enumerate(inputs.split())],
        "outputs": [{"name": "", "type": output}],
    }


ERC20_ABI = parse_abi(
    "IERC20",
    [
        _function("approve", "address uint256", "bool", "nonpayable"),
        _function("transfer", "address uint256", "bool", "nonpayable"),
        _function("allowance", "address address", "uint256"),
        _function("balanceOf", "address", "uint256"),
        _function("symbol", "", "string"),
        _function("decimals", "", "uint8"),
    ],
)
"""ERC-20 as far as it is used here; any such token can be staked."""


class Token(Proxy):
    """The ERC-20 token of a deployment."""

    contract = "IERC20"
    entries = ERC20_ABI

    async def approve(self, spender: str, amount_wei: int) -> Receipt:
        """Let `spender` take up to `amount_wei` of one's tokens."""
        return await self._send("approve", spender, amount_wei)

    async def transfer(self, to: str, amount_wei: int) -> Receipt:
        """Give tokens to another account."""
        return await self._send("transfer", to, amount_wei)

    async def allowance(self, owner: str, spender: str) -> int:
        """What `spender` may still take of `owner`, in wei."""
        return await self._read(int, "allowance", owner, spender)

    async def balance_of(self, account: str) -> int:
        """Tokens of the account, in wei, stake not included."""
        return await self._read(int, "balanceOf", account)

    async def symbol(self) -> str:
        """Short name of the token."""
        return await self._read(str, "symbol")

    async def decimals(self) -> int:
        """10^decimals wei are one whole token."""
        return await self._read(int, "decimals")
