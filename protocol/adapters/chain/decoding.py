"""From a raw log to what it says, by the ABI alone: a new event, or a new contract, needs no code here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.adapters.chain.abi import Entry, load_own_abi
from protocol.adapters.chain.values import decode_values
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
