"""Sending transactions so that each is mined once: one nonce counter, a guard before, a fee bump behind.

The gas estimate runs the call against the pending block, so a refusal costs nothing. A transaction that is
not mined in time is signed again with the same nonce and a higher fee: of the two only one can be mined.
Another process of the same account may take a nonce first: then the call is estimated and sent anew. After a
crash or a reorg the chain's own count of transactions is the truth; `recover` waits for what an earlier
process had sent.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from eth_utils.address import to_checksum_address
from web3.exceptions import Web3RPCError

from protocol.adapters.chain.connection import Connection
from protocol.spec.errors import EnvironmentFault

GAS_MARGIN_PERCENT = 150
GAS_MARGIN = 100_000
"""Beyond the estimate: another transaction may come first and make storage dearer (20,000 gas a zero word).
What is not used is not paid."""
MOST_GAS = 1 << 24
"""That one transaction may ask for (EIP-7825)."""
FEE_BUMP_PERCENT = 130
"""Nodes replace a waiting transaction only for at least 10 % more; 30 % catches up with a rising base fee."""
FEE_SALT_WEI = 1 << 20
"""Below this a random amount is added to the fee limit: two processes that sign the same call with the same
nonce would otherwise sign the same transaction, and both would take its receipt for their own."""
TRANSFER_GAS = 21_000
_TAKEN = ("nonce too low", "underpriced", "already known", "already imported")
"""What nodes say when a transaction with this nonce is mined or waiting already."""
_POOR = "insufficient funds"
"""What nodes say when an account cannot pay the gas."""
NO_COIN = "no coin for gas"
COIN_REMEDY = (
    "Send it coin of this chain; on a test network `touchstone init --devnet` with its --home gives some."
)


def limit_gas(estimate: int) -> int:
    """Returns the gas that a transaction asks for: the estimate with a margin, as far as the chain takes
    it."""
    return min(estimate * GAS_MARGIN_PERCENT // 100 + GAS_MARGIN, max(estimate, MOST_GAS))


@dataclass(frozen=True)
class MiningPatience:
    """When a transaction counts as stuck (after `resend_after_s`) and how many times it is sent at most."""

    resend_after_s: float = 15.0
    attempts: int = 10


@dataclass(frozen=True)
class _Draft:
    nonce: int
    to: str
    data: bytes
    gas: int
    max_fee_wei: int
    tip_wei: int


class Signed(Protocol):
    """A transaction ready to be sent."""

    @property
    def raw_transaction(self) -> bytes:
        """What goes to the node."""

    @property
    def hash(self) -> bytes:
        """Its Keccak-256, by which the receipt is found."""


class Signer(Protocol):
    """An account that signs: `keys.AccountKey`, or an eth-account account in tests."""

    @property
    def address(self) -> str:
        """The account's address, any case."""

    def sign_transaction(self, transaction: Mapping[str, Any]) -> Signed:
        """The transaction with its signature."""


class Sender:
    """Sends for one account. Several may be called at once; nonces are handed out one at a time. mined_block:
    the latest block that is known to hold a transaction of it, 0 before the first."""

    def __init__(
        self, connection: Connection, account: Signer, chain_id: int, patience: MiningPatience
    ) -> None:
        self.address = account.address.lower()
        self._connection = connection
        self._account = account
        self._chain_id = chain_id
        self._patience = patience
        self._lock = asyncio.Lock()
        self._in_flight: set[int] = set()
        self.mined_block = 0

    async def send(self, to: str, data: bytes, where: str) -> dict[str, Any]:
        """Send a call (a contract's creation where `to` is empty) and return its receipt. Raises
        ContractRefused where the contract refuses it, before or (when the state changed in between) after it
        was mined; EnvironmentFault where it could not be mined."""
        for _ in range(self._patience.attempts):
            gas = await self._connection.estimate_gas(self.address, to, data, where)
            async with self._lock:
                draft, transaction_hash = await self._post(to, data, limit_gas(gas))
                self._in_flight.add(draft.nonce)
            try:
                receipt = await self._deliver(draft, [transaction_hash])
            finally:
                self._in_flight.discard(draft.nonce)
            if receipt is None:
                continue
            self.mined_block = max(self.mined_block, int(receipt["blockNumber"]))
            if not receipt["status"]:
                await self._explain(draft, receipt, where)
            return receipt
        raise _fault(self.address, f"each of {self._patience.attempts} nonces went to another transaction")

    async def recover(self, *, is_alone: bool = True) -> int:
        """Wait until nothing that this account sent earlier is waiting; return how many transactions were
        waiting.

        A node that has crashed calls this before it asks the chain what has been done. Stuck transactions are
        replaced by empty transfers, but only where no other process of the account runs (`is_alone`). Another
        process sees to its own, and what is sent now comes after it."""
        mined = await self._connection.transaction_count(self.address, "latest")
        waiting = await self._connection.transaction_count(self.address, "pending") - mined
        deadline = time.monotonic() + self._patience.resend_after_s
        while time.monotonic() < deadline:
            if await self._connection.transaction_count(self.address, "latest") >= mined + waiting:
                return waiting
            await asyncio.sleep(self._connection.poll_s)
        for nonce in range(mined, mined + waiting) if is_alone else ():
            await self._fill(nonce)
        return waiting

    async def _post(self, to: str, data: bytes, gas: int) -> tuple[_Draft, bytes]:
        """Sign with the next nonce and broadcast; another process of the same account may have taken it
        meanwhile."""
        for _ in range(self._patience.attempts):
            tip = await self._connection.priority_fee()
            max_fee = 2 * (await self._connection.head()).base_fee_wei + tip
            salt = secrets.randbelow(FEE_SALT_WEI)
            draft = _Draft(await self._next_nonce(), to, data, gas, max_fee + salt, tip)
            try:
                return draft, await self._broadcast(draft)
            except Web3RPCError as error:
                if not _says(error, *_TAKEN):
                    raise _tell_refusal(self.address, error) from error
        raise _fault(self.address, "the nonce was taken each time")

    async def _next_nonce(self) -> int:
        """The chain's count; while own transactions wait, the count beyond them, for a node may not list them
        yet."""
        pending = await self._connection.transaction_count(self.address, "pending")
        return max([pending, *(nonce + 1 for nonce in self._in_flight)])

    async def _broadcast(self, draft: _Draft) -> bytes:
        signed = self._account.sign_transaction(
            {
                "type": 2, "chainId": self._chain_id, "nonce": draft.nonce, "gas": draft.gas,
                "to": to_checksum_address(draft.to) if draft.to else "",
                "data": draft.data, "value": 0,
                "maxFeePerGas": draft.max_fee_wei, "maxPriorityFeePerGas": draft.tip_wei,
            }
        )  # fmt: skip
        transaction_hash = bytes(signed.hash)
        try:
            await self._connection.broadcast(bytes(signed.raw_transaction))
        except Web3RPCError as error:
            # When the answer to it is lost it is handed in again, and the nonce is taken by this very
            # transaction: with another nonce the call would be sent twice.
            if not _says(error, *_TAKEN) or not await self._connection.has_transaction(transaction_hash):
                raise
        return transaction_hash

    async def _deliver(self, draft: _Draft, hashes: list[bytes]) -> dict[str, Any] | None:
        """Wait for a receipt of any of `hashes`; when none comes, send again for more. None: another
        transaction was mined with this nonce, so none of `hashes` ever will be. Raises EnvironmentFault."""
        for attempt in range(self._patience.attempts):
            if attempt:
                draft = replace(draft, max_fee_wei=_bump(draft.max_fee_wei), tip_wei=_bump(draft.tip_wei))
                hashes.append(await self._resend(draft, hashes[-1]))
            receipt = await self._wait_for_receipt(hashes)
            if receipt is not None:
                return receipt
            mined = await self._connection.transaction_count(self.address, "latest")
            if mined > draft.nonce:
                # A node may count a block before it serves its receipts; it has this long to do so.
                return await self._wait_for_receipt(hashes)
            if mined < draft.nonce and mined not in self._in_flight:
                await self._close_gap(mined)
        raise _fault(
            self.address,
            f"transaction 0x{hashes[-1].hex()} not mined after {self._patience.attempts} attempts",
        )

    async def _wait_for_receipt(self, hashes: list[bytes]) -> dict[str, Any] | None:
        deadline = time.monotonic() + self._patience.resend_after_s
        while time.monotonic() < deadline:
            for transaction_hash in hashes:
                receipt = await self._connection.receipt(transaction_hash)
                if receipt is not None:
                    return receipt
            await asyncio.sleep(self._connection.poll_s)
        return None

    async def _resend(self, draft: _Draft, last_hash: bytes) -> bytes:
        try:
            return await self._broadcast(draft)
        except Web3RPCError as error:
            # Too low: one of ours was mined a moment ago, the next look finds it. Underpriced: bumped again
            # next time.
            if _says(error, *_TAKEN):
                return last_hash
            raise _tell_refusal(self.address, error) from error

    async def _close_gap(self, nonce: int) -> None:
        """A reorg can drop a mined transaction for good; all later nonces then wait for that one for ever."""
        async with self._lock:
            pending = await self._connection.transaction_count(self.address, "pending")
            if pending == nonce:
                await self._fill(nonce)

    async def _fill(self, nonce: int) -> None:
        tip = await self._connection.priority_fee()
        base_fee = (await self._connection.head()).base_fee_wei
        draft = _Draft(nonce, self.address, b"", TRANSFER_GAS, 2 * base_fee + tip, tip)
        hashes: list[bytes] = []
        for _ in range(self._patience.attempts):
            try:
                hashes.append(await self._broadcast(draft))
            except Web3RPCError as error:
                if _says(error, "nonce too low"):
                    return
            if await self._wait_for_receipt(hashes) is not None:
                return
            draft = replace(draft, max_fee_wei=_bump(draft.max_fee_wei), tip_wei=_bump(draft.tip_wei))
        raise _fault(self.address, f"nonce {nonce} still waiting after {self._patience.attempts} attempts")

    async def _explain(self, draft: _Draft, receipt: dict[str, Any], where: str) -> None:
        """Raises what the contract says to the same call after that block; it cannot be asked for the moment
        before. Where it does not refuse then, the reason is gone: EnvironmentFault."""
        block = int(receipt["blockNumber"])
        if draft.to:
            await self._connection.call(draft.to, draft.data, where, sender=self.address, block=block)
        raise _fault(
            self.address, f"{where} reverted in block {block}, {receipt['gasUsed']} of {draft.gas} gas used"
        )


def _bump(fee_wei: int) -> int:
    return fee_wei * FEE_BUMP_PERCENT // 100 + 1


def _says(error: Web3RPCError, *phrases: str) -> bool:
    return any(phrase in error.message.lower() for phrase in phrases)


def _tell_refusal(address: str, error: Web3RPCError) -> EnvironmentFault:
    """The error of a transaction that the node does not take."""
    if not _says(error, _POOR):
        return _fault(address, error.message)
    return EnvironmentFault(
        what=NO_COIN,
        expected=f"coin of the chain in {address}, enough for the gas",
        actual=error.message,
        remedy=COIN_REMEDY,
        retryable=False,
    )


def _fault(address: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="a transaction was not mined",
        expected=f"a transaction of {address} in a block",
        actual=actual,
        remedy="Check that the chain makes blocks and the account has coin for gas; then ask what was done.",
    )
