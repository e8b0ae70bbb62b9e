"""What all contract proxies share: a call becomes data, the answer becomes values, a refusal becomes an
error."""

from dataclasses import dataclass
from typing import Any, TypeVar

from protocol.adapters.chain.abi import Entry, decode_values, encode_call, find_function, load_abi
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.logs import Event, EventReader
from protocol.adapters.chain.transactions import Sender
from protocol.spec.errors import InvalidInput

Answer = TypeVar("Answer")


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


class Proxy:
    """One contract at one address. Reading needs no account; sending needs a Sender."""

    contract = ""
    entries: tuple[Entry, ...] | None = None
    """Where the ABI is not that of `I<contract>` in the package data."""

    def __init__(
        self, connection: Connection, sender: Sender | None, reader: EventReader, address: str
    ) -> None:
        self.address = address
        self._connection = connection
        self._sender = sender
        self._reader = reader
        self._entries = self.entries or load_abi(f"I{self.contract}")

    async def _read(self, kind: type[Answer], name: str, *arguments: Any) -> Answer:
        """What a view returns: a `kind`, which for several values is a NamedTuple of them."""
        entry = find_function(self._entries, name)
        where = f"{self.contract}.{name}"
        data = await self._connection.call(self.address, encode_call(entry, arguments), where)
        values = decode_values(entry.outputs, data)
        answer = values[0] if len(values) == 1 else kind(*values)
        if not isinstance(answer, kind):
            raise TypeError(f"{where}: expected {kind.__name__}, got {type(answer).__name__}; mend the proxy")
        return answer

    async def _send(self, name: str, *arguments: Any) -> Receipt:
        """Send a call and wait until it is mined."""
        if self._sender is None:
            raise InvalidInput(
                what="this connection is for reading only",
                expected="an account that signs",
                actual=f"none, for {self.contract}.{name}",
                remedy="Open the chain with an account.",
            )
        entry = find_function(self._entries, name)
        data = encode_call(entry, arguments)
        receipt = await self._sender.send(self.address, data, f"{self.contract}.{name}")
        return Receipt(
            bytes(receipt["transactionHash"]),
            int(receipt["blockNumber"]),
            int(receipt["gasUsed"]),
            int(receipt["gasUsed"]) * int(receipt["effectiveGasPrice"]),
            tuple(self._reader.decode([dict(log) for log in receipt["logs"]])),
        )
