"""The events of the contracts in order: decoded by the ABI alone, gaps back-filled, reorgs noticed.

A new event, or a new contract, needs no code here.

A follower remembers the hashes of the heads it has processed. When the newest of them is no longer on the
chain, it walks back to one that is. It says from where everything is void, and reads again from there.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.adapters.chain.abi import Entry, decode_values, load_own_abi
from protocol.adapters.chain.connection import Connection, Head
from protocol.adapters.chain.deployment import Addresses
from protocol.spec.errors import EnvironmentFault


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

    def __init__(self, connection: Connection, reader: EventReader, from_block: int) -> None:
        self._connection = connection
        self._reader = reader
        self._from_block = from_block
        self._processed: deque[Head] = deque(maxlen=REMEMBERED_HEADS)

    async def batches(self) -> AsyncIterator[LogBatch]:
        """A batch for every new head, the first at once. Never ends; raises EnvironmentFault as `heads`
        does."""
        async for head in self._connection.heads():
            batch = await self.read_up_to(head)
            if batch is not None:
                yield batch

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
