"""Calls a contract by the names in its ABI.

A new function of a contract needs no code here. `await chain.vault.deposit(wei)` sends `Vault.deposit`; a
`view` or `pure` function is read. Names are the ABI's in snake case, and `abi_values.py` converts the values.
The files in `contracts/game/interfaces` are the manual.
"""

import logging
from collections import namedtuple
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from touchstone.protocol.adapters.chain.abi import Entry, load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import decode_values, encode_call
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event, EventReader
from touchstone.protocol.adapters.chain.transactions import Sender
from touchstone.protocol.spec.errors import InvalidInput

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Receipt:
    """A mined transaction: its place, its cost, and the contracts' events in it."""

    transaction_hash: bytes
    block_number: int
    gas_used: int
    fee_wei: int
    events: tuple[Event, ...]

    def find(self, name: str) -> Event:
        """Returns the first event with that name. Raises KeyError if there is none, which means that the
        contract is not of this project."""
        for event in self.events:
            if event.name == name:
                return event
        raise KeyError(name)


class Contract:
    """One contract at one address. A method that sends returns the Receipt once the call is mined. A method
    that reads returns the value, or a named tuple of several. Raises ContractRefused if the contract reverts,
    InvalidInput if an argument does not fit. Reading needs no account."""

    def __init__(
        self,
        name: str,
        address: str,
        connection: Connection,
        sender: Sender | None,
        reader: EventReader,
        entries: Sequence[Entry] = (),
    ) -> None:
        """Loads the ABI. `entries` replaces it if it is not in the package data."""
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
        """Returns the data of a call of a function. Raises InvalidInput if an argument does not fit."""
        return encode_call(self._functions[name], arguments)

    async def estimate_gas(self, name: str, *arguments: Any) -> int:
        """Returns the gas that the chain's node estimates for sending a function in the next block. Raises as
        sending does."""
        where = f"{self.name}.{self._functions[name].name}"
        sender, data = self._require_sender(where).address, self.encode(name, *arguments)
        return await self._connection.estimate_gas(sender, self.address, data, where)

    def _require_sender(self, where: str) -> Sender:
        if self._sender is None:
            raise InvalidInput(
                what="this connection can only read",
                expected="an account that signs",
                actual=f"none, for {where}",
                remedy="Open the chain with an account.",
            )
        return self._sender

    async def _send(self, entry: Entry, *arguments: Any) -> Receipt:
        where = f"{self.name}.{entry.name}"
        receipt = await self._require_sender(where).send(self.address, encode_call(entry, arguments), where)
        named = dict(zip((one.name for one in entry.inputs), arguments, strict=True))
        facts = {"transaction": receipt.transaction_hash.hex(), "round": named.get("round")}
        log.info("%s is mined in block %d", where, receipt.block_number, extra=facts)
        return Receipt(
            receipt.transaction_hash,
            receipt.block_number,
            receipt.gas_used,
            receipt.gas_used * receipt.gas_price_wei,
            tuple(self._reader.decode(receipt.logs)),
        )


@cache
def _index_functions(entries: tuple[Entry, ...]) -> dict[str, Entry]:
    return {to_snake_case(entry.name): entry for entry in entries if entry.kind == "function"}


@cache
def _make_answer_type(entry: Entry) -> Callable[..., Any]:
    """Returns the named tuple type of a function's outputs."""
    return namedtuple(entry.name, [output.name for output in entry.outputs])
