"""From the contracts' ABI to Python values and back, so that no other module knows how the chain encodes.

Numbers are int, `bytesN` are bytes, addresses are lower-case `0x` strings, structs are the dataclasses of
`protocol/spec` of the same name and enums its enums; fields carry the Solidity name in snake case.
Format: Solidity documentation, "Contract ABI Specification".
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.crypto import keccak

from protocol.adapters.chain.types import ENUMS, STRUCTS
from protocol.spec.errors import EnvironmentFault, InvalidInput

SELECTOR_BYTES = 4


@dataclass(frozen=True)
class Parameter:
    """One input or output: `name` in snake case, `kind` the canonical type, `items` the fields of a
    struct."""

    name: str
    kind: str
    type_name: str
    items: tuple["Parameter", ...]
    is_indexed: bool

    @property
    def is_list(self) -> bool:
        """Whether the value is a dynamic array of what the other fields describe."""
        return self.kind.endswith("]")


@dataclass(frozen=True)
class Entry:
    """A function, event or error of `contract`. `digest` is Keccak-256 of its signature: its first four bytes
    select a function or an error, all of it is an event's first topic."""

    contract: str
    name: str
    kind: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    digest: bytes
    is_view: bool = False
    """Whether a call of the function changes nothing, so that it is read and not sent."""

    @property
    def selector(self) -> bytes:
        """The four bytes in front of a call's or an error's data."""
        return self.digest[:SELECTOR_BYTES]


@cache
def load_abi(contract: str) -> tuple[Entry, ...]:
    """Functions, events and errors of `contract` from the package data. Raises EnvironmentFault when it is
    missing."""
    source = files("protocol.adapters") / "abi" / f"{contract}.json"
    if not source.is_file():
        raise EnvironmentFault(
            what="a contract's ABI is missing from the package",
            expected=f"abi/{contract}.json",
            actual="no such file",
            remedy="Run ./dev compile.",
            retryable=False,
        )
    return parse_abi(contract, json.loads(source.read_text())["abi"])


@cache
def load_bytecode(contract: str) -> bytes:
    """Creation code of `contract` from the package data, without constructor arguments."""
    document = json.loads((files("protocol.adapters") / "abi" / f"{contract}.json").read_text())
    return bytes.fromhex(document["bytecode"].removeprefix("0x"))


def list_package_abis() -> tuple[str, ...]:
    """Names of all contracts and interfaces in the package data, sorted."""
    names = (entry.name for entry in (files("protocol.adapters") / "abi").iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def parse_abi(contract: str, abi: Sequence[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """The functions, events, errors and the constructor (name `constructor`) of a JSON ABI."""
    kinds = ("function", "event", "error", "constructor")
    return tuple(_parse_entry(contract, item) for item in abi if item["type"] in kinds)


def find_function(entries: Sequence[Entry], name: str) -> Entry:
    """The function called `name` in Solidity. Raises KeyError: the caller is a proxy, so the ABI is not its
    own."""
    return next(entry for entry in entries if entry.kind == "function" and entry.name == name)


def encode_call(entry: Entry, arguments: Sequence[Any]) -> bytes:
    """Call data of a function: selector and arguments. Raises InvalidInput where a value does not fit its
    type."""
    return entry.selector + encode_values(entry.inputs, arguments)


def encode_values(parameters: Sequence[Parameter], values: Sequence[Any]) -> bytes:
    """Plain ABI encoding of `values`. Raises InvalidInput where one does not fit its type."""
    try:
        plain = [_to_plain(parameter, value) for parameter, value in zip(parameters, values, strict=True)]
        return encode([parameter.kind for parameter in parameters], plain)
    except (EncodingError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(
            what="a value does not fit the contract's parameter",
            expected=", ".join(f"{parameter.kind} {parameter.name}" for parameter in parameters),
            actual=f"{error}",
            remedy="Check the types and lengths of what is sent.",
        ) from error


def decode_values(parameters: Sequence[Parameter], data: bytes) -> list[Any]:
    """The values of `data` in the order of `parameters`; what is no UTF-8 in a string becomes U+FFFD. Raises
    EnvironmentFault where `data` is not their encoding."""
    # Solidity checks no text, so whoever sends a string chooses its bytes. Its encoding is that of bytes.
    kinds = [parameter.kind.replace("string", "bytes") for parameter in parameters]
    try:
        values = decode(kinds, data)
    except (DecodingError, OverflowError) as error:
        raise EnvironmentFault(
            what="the chain answered something that the ABI does not describe",
            expected=", ".join(f"{parameter.kind} {parameter.name}" for parameter in parameters),
            actual=f"{len(data)} bytes: {error}",
            remedy="Check that the deployment file belongs to this chain and this version.",
            retryable=False,
        ) from error
    return [_from_plain(parameter, value) for parameter, value in zip(parameters, values, strict=True)]


def decode_event(entry: Entry, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
    """The arguments of a log by name, in the order of the declaration. Only value types may be indexed."""
    indexed = [parameter for parameter in entry.inputs if parameter.is_indexed]
    plain = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    found = {
        parameter.name: decode_values([parameter], topic)[0]
        for parameter, topic in zip(indexed, topics[1:], strict=True)
    }
    found.update(zip((p.name for p in plain), decode_values(plain, data), strict=True))
    return {parameter.name: found[parameter.name] for parameter in entry.inputs}


def to_snake_case(name: str) -> str:
    """`weightsRoot` -> `weights_root`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _parse_entry(contract: str, item: Mapping[str, Any]) -> Entry:
    inputs = tuple(map(_parse_parameter, item.get("inputs", ())))
    outputs = tuple(map(_parse_parameter, item.get("outputs", ())))
    name = item.get("name", "constructor")
    signature = f"{name}({','.join(parameter.kind for parameter in inputs)})"
    is_view = item.get("stateMutability") in ("view", "pure")
    return Entry(contract, name, item["type"], inputs, outputs, keccak(text=signature), is_view)


def _parse_parameter(item: Mapping[str, Any]) -> Parameter:
    items = tuple(map(_parse_parameter, item.get("components", ())))
    kind = item["type"]
    if kind.startswith("tuple"):
        kind = f"({','.join(part.kind for part in items)})" + kind.removeprefix("tuple")
    # "struct StateLeaves[]", "enum IDisputeGame.Stage" -> "StateLeaves", "Stage"
    type_name = item.get("internalType", "").split(" ")[-1].split(".")[-1].split("[")[0]
    return Parameter(to_snake_case(item["name"]), kind, type_name, items, item.get("indexed", False))


def _to_plain(parameter: Parameter, value: Any) -> Any:
    if parameter.is_list and parameter.items:
        return [_struct_to_plain(parameter, item) for item in value]
    if parameter.items:
        return _struct_to_plain(parameter, value)
    return int(value) if isinstance(value, IntEnum) else value


def _struct_to_plain(parameter: Parameter, value: Any) -> tuple[Any, ...]:
    return tuple(_to_plain(item, getattr(value, item.name)) for item in parameter.items)


def _from_plain(parameter: Parameter, value: Any) -> Any:
    if parameter.is_list:
        return tuple(_item_from_plain(parameter, item) for item in value)
    return _item_from_plain(parameter, value)


def _item_from_plain(parameter: Parameter, value: Any) -> Any:
    if parameter.items:
        fields = {
            item.name: _from_plain(item, part) for item, part in zip(parameter.items, value, strict=True)
        }
        return STRUCTS[parameter.type_name](**fields)
    if parameter.type_name in ENUMS:
        return ENUMS[parameter.type_name](value)
    return value.decode(errors="replace") if parameter.kind == "string" else value
