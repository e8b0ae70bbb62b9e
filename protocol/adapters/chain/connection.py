"""Asks the chain's providers, and returns answers in a fixed form or errors in this project's words.

Questions go to the endpoints through `providers.py`. A single answer is not trusted to be the chain:
`follower.py` decides which blocks to believe, `gate.py` when a node may sign.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from touchstone.protocol.adapters.chain import answers
from touchstone.protocol.adapters.chain.answers import (
    Head,
    Log,
    MalformedAnswer,
    MinedTransaction,
    SentTransaction,
)
from touchstone.protocol.adapters.chain.deployment import Addresses
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError
from touchstone.protocol.adapters.chain.providers import Providers, chain_fault, or_none
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

One = TypeVar("One")
Decode = Callable[[Sequence[Log]], list[One]]
"""Reads the logs in an answer. If it raises, the answer is ignored, and another endpoint is asked."""

REQUEST_TIMEOUT_S = 20.0
POLL_S = 0.1
GRACE_S = 120.0
"""Seconds during which a silent chain is asked again before a command gives up."""
BATCH = 10
"""The most requests in one batch; every provider takes that many."""
FEE_BLOCKS, MIDDLE = 4, 50.0
"""If the node suggests no tip, the median tip of the last FEE_BLOCKS blocks is taken."""


class Connection:
    """A connection to one chain. Close it at the end."""

    def __init__(
        self, rpc_urls: str | Sequence[str], poll_s: float = POLL_S, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        """Connects. `rpc_urls` is one URL or several, `poll_s` the pause between two looks at the head,
        `timeout_s` the time of one attempt."""
        self.rpc_urls = [rpc_urls] if isinstance(rpc_urls, str) else list(rpc_urls)
        self.poll_s = poll_s
        self.providers = Providers(self.rpc_urls, timeout_s)
        self.health = self.providers.health
        self.preset = "own"
        """The preset of the deployment's limits, from which the block time follows."""
        self.floor = 0
        """The newest block that is known to exist. Calls and estimates never use a state before it."""
        self.place = self.providers.place
        """Names the endpoints in errors and logs."""

    @property
    def rpc_url(self) -> str:
        """The first URL."""
        return self.rpc_urls[0]

    async def close(self) -> None:
        """Closes the HTTP sessions."""
        await self.providers.close()

    async def request(self, method: str, *parameters: Any) -> Any:
        """Returns the result of a bare JSON-RPC request, for methods that not every chain has (`anvil_mine`).
        Raises EnvironmentFault."""
        return await self.providers.ask(method, parameters, lambda found: found)

    async def chain_id(self) -> int:
        """Returns the chain's id (EIP-155)."""
        return await self.providers.ask("eth_chainId", (), answers.read_quantity)

    async def code_at(self, address: str) -> bytes:
        """Returns the code at `address`, empty if there is none."""
        return await self.providers.ask("eth_getCode", (address, "latest"), answers.read_data)

    async def balance_of(self, address: str) -> int:
        """Returns the coin of `address` in wei, as of the latest block."""
        return await self.providers.ask("eth_getBalance", (address, "latest"), answers.read_quantity)

    async def head(self) -> Head:
        """Returns the latest block of the endpoint that answers."""
        self.health.head = await self.providers.ask(
            "eth_getBlockByNumber", ("latest", False), answers.read_head
        )
        return self.health.head

    async def heads_everywhere(self) -> list[Head]:
        """Returns the latest block of each endpoint that answers. Raises EnvironmentFault if none does."""
        asked = ("eth_getBlockByNumber", ("latest", False), answers.read_head)
        heads = list[Head]()
        for endpoint, head in await self.providers.ask_everywhere(*asked):
            if head is not None:
                endpoint.head = head.number
                heads.append(head)
        if not heads:
            raise chain_fault(self.place, "the latest block", "none")
        return heads

    async def block(self, number: int) -> Head | None:
        """Returns the block with that number, None if the endpoint that answers has none."""
        found = await self.providers.ask(
            "eth_getBlockByNumber", (hex(number), False), or_none(answers.read_head)
        )
        if found is not None and found.number != number:
            raise chain_fault(self.place, f"block {number}", f"block {found.number}")
        return found

    async def blocks_everywhere(self, number: int) -> list[Head | None]:
        """Returns the block with that number from each endpoint that answers, None from one that lacks it.
        Raises EnvironmentFault if none answers."""
        asked = ("eth_getBlockByNumber", (hex(number), False), or_none(answers.read_head))
        found = await self.providers.ask_everywhere(*asked)
        return [one if one is None or one.number == number else None for _, one in found]

    async def block_by_hash(self, block_hash: bytes) -> Head | None:
        """Returns the block with that hash, None if the endpoint that answers does not know it."""
        parameters = (_to_hex(block_hash), False)
        try:
            found = await self.providers.ask("eth_getBlockByHash", parameters, or_none(answers.read_head))
        except EnvironmentFault as fault:
            if not isinstance(fault.__cause__, ProviderError) or fault.__cause__.kind is not Kind.BEHIND:
                raise
            return None
        if found is not None and found.block_hash != block_hash:
            raise chain_fault(self.place, f"block {_to_hex(block_hash)}", _to_hex(found.block_hash))
        return found

    async def raw_block(self, number: int) -> dict[str, Any]:
        """Returns the block in JSON-RPC form, values as `0x` strings. Raises EnvironmentFault above the
        head."""
        read = or_none(answers.read_raw_block)
        block = await self.providers.ask("eth_getBlockByNumber", (hex(number), False), read)
        if block is None or int(block["number"], 16) != number:
            raise chain_fault(self.place, f"block {number}", "none yet" if block is None else "another one")
        return dict(block)

    async def raw_header(self, number: int) -> bytes | None:
        """Returns the header of a block as bytes, None if the provider does not give it."""
        found = await self.providers.ask_if_known("debug_getRawHeader", (hex(number),), answers.read_data)
        return found or None

    async def call(
        self, to: str, data: bytes, where: str, *, sender: str = "", block: int | str = "latest"
    ) -> bytes:
        """Returns the result of a read-only call. Raises ContractRefused if the contract reverts."""
        at, floor = hex(block) if isinstance(block, int) else block, self.floor if block == "latest" else 0
        asked = ("eth_call", (_to_call(to, data, sender), at), answers.read_data)
        return await self.providers.ask(*asked, where, floor)

    async def estimate_gas(self, sender: str, to: str, data: bytes, where: str) -> int:
        """Returns the gas that the call (a creation if `to` is empty) would take in the next block. Raises
        ContractRefused if it would revert."""
        asked = ("eth_estimateGas", _to_call(to, data, sender), answers.read_gas)
        return await self.providers.ask_pending(*asked, where, self.floor)

    async def transaction_count(self, address: str, block: str) -> int:
        """Returns how many transactions `address` has sent: mined ones (`latest`, or as of a block number in
        hex), or waiting ones too (`pending`)."""
        if block == "pending":
            return await self.providers.ask_pending("eth_getTransactionCount", address, answers.read_count)
        return await self.providers.ask("eth_getTransactionCount", (address, block), answers.read_count)

    async def priority_fee(self) -> int:
        """Returns the tip for one gas in wei that the node suggests. If it suggests none, returns the median
        tip of the last blocks, or else the gas price minus the base fee."""
        named = await self.providers.ask_if_known("eth_maxPriorityFeePerGas", (), answers.read_quantity)
        if named is not None:
            return named
        asked = (hex(FEE_BLOCKS), "latest", [MIDDLE])
        tips = await self.providers.ask_if_known("eth_feeHistory", asked, _read_tips)
        if tips:
            return sorted(tips)[len(tips) // 2]
        price = await self.providers.ask("eth_gasPrice", (), answers.read_quantity)
        return max(0, price - (await self.head()).base_fee_wei)

    async def broadcast(self, raw: bytes) -> None:
        """Sends a signed transaction. Raises as `Providers.broadcast` does."""
        await self.providers.broadcast(raw)

    async def receipt(self, transaction_hash: bytes) -> MinedTransaction | None:
        """Returns the receipt, None while it is not mined or the provider has not indexed it."""
        asked = ("eth_getTransactionReceipt", (_to_hex(transaction_hash),))
        found = await self.providers.ask_if_there(*asked, answers.read_receipt)
        return found if found is not None and found.transaction_hash == transaction_hash else None

    async def transaction(self, transaction_hash: bytes) -> SentTransaction | None:
        """Returns the transaction, mined or waiting; None if the node does not know it, or not yet."""
        asked = ("eth_getTransactionByHash", (_to_hex(transaction_hash),))
        found = await self.providers.ask_if_there(*asked, answers.read_transaction)
        return found if found is not None and found.transaction_hash == transaction_hash else None

    async def has_transaction(self, transaction_hash: bytes) -> bool:
        """Returns whether the chain's node knows the transaction, mined or waiting."""
        return await self.transaction(transaction_hash) is not None

    async def find_sent(self, sender: str, nonce: int, block: int) -> SentTransaction | None:
        """Returns the transaction of `sender` with this nonce in a block; None if the block has none."""
        read = or_none(lambda found: answers.find_sent(found, sender, nonce))
        return await self.providers.ask("eth_getBlockByNumber", (hex(block), True), read)

    async def sent_data(self, transaction_hash: bytes) -> bytes:
        """Returns the data of a transaction. Raises EnvironmentFault if the node does not know it."""
        return (await self.sent_call(transaction_hash))[1]

    async def sent_call(self, transaction_hash: bytes) -> tuple[str, bytes]:
        """Returns the receiver of a transaction (lower-case `0x`, empty if it creates a contract) and its
        data. Raises EnvironmentFault if the node does not know it."""
        found = await self.transaction(transaction_hash)
        if found is None:
            raise chain_fault(self.place, f"transaction {_to_hex(transaction_hash)}", "none")
        return found.to, found.data

    async def blocks(self, first: int, last: int) -> list[Head | None]:
        """Returns the blocks first .. last, both included, by number; None if the backend that answers lacks
        one."""
        found: list[Head | None] = []
        for start in range(first, last + 1, BATCH):
            found += await self.blocks_of_one(range(start, min(start + BATCH, last + 1)))
        return found

    async def blocks_of_one(self, numbers: Sequence[int]) -> list[Head | None]:
        """Returns blocks by number, all from one backend; None if it lacks one."""
        calls = [("eth_getBlockByNumber", (hex(number), False)) for number in numbers]
        return await self.providers.ask_together(calls, _read_heads)

    async def logs_of_blocks(
        self, addresses: list[str], blocks: Sequence[Head], decode: Decode[One]
    ) -> list[list[One]]:
        """Returns the contracts' logs in each of these blocks, given by hash, in the chain's order, read by
        `decode`. Raises EnvironmentFault if the backend that answers does not know a block, or if two
        endpoints differ."""
        found: list[list[One]] = []
        for start in range(0, len(blocks), BATCH):
            asked = blocks[start : start + BATCH]
            chosen = [{"address": addresses, "blockHash": _to_hex(one.block_hash)} for one in asked]
            calls = [("eth_getLogs", (one,)) for one in chosen]
            highest = max(one.number for one in asked)
            found += await self.providers.ask_two(calls, partial(_read_logs_of, asked, decode), highest)
        return found

    async def logs(
        self, addresses: list[str], from_block: int, to_block: int, decode: Decode[One]
    ) -> list[One]:
        """Returns the contracts' logs in from_block .. to_block, in the chain's order, read by `decode`. The
        same backend must also show the last block, so it has read that far. Raises EnvironmentFault, also if
        two endpoints differ."""
        chosen = {"address": addresses, "fromBlock": hex(from_block), "toBlock": hex(to_block)}
        calls = [("eth_getBlockByNumber", (hex(to_block), False)), ("eth_getLogs", (chosen,))]
        read = partial(_read_logs_in, range(from_block, to_block + 1), decode)
        return await self.providers.ask_two(calls, read, to_block)

    async def heads(self, grace_s: float | None = None) -> AsyncIterator[Head]:
        """Yields the latest block now and whenever it changes, also for a reorg at the same height; it may
        skip blocks. A silent chain is asked again for `grace_s` (GRACE_S), then EnvironmentFault is
        raised."""
        last: Head | None = None
        silent_since: float | None = None
        while True:
            try:
                head, silent_since = await self.head(), None
            except EnvironmentFault:
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > (GRACE_S if grace_s is None else grace_s):
                    raise
            else:
                if head != last:
                    last = head
                    yield head
            await asyncio.sleep(self.poll_s)

    async def wait_for_block(self, number: int) -> Head:
        """Waits until the head is at block `number` or later; returns the head."""
        async for head in self.heads():
            if head.number >= number:
                return head
        raise AssertionError("heads() never ends")


async def check_deployment(connection: Connection, deployment: Addresses) -> None:
    """Raises InvalidInput unless the chain is the deployment's and has code at all its addresses."""
    chain_id = await connection.chain_id()
    if chain_id != deployment.chain_id:
        raise _other_chain(connection, chain_id, deployment)
    for name, address in {**deployment.contracts(), "token": deployment.token}.items():
        if not await connection.code_at(address):
            raise _no_contract(connection, name, address)


def _other_chain(connection: Connection, chain_id: int, deployment: Addresses) -> InvalidInput:
    return InvalidInput(
        what="this is another chain than the deployment's",
        expected=f"chain id {deployment.chain_id}",
        actual=f"chain id {chain_id}",
        where=connection.place,
        remedy="Pass the --rpc-url of the right chain, or the --deployment of this one.",
    )


def _no_contract(connection: Connection, name: str, address: str) -> InvalidInput:
    return InvalidInput(
        what=f"no contract at the address of {name}",
        expected=f"code at {address}",
        actual="none",
        where=connection.place,
        remedy="The endpoint is of another chain, or the deployment file is: correct `rpc_url`, or "
        "get the file of this chain. For a test network that began anew: `touchstone devnet`.",
    )


def _read_heads(found: Sequence[Any]) -> list[Head | None]:
    return list(map(or_none(answers.read_head), found))


def _read_logs_of(blocks: Sequence[Head], decode: Decode[One], found: Sequence[Any]) -> list[list[One]]:
    logs = [answers.read_logs(one) for one in found]
    for block, of_block in zip(blocks, logs, strict=True):
        if any(log.block_hash != block.block_hash for log in of_block):
            raise MalformedAnswer("logs of another block")
    return list(map(decode, logs))


def _read_logs_in(blocks: range, decode: Decode[One], found: Sequence[Any]) -> list[One]:
    """Returns the logs of a range of blocks. Drops logs of other blocks, which a gateway may add that splits
    ranges at its own bounds."""
    if answers.read_head(found[0]).number != blocks[-1]:
        raise MalformedAnswer("another block than asked for")
    return decode([log for log in answers.read_logs(found[1]) if log.block_number in blocks])


def _read_tips(found: Any) -> list[int]:
    """Returns the median tip of each block of `eth_feeHistory`."""
    rewards = found.get("reward") if isinstance(found, dict) else None
    if not isinstance(rewards, list):
        raise MalformedAnswer("no rewards")
    return [answers.read_quantity(one[0]) for one in rewards if isinstance(one, list) and one]


def _to_call(to: str, data: bytes, sender: str) -> dict[str, str]:
    parties = {"to": to, "from": sender}
    return {"data": _to_hex(data), **{key: value for key, value in parties.items() if value}}


def _to_hex(value: bytes) -> str:
    return "0x" + value.hex()
