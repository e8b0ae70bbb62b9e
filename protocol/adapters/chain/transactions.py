"""Sends transactions so that each call is mined once, with one queue by nonce for an account.

    estimate --> take a nonce --> sign, write down --> send --> wait --> receipt
                                          ^                      |
                                          '---- higher fee <-----' the lowest that waits

The gas estimate runs the call first, so a refusal costs nothing. The lowest waiting nonce blocks all others.
So it is signed again, with the fee that the head asks for, as long as somebody waits for it or for a later
one. A call is not signed for another nonce before it is known what used the first one. If a nonce is used on
chain and no receipt is shown, the block in which it was used tells by which transaction.

After a crash the queue is in its file. A call that still waits there is not signed anew when it is sent
again.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from eth_utils.address import to_checksum_address

from touchstone.protocol.adapters.chain.answers import MinedTransaction
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.fees import MOST_TIMES, NO_CAP_WEI, FeeOffer, ask_fee, limit_tip
from touchstone.protocol.adapters.chain.mined_nonces import MinedNonces
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError
from touchstone.protocol.adapters.chain.transaction_queue import TransactionQueue, Waiting
from touchstone.protocol.spec.errors import EnvironmentFault

GAS_MARGIN_PERCENT = 150
GAS_MARGIN = 100_000
"""Gas beyond 150 % of the estimate: another transaction may come first and make storage dearer (20,000 gas
for each zero word). Unused gas is not paid."""
MOST_GAS = 1 << 24
"""The most gas of one transaction (EIP-7825)."""
TRANSFER_GAS = 21_000
MOST_FOREIGN = 16
"""The most transactions of other programs with the same key that are assumed to wait. If an endpoint reports
more, it errs, and each missing one would have to be filled with an empty transfer."""
USED_UP_PERCENT = 97
"""A failed transaction counts as out of gas if it used at least this share of its gas, in percent."""
MOST_OFFERS = 3
"""The most fee offers in a row for one call, if a pool names the tip that it wants."""
MOST_RECOVERY_ATTEMPTS = 4
"""A node tries this often to replace stuck transactions before it starts. Then it starts even if they stay
stuck."""
HAND_INS = 5
"""How often a waiting transaction is sent until it counts as stuck."""
NO_COIN = "no coin for gas"
COIN_REMEDY = (
    "Send the account coin of this chain; on a test network `touchstone init --devnet` with its --home gives "
    "some."
)


def limit_gas(estimate: int) -> int:
    """Returns the gas limit of a transaction: the estimate with a margin, up to what the chain allows."""
    return min(estimate * GAS_MARGIN_PERCENT // 100 + GAS_MARGIN, max(estimate, MOST_GAS))


@dataclass(frozen=True)
class ResendPolicy:
    """A transaction counts as stuck after `resend_after_s` seconds. `send` gives up after `attempts`
    signatures (None: never, while somebody waits)."""

    resend_after_s: float = 15.0
    attempts: int | None = 10


class Signed(Protocol):
    """A transaction ready to be sent."""

    @property
    def raw_transaction(self) -> bytes:
        """The bytes that go to the chain's node."""

    @property
    def hash(self) -> bytes:
        """The Keccak-256 hash that identifies the receipt."""


class Signer(Protocol):
    """An account that signs: `AccountKey`, or an eth-account account in tests."""

    @property
    def address(self) -> str:
        """The account's address, any case."""

    def sign_transaction(self, transaction: Mapping[str, Any]) -> Signed:
        """Returns the transaction with its signature."""


class Sender:
    """Sends transactions for one account; several calls may be sent at once. `mined_block` is the latest
    block known to hold a transaction of the account, 0 before the first. `is_capped` says that a waiting
    transaction needs more than `cap_wei` for one gas. `gate` is called before each signature, and raises
    EnvironmentFault while this node may not sign."""

    def __init__(
        self,
        connection: Connection,
        account: Signer,
        chain_id: int,
        resend_policy: ResendPolicy,
        queue: TransactionQueue | None = None,
        cap_wei: int = NO_CAP_WEI,
    ) -> None:
        """Prepares the sender. `cap_wei` is the most that one gas may cost."""
        self.address = account.address.lower()
        self.queue = queue or TransactionQueue(self.address)
        self.mined_block = 0
        self.is_capped = False
        self.gate: Callable[[], Awaitable[None]] | None = None
        self.mined_nonces = MinedNonces(connection, self.address, self.queue, self._pass_gate)
        self._connection = connection
        self._account = account
        self._chain_id = chain_id
        self._resend_policy = resend_policy
        self._cap_wei = cap_wei
        self._lock = asyncio.Lock()
        self._counted: int | None = None
        """How many of the account's transactions are mined; None while the endpoint is silent."""
        self._awaited: set[int] = set()
        """The nonces that somebody in this process waits for."""
        self._signed_s: dict[int, float] = {}
        """When each transaction was last signed, or first seen, in this process (monotonic seconds, by
        nonce)."""
        self._underpriced: set[int] = set()
        """The nonces whose offer a pool called too low."""
        self._needs_gas: dict[tuple[str, bytes], int] = {}
        """For calls that ran out of gas, the gas of the next attempt."""
        self._raw: dict[int, bytes] = {}
        """The bytes that were last signed here, by nonce."""
        self._handed_in_s: dict[int, float] = {}
        """When an endpoint last accepted each transaction (monotonic seconds)."""

    async def send(self, to: str, data: bytes, where: str) -> MinedTransaction:
        """Sends a call (a contract's creation if `to` is empty) and returns its receipt. Raises
        ContractRefused if the contract refuses it, before sending or (if the state changed meanwhile) once
        mined. Raises EnvironmentFault if it could not be mined."""
        while True:
            waiting = await self._adopt(to, data)
            if waiting is None:
                await self._pass_gate()
                estimate = await self._connection.estimate_gas(self.address, to, data, where)
                gas = max(limit_gas(estimate), self._needs_gas.get((to, data), 0))
                waiting = await self._post(to, data, gas)
            receipt = await self._wait(waiting.nonce)
            if receipt is None:
                continue
            self.mined_block = max(self.mined_block, receipt.block_number)
            self._connection.floor = max(self._connection.floor, receipt.block_number)
            if not receipt.is_success:
                await self._explain(waiting, receipt, where)
            self._needs_gas.pop((to, data), None)
            return receipt

    async def recover(self, *, is_alone: bool = True) -> int:
        """Waits for transactions that this account sent earlier; returns how many there were.

        A node that has crashed calls this before it asks the chain what was done. Stuck transactions are
        signed again with a higher fee, and stay in the queue before later ones. If the queue does not know
        the call at a nonce, another program sent it. It is replaced by an empty transfer, but only if no
        other process of the account runs (`is_alone`). Raises EnvironmentFault."""
        mined, began_s = await self._count("latest"), time.monotonic()
        rows = self.queue.list_all()
        end = max([await self._count("pending"), *(one.nonce + 1 for one in rows)])
        waiting, grace_s = max(0, end - mined), self._resend_policy.resend_after_s
        while mined < end and time.monotonic() < began_s + grace_s:
            await asyncio.sleep(self._connection.poll_s)
            mined = await self._count("latest")
        for one in rows if is_alone else ():
            if one.nonce >= mined:
                self._signed_s[one.nonce] = began_s
            elif await self.mined_nonces.is_settled(one):
                self.queue.drop(one.nonce)
        grace_s *= 1 + (self._resend_policy.attempts or MOST_RECOVERY_ATTEMPTS)
        while is_alone and mined < end and time.monotonic() < began_s + grace_s:
            await (self._drive(mined) if self.queue.find(mined) else self._fill(mined))
            await asyncio.sleep(self._connection.poll_s)
            mined = await self._count("latest")
        return waiting

    async def _adopt(self, to: str, data: bytes) -> Waiting | None:
        """Returns the same call from the queue, if its outcome is not known and nobody in this process waits
        for it."""
        for one in self.queue.list_all():
            if (one.to, one.data) == (to, data) and one.nonce not in self._awaited:
                self._awaited.add(one.nonce)
                # Another process of this home may remove it from the file meanwhile.
                self.queue.put(one)
                return one
        return None

    async def _pass_gate(self) -> None:
        if self.gate is not None:
            await self.gate()

    async def _count(self, at: str) -> int:
        return await self._connection.transaction_count(self.address, at)

    async def _count_surely(self, at: str, known: int) -> int:
        """Returns the account's transaction count. A count above `known` is asked for twice, because a wrong
        one would leave a gap before the next transaction."""
        count = await self._count(at)
        return count if count <= known else min(count, await self._count(at))

    async def _post(self, to: str, data: bytes, gas: int) -> Waiting:
        """Signs with the next nonce, writes it down, sends. If another program with the same key has taken
        the nonce, uses the next one."""
        taken = -1
        while True:
            async with self._lock:
                fee = await ask_fee(self._connection, self._cap_wei)
                waiting = await self._give_out(to, data, gas, fee, taken)
                try:
                    kind = await self._hand_in(waiting)
                    if kind is not Kind.REPLACEMENT or await self._count("pending") <= waiting.nonce:
                        return waiting
                except ProviderError as error:
                    if error.may_have_arrived:
                        # It stays in the queue; if the same call is sent again, this one is waited for.
                        self._awaited.discard(waiting.nonce)
                    else:
                        self._forget(waiting.nonce)
                    raise _describe_refusal(self.address, error) from error
                except BaseException:
                    # Cancelled. It may have been sent, so it stays in the queue.
                    self._awaited.discard(waiting.nonce)
                    raise
                # The transaction at this nonce belongs to another program, so this one does not replace it.
                self._forget(waiting.nonce)
                taken = waiting.nonce
            await asyncio.sleep(self._connection.poll_s)

    async def _give_out(self, to: str, data: bytes, gas: int, fee: FeeOffer, taken: int) -> Waiting:
        """Returns the call with the lowest free nonce, signed and written down."""
        rows = self.queue.list_all()
        known = max([self.mined_nonces.next_nonce, *(one.nonce + 1 for one in rows)])
        mined = await self._count_surely("latest", known)
        pending = await self._count_surely("pending", max(known, mined))
        if pending > max(known, mined) + MOST_FOREIGN:
            pending = mined
        await self._pass_gate()
        head = self._connection.health.head
        from_block = self._connection.floor or (head.number if head else 0)
        with self.queue.alone():
            known = max([known, *(one.nonce + 1 for one in self.queue.list_all())])
            nonce = max(mined, pending, known, taken + 1)
            self._awaited.add(nonce)
            waiting = Waiting(nonce, to, data, gas, fee, (), from_block)
            return self._sign(waiting, fee)

    def _sign(self, waiting: Waiting, fee: FeeOffer) -> Waiting:
        """Signs a transaction and writes it down. Its bytes are in `_raw`."""
        signed = self._account.sign_transaction(
            {
                "type": 2, "chainId": self._chain_id, "nonce": waiting.nonce, "gas": waiting.gas,
                "to": to_checksum_address(waiting.to) if waiting.to else "",
                "data": waiting.data, "value": 0,
                "maxFeePerGas": fee.max_fee_wei, "maxPriorityFeePerGas": fee.tip_wei,
            }
        )  # fmt: skip
        transaction_hash = bytes(signed.hash)
        if transaction_hash not in waiting.hashes:
            waiting = waiting.sign_again(fee, transaction_hash)
            self.queue.put(waiting)
        self._signed_s[waiting.nonce] = time.monotonic()
        self._raw[waiting.nonce] = bytes(signed.raw_transaction)
        self._handed_in_s.pop(waiting.nonce, None)
        return waiting

    def _forget(self, nonce: int) -> None:
        """Forgets a nonce that nobody waits for and that is not in the queue."""
        self.queue.drop(nonce)
        self._awaited.discard(nonce)
        self._signed_s.pop(nonce, None)
        self._raw.pop(nonce, None)
        self._handed_in_s.pop(nonce, None)
        self._underpriced.discard(nonce)
        self.is_capped = self.is_capped and bool(self.queue.list_all())

    async def _hand_in(self, waiting: Waiting) -> Kind | None:
        """Sends the version that was signed last. Returns None if it may be mined from now on. Returns
        REPLACEMENT if another transaction waits with its nonce, NONCE_TOO_LOW if another was mined with it;
        if it was sent before, that other one may be this very transaction. Raises ProviderError if no pool
        accepts it for another reason."""
        for _ in range(MOST_OFFERS):
            try:
                await self._connection.broadcast(self._raw[waiting.nonce])
            except EnvironmentFault:
                # No answer: it may have arrived, and is sent again.
                return None
            except ProviderError as error:
                if error.kind is Kind.NONCE_TOO_HIGH:
                    return None
                if error.kind is Kind.UNDERPRICED:
                    self._underpriced.add(waiting.nonce)
                    if error.needed_wei is None or not self._offer_tip(waiting, error.needed_wei):
                        # If the pool does not say what it wants, more is offered the next time.
                        return None
                    waiting = self.queue.find(waiting.nonce) or waiting
                    continue
                if error.kind not in (Kind.KNOWN, Kind.NONCE_TOO_LOW, Kind.REPLACEMENT):
                    raise
                self._handed_in_s[waiting.nonce] = time.monotonic()
                return None if error.kind is Kind.KNOWN else error.kind
            self._handed_in_s[waiting.nonce] = time.monotonic()
            return None
        return None

    def _offer_tip(self, waiting: Waiting, needed_wei: int) -> bool:
        """Signs again with the tip that a pool asks for. Returns False if that exceeds the limits of this
        node or its operator."""
        head = self._connection.health.head
        if needed_wei > limit_tip(needed_wei, head.base_fee_wei if head else 0, self._cap_wei):
            self.is_capped = True
            return False
        return self._offer_more(waiting, FeeOffer(waiting.fee.max_fee_wei + needed_wei, needed_wei))

    def _offer_more(self, waiting: Waiting, asked: FeeOffer) -> bool:
        """Signs again with a higher fee, up to the operator's limit. Returns False if that is too little for
        a pool to replace the last one."""
        most_wei = max(MOST_TIMES * asked.max_fee_wei, waiting.fee.max_fee_wei)
        offer = waiting.fee.raise_to(asked, min(self._cap_wei, most_wei))
        is_more = offer.may_replace(waiting.fee)
        self.is_capped = not is_more and self._cap_wei < most_wei
        self._sign(waiting, offer if is_more else waiting.fee)
        return is_more

    async def _wait(self, nonce: int) -> MinedTransaction | None:
        """Waits for the receipt of this nonce. Returns None if another transaction was mined with it, so that
        this one never will be. Raises EnvironmentFault when the policy's attempts are used up, or the account
        cannot pay; then the transaction stays in the queue."""
        began_s, attempts = time.monotonic(), self._resend_policy.attempts
        try:
            while True:
                is_known, receipt = await self._look(nonce)
                if is_known:
                    self._forget(nonce)
                    return receipt
                if self._counted is not None and self._counted < nonce:
                    # Its time begins once no earlier nonce blocks it.
                    began_s = time.monotonic()
                waited_s = time.monotonic() - began_s
                if attempts is not None and waited_s > attempts * self._resend_policy.resend_after_s:
                    await self._give_up(nonce, attempts)
                await asyncio.sleep(self._connection.poll_s)
        finally:
            self._awaited.discard(nonce)

    async def _give_up(self, nonce: int, attempts: int) -> None:
        """Raises EnvironmentFault, with what is known of the transaction."""
        waiting = self.queue.find(nonce)
        name = f"transaction 0x{waiting.hashes[-1].hex()}" if waiting else "a transaction"
        if await self._count("latest") > nonce:
            raise EnvironmentFault(
                what="it is not known whether a transaction was mined",
                expected=f"the receipt of {name}",
                actual="its nonce is used on chain, but the endpoint shows no receipt",
                remedy="Do not repeat the call: look first what was done (`touchstone status`).",
            )
        raise _fault(self.address, f"{name} not mined after {attempts} attempts")

    async def _look(self, nonce: int) -> tuple[bool, MinedTransaction | None]:
        """Returns whether it is known which transaction used this nonce, and the receipt if it is ours. If
        not known, sends the lowest waiting transaction again if it needs that."""
        try:
            self._counted = None
            self._counted = mined = await self._count("latest")
            if mined <= nonce:
                await self._drive(mined)
                return False, None
            waiting = self.queue.find(nonce)
            if waiting is None:
                raise AssertionError("only who waits for a transaction strikes it out")
            receipt = await self.mined_nonces.find_receipt(waiting)
            if receipt is not None:
                return True, receipt
            return await self.mined_nonces.is_displaced(waiting), None
        except EnvironmentFault as fault:
            if fault.what == NO_COIN:
                raise
            # A silent provider says nothing about the transaction.
            return False, None

    async def _drive(self, lowest: int) -> None:
        """Handles the lowest nonce that is not used yet, because all later ones wait for it."""
        waiting = self.queue.find(lowest)
        if waiting is None:
            await self._close_gap(lowest)
            return
        now_s = time.monotonic()
        if now_s - self._signed_s.setdefault(lowest, now_s) >= self._resend_policy.resend_after_s:
            await self._sign_again(lowest)
        elif self._is_to_be_handed_in(lowest) and not self._lock.locked():
            await self._pass_gate()
            async with self._lock:
                if self._is_to_be_handed_in(lowest):
                    await self._hand_in_again(waiting)

    def _is_to_be_handed_in(self, nonce: int) -> bool:
        """Returns whether the transaction must be sent again, because no endpoint has accepted it recently.
        One that accepted it earlier may have been on another chain, or have dropped it."""
        since_s = time.monotonic() - self._handed_in_s.get(nonce, -math.inf)
        return nonce in self._raw and since_s >= self._resend_policy.resend_after_s / HAND_INS

    async def _sign_again(self, nonce: int) -> None:
        """Signs again with the fee that the head asks for now. Raises EnvironmentFault if the account cannot
        pay it."""
        async with self._lock:
            waiting = self.queue.find(nonce)
            is_fresh = time.monotonic() - self._signed_s.get(nonce, 0.0) < self._resend_policy.resend_after_s
            if waiting is None or (nonce in self._signed_s and is_fresh):
                return
            await self._pass_gate()
            asked = await ask_fee(self._connection, NO_CAP_WEI)
            offers_less = waiting.fee.is_below(asked) or nonce in self._underpriced
            if offers_less or await self.mined_nonces.is_known(waiting):
                self._offer_more(waiting, asked)
            else:
                # The fee is high enough, but no pool has it: an endpoint dropped it.
                self._sign(waiting, waiting.fee)
            await self._hand_in_again(self.queue.find(nonce) or waiting)

    async def _hand_in_again(self, waiting: Waiting) -> None:
        """Sends the waiting transaction again. Raises EnvironmentFault if no endpoint accepts it."""
        try:
            if await self._hand_in(waiting) is Kind.REPLACEMENT:
                self._underpriced.add(waiting.nonce)
        except ProviderError as error:
            if not error.may_have_arrived:
                raise _describe_refusal(self.address, error) from error

    async def _close_gap(self, nonce: int) -> None:
        """Fills a nonce whose transaction a reorg has dropped for good, because all later nonces wait for
        it."""
        if await self._count("pending") == nonce:
            await self._fill(nonce)

    async def _fill(self, nonce: int) -> None:
        """Sends an empty transfer at a nonce for which the queue has no call."""
        async with self._lock:
            if self.queue.find(nonce) is not None:
                return
            await self._pass_gate()
            fee = await ask_fee(self._connection, self._cap_wei)
            waiting = self._sign(Waiting(nonce, self.address, b"", TRANSFER_GAS, fee, (), 0), fee)
            try:
                if await self._hand_in(waiting) is Kind.NONCE_TOO_LOW:
                    # The chain has it; an endpoint had reported too few.
                    self._forget(nonce)
            except ProviderError as error:
                self._forget(nonce)
                raise _describe_refusal(self.address, error) from error

    async def _explain(self, waiting: Waiting, receipt: MinedTransaction, where: str) -> None:
        """Repeats a failed call on the state after its block, because the state just before is not available.
        Raises the contract's refusal, or EnvironmentFault if it does not refuse then."""
        block = receipt.block_number
        if receipt.gas_used * 100 >= waiting.gas * USED_UP_PERCENT:
            self._needs_gas[waiting.to, waiting.data] = min(2 * waiting.gas, max(waiting.gas, MOST_GAS))
        if waiting.to:
            await self._connection.call(waiting.to, waiting.data, where, sender=self.address, block=block)
        used = f"{receipt.gas_used} of {waiting.gas} gas used"
        raise _fault(self.address, f"{where} reverted in block {block}, {used}")


def _describe_refusal(address: str, error: ProviderError) -> EnvironmentFault:
    """Returns the error for a transaction that the node does not accept."""
    if error.kind is not Kind.POOR:
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
        remedy="Check that the chain makes blocks and the account has coin for gas. Then look what was done "
        "(`touchstone status`).",
    )
