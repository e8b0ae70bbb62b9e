"""Finds out what happened to a transaction whose nonce is used on chain.

A missing receipt proves nothing, because a provider may index it late. If the call were signed again
meanwhile, it could be mined twice. So a transaction counts as displaced only if another one is found at its
nonce, twice, on the chain that the node has read.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from touchstone.protocol.adapters.chain.answers import MinedTransaction
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.gate import list_live
from touchstone.protocol.adapters.chain.provider_errors import ProviderError
from touchstone.protocol.adapters.chain.transaction_queue import TransactionQueue, Waiting
from touchstone.protocol.spec.errors import EnvironmentFault

LAG_BLOCKS = 8
"""The most blocks that a backend is assumed to have lagged when it reported the head."""
UNKNOWN_PAUSE_S = 0.5
"""Seconds between two looks for the transaction at a nonce."""


class MinedNonces:
    """Finds out which transactions used the nonces of one account. `next_nonce` is one more than the highest
    nonce with a known receipt."""

    def __init__(
        self,
        connection: Connection,
        address: str,
        queue: TransactionQueue,
        pass_gate: Callable[[], Awaitable[None]],
    ) -> None:
        """Begins. `pass_gate` raises EnvironmentFault while the endpoint may show another chain."""
        self.next_nonce = 0
        self._connection = connection
        self._address = address
        self._queue = queue
        self._pass_gate = pass_gate

    async def is_settled(self, one: Waiting) -> bool:
        """Returns whether it is known which transaction used a nonce that the endpoint reports as used. If
        not, the transaction stays in the queue, because it may still be mined."""
        try:
            return await self.find_receipt(one) is not None or await self.is_displaced(one)
        except EnvironmentFault:
            return False

    async def find_receipt(self, waiting: Waiting) -> MinedTransaction | None:
        """Returns the receipt of one of the transaction's versions, in a block of the chain. Blocks above the
        lowest head of the endpoints that are not stuck do not count, because the node has not read them
        either."""
        for transaction_hash in reversed(waiting.hashes):
            receipt = await self._connection.receipt(transaction_hash)
            if receipt is not None:
                block = await self._connection.block(receipt.block_number)
                is_there = block is not None and block.block_hash == receipt.block_hash
                if not is_there or receipt.block_number > await self._find_lowest_head():
                    return None
                self.next_nonce = max(self.next_nonce, waiting.nonce + 1)
                return receipt
        return None

    async def _find_lowest_head(self) -> int:
        connection = self._connection
        heads = await connection.heads_everywhere()
        return list_live(heads, connection.preset, time.time(), connection.floor)[0].number

    async def is_displaced(self, waiting: Waiting) -> bool:
        """Returns whether another transaction has used this nonce on chain. It looks twice, on the chain that
        the node has read, because a displaced call is signed again and must not be mined twice."""
        for _ in range(2):
            await asyncio.sleep(UNKNOWN_PAUSE_S)
            await self._pass_gate()
            if not await self._is_another_there(waiting):
                return False
        await self._pass_gate()
        return True

    async def _is_another_there(self, waiting: Waiting) -> bool:
        """Returns whether another transaction is at this nonce. A missing receipt proves nothing, so it looks
        into the block."""
        if await self.is_known(waiting):
            return False
        head = await self._connection.head()
        low, high = max(0, min(waiting.from_block, head.number) - LAG_BLOCKS), head.number
        if await self._connection.transaction_count(self._address, hex(low)) > waiting.nonce:
            # The nonce may have been counted before signing, if an endpoint reported too few; then its block
            # is too old to look for. But some providers count at the head, whatever block is asked for.
            return await self._counts_by_block(waiting.nonce)
        while low < high:
            middle = (low + high) // 2
            if await self._connection.transaction_count(self._address, hex(middle)) > waiting.nonce:
                high = middle
            else:
                low = middle + 1
        found = await self._connection.find_sent(self._address, waiting.nonce, high)
        known = self._queue.find(waiting.nonce) or waiting
        return found is not None and found.transaction_hash not in known.hashes

    async def _counts_by_block(self, nonce: int) -> bool:
        """Returns whether the endpoint counts an account's transactions as of the block that is asked for."""
        try:
            return await self._connection.transaction_count(self._address, "0x0") <= nonce
        except EnvironmentFault as fault:
            # It has not kept such an old state and says so; silence tells nothing.
            return isinstance(fault.__cause__, ProviderError)

    async def is_known(self, waiting: Waiting) -> bool:
        """Returns whether one of these transactions is in the pool or mined."""
        for transaction_hash in waiting.hashes:
            if await self._connection.has_transaction(transaction_hash):
                return True
        return False
