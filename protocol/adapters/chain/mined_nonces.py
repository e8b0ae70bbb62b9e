"""What became of a transaction whose nonce the chain has counted, as far as an endpoint's word goes.

No receipt proves nothing: a provider may be slow to index it. What is signed anew meanwhile would be mined
twice. So it counts as displaced only if another transaction is found at its nonce, twice, on the chain that
the node has folded.
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
"""A backend that told of the head may have been so far behind."""
UNKNOWN_PAUSE_S = 0.5
"""Between two looks for what stands at a nonce."""


class MinedNonces:
    """Finds out which transactions used the nonces of one account. next_nonce: one more than the highest
    nonce whose receipt was seen."""

    def __init__(
        self,
        connection: Connection,
        address: str,
        queue: TransactionQueue,
        pass_gate: Callable[[], Awaitable[None]],
    ) -> None:
        """pass_gate: raises EnvironmentFault while the endpoint may show another chain."""
        self.next_nonce = 0
        self._connection = connection
        self._address = address
        self._queue = queue
        self._pass_gate = pass_gate

    async def is_settled(self, one: Waiting) -> bool:
        """Returns whether it is known which transaction used a nonce that the chain has counted, as the
        endpoint says. An unknown one stays in the queue: it may still be mined."""
        try:
            return await self.find_receipt(one) is not None or await self.is_displaced(one)
        except EnvironmentFault:
            return False

    async def find_receipt(self, waiting: Waiting) -> MinedTransaction | None:
        """Returns the receipt of one of its versions, in a block that the chain has. A block above the lowest
        head of the endpoints that are not stuck does not count: nothing above it is folded either."""
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
        """Returns whether another transaction stands at a nonce that the chain has counted. It is looked for
        twice, on the folded chain: what is displaced is signed anew, and must not be mined after all."""
        for _ in range(2):
            await asyncio.sleep(UNKNOWN_PAUSE_S)
            await self._pass_gate()
            if not await self._is_another_there(waiting):
                return False
        await self._pass_gate()
        return True

    async def _is_another_there(self, waiting: Waiting) -> bool:
        """No receipt proves nothing: a provider may not have indexed it yet. So its block is looked for."""
        if await self.is_known(waiting):
            return False
        head = await self._connection.head()
        low, high = max(0, min(waiting.from_block, head.number) - LAG_BLOCKS), head.number
        if await self._connection.transaction_count(self._address, hex(low)) > waiting.nonce:
            # Counted before it was signed, as an endpoint had told of too few: its block is too old to be
            # looked for. But some providers count at the head, whatever block is named.
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
        """Returns whether the endpoint counts an account's transactions at the block that is named."""
        try:
            return await self._connection.transaction_count(self._address, "0x0") <= nonce
        except EnvironmentFault as fault:
            # It has not kept so old a state, and says so; silence tells nothing.
            return isinstance(fault.__cause__, ProviderError)

    async def is_known(self, waiting: Waiting) -> bool:
        """Returns whether one of these is in the pool or mined."""
        for transaction_hash in waiting.hashes:
            if await self._connection.has_transaction(transaction_hash):
                return True
        return False
