"""A contract as a node calls it, and the events of all contracts in order, gaps back-filled, reorgs noticed.

A new function of a contract needs no code here. `await chain.purse.deposit(wei)` sends `Purse.deposit`; a
`view` or `pure` function is read. Names are the ABI's in snake case, and `abi.py` converts the values. The
files in `contracts/game/interfaces` are the manual.

Of an ERC-20 token (EIP-20) the ABI is here as far as it is used; any such token can be staked.

The events of the contracts in order: decoded by the ABI alone, gaps back-filled, reorgs noticed. A new event,
or a new contract, needs no code here.

A follower remembers the hashes of the heads it has processed. When the newest of them is no longer on the
chain, it walks back to one that is. It says from where everything is void, and reads again from there.
"""

import asyncio
import logging
import time
from collections import deque, namedtuple
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from protocol.adapters.chain.abi import (
    Entry,
    decode_values,
    encode_call,
    load_own_abi,
    parse_abi,
    to_snake_case,
)
from protocol.adapters.chain.connection import PATIENCE_S, Connection, Head
from protocol.adapters.chain.deployment import Addresses
from protocol.adapters.chain.transactions import Sender
from protocol.spec.errors import EnvironmentFault, InvalidInput

log = logging.getLogger(__name__)


# --- Events in order ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class DecodedEvent:
    """What a log says: `contract` and `name` as in Solidity, `arguments` by snake-case name in the order of
    the declaration."""

    contract: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class AbiRegistry:
    """Contracts by their address in lower case, and the events of each by their first topic."""

    contracts: Mapping[str, str]
    events: Mapping[str, Mapping[bytes, Entry]]

    def find(self, log: Mapping[str, Any]) -> Entry | None:
        """The event that a log is of; None for another contract or an unknown event."""
        contract, topics = self.contracts.get(str(log["address"]).lower(), ""), log["topics"]
        return self.events.get(contract, {}).get(bytes(topics[0])) if topics else None


def make_registry(contracts: Mapping[str, str]) -> AbiRegistry:
    """contracts: names by address. Their events are those of the ABI in the package."""
    events = {name: index_events(load_own_abi(name)) for name in contracts.values()}
    return AbiRegistry({address.lower(): name for address, name in contracts.items()}, events)


def index_events(entries: Sequence[Entry]) -> dict[bytes, Entry]:
    """Events by their first topic."""
    return {entry.digest: entry for entry in entries if entry.kind == "event"}


def decode_log(registry: AbiRegistry, log: Mapping[str, Any]) -> DecodedEvent | None:
    """What a log says; None where it is of another contract or an event that the registry does not know.
    Raises EnvironmentFault, with its place, for one that is not what the ABI says."""
    entry = registry.find(log)
    if entry is None:
        return None
    contract = registry.contracts[str(log["address"]).lower()]
    topics = [bytes(topic) for topic in log["topics"]]
    try:
        return DecodedEvent(contract, entry.name, decode_event(entry, topics, bytes(log["data"])))
    except EnvironmentFault as fault:
        fault.where = f"{contract}.{entry.name}, log {log.get('logIndex')} of block {log.get('blockNumber')}"
        fault.args = (fault.message(),)
        raise


def decode_event(entry: Entry, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
    """The arguments of a log by name, in the order of the declaration; of an indexed text, list or struct the
    hash that its topic is. Raises EnvironmentFault where the log is not of this event's form."""
    indexed = [parameter for parameter in entry.inputs if parameter.is_indexed]
    plain = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    if len(topics) != len(indexed) + 1 or any(len(topic) != 32 for topic in topics):
        raise EnvironmentFault(
            what="a log has other topics than its event",
            expected=f"{len(indexed) + 1} topics of 32 bytes",
            actual=f"topics of {[len(topic) for topic in topics]} bytes",
            remedy="Check that the deployment file belongs to this chain and this version.",
            retryable=False,
        )
    found = {
        parameter.name: topic if parameter.is_hashed else decode_values([parameter], topic)[0]
        for parameter, topic in zip(indexed, topics[1:], strict=True)
    }
    found.update(zip((p.name for p in plain), decode_values(plain, data), strict=True))
    return {parameter.name: found[parameter.name] for parameter in entry.inputs}


LOG_SPAN_BLOCKS = 2_000
"""Blocks in one request, at most: public nodes refuse longer ranges."""
RETRY_S = 0.5
"""Until logs that did not come are asked for again."""
REMEMBERED_HEADS = 1_024
"""A reorg deeper than these heads makes the follower read from the start again: slow, still right."""


@dataclass(frozen=True)
class Event(DecodedEvent):
    """One log, decoded, and its place: `block_number` and `log_index` order all events of a chain."""

    block_number: int
    log_index: int
    block_hash: bytes
    transaction_hash: bytes


@dataclass(frozen=True)
class LogBatch:
    """What happened up to `head`. With `forget_from` set, all earlier events from that block on are void: a
    reorg."""

    head: Head
    events: tuple[Event, ...]
    forget_from: int | None = None


class EventReader:
    """Reads and decodes the logs of one deployment."""

    def __init__(self, connection: Connection, deployment: Addresses) -> None:
        self._connection = connection
        self._registry = make_registry({address: name for name, address in deployment.contracts().items()})

    async def read(self, from_block: int, to_block: int) -> list[Event]:
        """Events of the blocks [from_block, to_block] in the chain's order. Raises EnvironmentFault."""
        found: list[Event] = []
        start, span = from_block, LOG_SPAN_BLOCKS
        while start <= to_block:
            end = min(start + span - 1, to_block)
            try:
                found += self.decode(await self._connection.logs(list(self._registry.contracts), start, end))
            except EnvironmentFault:
                # Any account can log a lot: an answer that is too long, or too slow, comes in parts.
                if end == start:
                    raise
                span = (end - start + 1) // 2
                continue
            start = end + 1
        return sorted(found, key=lambda event: (event.block_number, event.log_index))

    def decode(self, logs: Sequence[dict[str, Any]]) -> list[Event]:
        """Decode raw logs, of a receipt for example; those of other contracts (the token) are left out."""
        decoded = (self._decode_one(log) for log in logs)
        return [event for event in decoded if event is not None]

    def _decode_one(self, log: dict[str, Any]) -> Event | None:
        found = decode_log(self._registry, log)
        if found is None:
            return None
        return Event(
            found.contract,
            found.name,
            found.arguments,
            int(log["blockNumber"]),
            int(log["logIndex"]),
            bytes(log["blockHash"]),
            bytes(log["transactionHash"]),
        )


class Follower:
    """Hands out every event once, in order, from `from_block` on; tells when a reorg has voided some."""

    def __init__(
        self, connection: Connection, reader: EventReader, from_block: int, processed: Sequence[Head] = ()
    ) -> None:
        """processed: heads whose events were handed out before this process began, ascending."""
        self._connection = connection
        self._reader = reader
        self._from_block = from_block
        self._processed: deque[Head] = deque(processed, maxlen=REMEMBERED_HEADS)

    async def batches(self) -> AsyncIterator[LogBatch]:
        """A batch for every new head, the first at once. Never ends; raises EnvironmentFault as `heads`
        does."""
        async for head in self._connection.heads():
            batch = await self._read_patiently(head)
            if batch is not None:
                yield batch

    async def _read_patiently(self, head: Head) -> LogBatch | None:
        """As `read_up_to`. A chain that tells of a head and then is silent is asked again as `heads` does: a
        node that ended there would be silent itself."""
        silent_since: float | None = None
        while True:
            try:
                return await self.read_up_to(head)
            except EnvironmentFault as fault:
                silent_since = silent_since or time.monotonic()
                if not fault.retryable or time.monotonic() - silent_since > PATIENCE_S:
                    raise
            await asyncio.sleep(RETRY_S)

    async def read_up_to(self, head: Head) -> LogBatch | None:
        """The batch that ends at `head`, or None when the chain has moved to another branch meanwhile."""
        known = list(self._processed)
        while known and known[-1].block_hash != head.parent_hash and not await self._is_on_chain(known[-1]):
            known.pop()
        has_forked = len(known) < len(self._processed)
        start = known[-1].number + 1 if known else self._from_block
        events = await self._reader.read(start, head.number)
        if not await self._is_on_chain(head):
            return None
        self._processed = deque([*known, head], maxlen=REMEMBERED_HEADS)
        return LogBatch(head, tuple(events), start if has_forked else None)

    async def _is_on_chain(self, head: Head) -> bool:
        found = await self._connection.block(head.number)
        return found is not None and found.block_hash == head.block_hash


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


@dataclass(frozen=True)
class Receipt:
    """A mined transaction: where it stands, what it cost, and the events of the contracts in it."""

    transaction_hash: bytes
    block_number: int
    gas_used: int
    fee_wei: int
    events: tuple[Event, ...]

    def find(self, name: str) -> Event:
        """The first event of that name. Raises KeyError where there is none: the contract is not ours."""
        for event in self.events:
            if event.name == name:
                return event
        raise KeyError(name)


class Contract:
    """One contract at one address. A method that sends returns the Receipt once the call is mined; one that
    reads returns the value, or a named tuple of several. Raises ContractRefused where the contract reverts,
    and InvalidInput where an argument does not fit. Reading needs no account."""

    def __init__(
        self,
        name: str,
        address: str,
        connection: Connection,
        sender: Sender | None,
        reader: EventReader,
        entries: Sequence[Entry] = (),
    ) -> None:
        """entries: the ABI, where it is not in the package data."""
        self.name = name
        self.address = address
        self._connection = connection
        self._sender = sender
        self._reader = reader
        self._functions = _index_functions(tuple(entries) or load_own_abi(name))

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        entry = self.__dict__.get("_functions", {}).get(name)
        if entry is None:
            raise AttributeError(f"{self.__dict__.get('name')} has no function {name}")
        return partial(self._read if entry.is_view else self._send, entry)

    async def _read(self, entry: Entry, *arguments: Any) -> Any:
        where = f"{self.name}.{entry.name}"
        data = await self._connection.call(self.address, encode_call(entry, arguments), where)
        values = decode_values(entry.outputs, data)
        if len(values) < 2:
            return values[0] if values else None
        return _make_answer_type(entry)(*values)

    def encode(self, name: str, *arguments: Any) -> bytes:
        """Returns the data of a call of a function. Raises InvalidInput where an argument does not fit."""
        return encode_call(self._functions[name], arguments)

    async def estimate_gas(self, name: str, *arguments: Any) -> int:
        """Returns the gas that sending a function would take in the next block, as the chain's node
        estimates it. Raises as sending does."""
        where = f"{self.name}.{self._functions[name].name}"
        sender, data = self._require_sender(where).address, self.encode(name, *arguments)
        return await self._connection.estimate_gas(sender, self.address, data, where)

    def _require_sender(self, where: str) -> Sender:
        if self._sender is None:
            raise InvalidInput(
                what="this connection is for reading only",
                expected="an account that signs",
                actual=f"none, for {where}",
                remedy="Open the chain with an account.",
            )
        return self._sender

    async def _send(self, entry: Entry, *arguments: Any) -> Receipt:
        where = f"{self.name}.{entry.name}"
        receipt = await self._require_sender(where).send(self.address, encode_call(entry, arguments), where)
        transaction = bytes(receipt["transactionHash"])
        named = dict(zip((one.name for one in entry.inputs), arguments, strict=True))
        facts = {"transaction": transaction.hex(), "round": named.get("round")}
        log.info("%s is mined in block %d", where, receipt["blockNumber"], extra=facts)
        return Receipt(
            transaction,
            int(receipt["blockNumber"]),
            int(receipt["gasUsed"]),
            int(receipt["gasUsed"]) * int(receipt["effectiveGasPrice"]),
            tuple(self._reader.decode([dict(log) for log in receipt["logs"]])),
        )


@cache
def _index_functions(entries: tuple[Entry, ...]) -> dict[str, Entry]:
    return {to_snake_case(entry.name): entry for entry in entries if entry.kind == "function"}


@cache
def _make_answer_type(entry: Entry) -> Callable[..., Any]:
    """The named tuple of a function's outputs."""
    return namedtuple(entry.name, [output.name for output in entry.outputs])
