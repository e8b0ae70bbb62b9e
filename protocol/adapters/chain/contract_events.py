"""Decodes the contracts' events by the ABI alone, and reads them by block or by range.

A new event, or a new contract, needs no code here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from touchstone.protocol.adapters.chain.abi import Entry, Parameter, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import decode_values
from touchstone.protocol.adapters.chain.answers import Head, Log
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import PARTS, Addresses
from touchstone.protocol.adapters.chain.providers import AnswersDiffer
from touchstone.protocol.spec.errors import EnvironmentFault

LOG_SPAN_BLOCKS = 2_000
"""The most blocks in one request. Public nodes refuse longer ranges."""


@dataclass(frozen=True)
class DecodedEvent:
    """A decoded log: `contract` and `name` as in Solidity, `arguments` by snake-case name in declaration
    order."""

    contract: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class AbiRegistry:
    """The contracts by address in lower case, and the events of each by first topic."""

    contracts: Mapping[str, str]
    events: Mapping[str, Mapping[bytes, Entry]]

    def find(self, log: Log) -> Entry | None:
        """Returns the event of a log; None for another contract or an unknown event."""
        contract = self.contracts.get(log.address, "")
        return self.events.get(contract, {}).get(log.topics[0]) if log.topics else None


def make_registry(contracts: Mapping[str, str]) -> AbiRegistry:
    """Returns a registry. `contracts` maps addresses to names; the events come from the package's ABI."""
    events = {name: index_events(load_own_abi(name)) for name in contracts.values()}
    return AbiRegistry({address.lower(): name for address, name in contracts.items()}, events)


def index_events(entries: Sequence[Entry]) -> dict[bytes, Entry]:
    """Returns events by their first topic."""
    return {entry.digest: entry for entry in entries if entry.kind == "event"}


def decode_log(registry: AbiRegistry, log: Log) -> DecodedEvent | None:
    """Returns the decoded log; None for another contract or an unknown event. Raises EnvironmentFault, naming
    the log's place, if the log does not fit the ABI."""
    entry = registry.find(log)
    if entry is None:
        return None
    contract = registry.contracts[log.address]
    try:
        return DecodedEvent(contract, entry.name, decode_event(entry, log.topics, log.data))
    except EnvironmentFault as fault:
        where = f"{contract}.{entry.name}, log {log.log_index} of block {log.block_number}"
        raise EnvironmentFault(**{**vars(fault), "where": where}) from fault


def decode_event(entry: Entry, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
    """Returns the arguments of a log by name, in declaration order. An indexed text, list or struct is
    returned as the hash in its topic. Raises EnvironmentFault if the log does not fit the event."""
    indexed = [parameter for parameter in entry.inputs if parameter.is_indexed]
    plain = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    if len(topics) != len(indexed) + 1 or any(len(topic) != 32 for topic in topics):
        raise _other_topics(indexed, topics)
    found = {
        parameter.name: topic if parameter.is_hashed else decode_values([parameter], topic)[0]
        for parameter, topic in zip(indexed, topics[1:], strict=True)
    }
    found.update(zip((p.name for p in plain), decode_values(plain, data), strict=True))
    return {parameter.name: found[parameter.name] for parameter in entry.inputs}


def _other_topics(indexed: list[Parameter], topics: Sequence[bytes]) -> EnvironmentFault:
    return EnvironmentFault(
        what="a log has other topics than its event",
        expected=f"{len(indexed) + 1} topics of 32 bytes",
        actual=f"topics of {[len(topic) for topic in topics]} bytes",
        remedy="Check that the deployment file belongs to this chain and this version.",
        retryable=False,
    )


@dataclass(frozen=True)
class Event(DecodedEvent):
    """A decoded log with its place: `block_number` and `log_index` order all events of a chain."""

    block_number: int
    log_index: int
    block_hash: bytes
    transaction_hash: bytes


class EventReader:
    """Reads and decodes the logs of one deployment."""

    def __init__(self, connection: Connection, deployment: Addresses) -> None:
        self._connection = connection
        contracts = deployment.contracts().items()
        self._registry = make_registry({address: name for name, address in contracts if name not in PARTS})

    async def read(self, from_block: int, to_block: int) -> list[Event]:
        """Returns the events of the blocks from_block .. to_block, both included, in order. The blocks must
        be so old that every backend of a provider has them. Raises EnvironmentFault."""
        found: list[Event] = []
        start, span = from_block, LOG_SPAN_BLOCKS
        while start <= to_block:
            end = min(start + span - 1, to_block)
            try:
                addresses = list(self._registry.contracts)
                found += await self._connection.logs(addresses, start, end, self.decode)
            except AnswersDiffer:
                raise
            except EnvironmentFault:
                # Any account can write many logs, so an answer that is too long or too slow is asked for in
                # parts.
                if end == start:
                    raise
                span = (end - start + 1) // 2
                continue
            start = end + 1
        return found

    async def read_blocks(self, blocks: Sequence[Head]) -> list[list[Event]]:
        """Returns the events of each of these blocks, given by hash, because a backend that lacks a block
        then cannot answer. Raises EnvironmentFault."""
        addresses = list(self._registry.contracts)
        return await self._connection.logs_of_blocks(addresses, blocks, self.decode)

    def decode(self, logs: Sequence[Log]) -> list[Event]:
        """Returns the events in raw logs, for example those of a receipt. Logs of other contracts (the token)
        are left out."""
        decoded = (self._decode_one(log) for log in logs)
        return [event for event in decoded if event is not None]

    def _decode_one(self, log: Log) -> Event | None:
        found = decode_log(self._registry, log)
        if found is None:
            return None
        place = (log.block_number, log.log_index, log.block_hash, log.transaction_hash)
        return Event(found.contract, found.name, found.arguments, *place)
