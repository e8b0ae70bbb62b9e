"""Reads the contracts' ABI from the package data: functions, events and errors, with their parameters.

Names are in snake case. Signatures and types come from eth-utils, in web3's spelling.
"""

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from eth_typing.abi import ABIComponent, ABIElement
from eth_utils.abi import abi_to_signature, collapse_if_tuple
from eth_utils.crypto import keccak

from touchstone.protocol.spec.errors import EnvironmentFault

SELECTOR_BYTES = 4


@dataclass(frozen=True)
class Parameter:
    """One input or output. `name` is in snake case, `kind` the canonical type, `items` the fields of a
    struct."""

    name: str
    kind: str
    type_name: str
    items: tuple["Parameter", ...]
    is_indexed: bool

    @property
    def is_list(self) -> bool:
        """Whether the value is a list; the other fields then describe an item."""
        return self.kind.endswith("]")

    @property
    def is_hashed(self) -> bool:
        """Whether the topic of this indexed parameter is a hash of its value, from which the value cannot be
        recovered."""
        return self.is_list or bool(self.items) or self.kind in ("string", "bytes")


@dataclass(frozen=True)
class Entry:
    """A function, event or error of `contract`. `signature` is name and types; `digest` is its Keccak-256.
    The first four bytes of the digest select a function or an error; the whole is the first topic of an
    event."""

    contract: str
    name: str
    kind: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    signature: str
    digest: bytes
    is_view: bool = False
    """Whether the function changes nothing: then it is called without a transaction."""

    @property
    def selector(self) -> bytes:
        """The four bytes in front of a call's or an error's data."""
        return self.digest[:SELECTOR_BYTES]


@cache
def load_document(contract: str) -> Mapping[str, Any]:
    """Returns the JSON that `./dev compile` wrote for `contract`. Raises EnvironmentFault if it is
    missing."""
    source = files("touchstone.protocol.adapters") / "abi" / f"{contract}.json"
    if not source.is_file():
        raise EnvironmentFault(
            what="a contract's ABI is missing from the package",
            expected=f"abi/{contract}.json",
            actual="no such file",
            remedy="Run ./dev compile.",
            retryable=False,
        )
    return json.loads(source.read_bytes())  # type: ignore[no-any-return]


@cache
def load_abi(contract: str) -> tuple[Entry, ...]:
    """Returns functions, events and errors of `contract` from the package data. Raises EnvironmentFault if it
    is missing."""
    return parse_abi(contract, load_document(contract)["abi"])


def load_own_abi(contract: str) -> tuple[Entry, ...]:
    """Returns the ABI of a contract's interface, or of the contract itself if the package has no interface
    for it."""
    names = list_package_abis()
    return load_abi(f"I{contract}" if f"I{contract}" in names else contract)


def load_bytecode(contract: str) -> bytes:
    """Returns the creation code of `contract` from the package data, without constructor arguments."""
    return bytes.fromhex(load_document(contract)["bytecode"].removeprefix("0x"))


@cache
def list_package_abis() -> tuple[str, ...]:
    """Returns the names of all contracts and interfaces in the package data, sorted."""
    names = (entry.name for entry in (files("touchstone.protocol.adapters") / "abi").iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def parse_abi(contract: str, abi: Sequence[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """Returns the functions, events, errors and the constructor (name `constructor`) of a JSON ABI."""
    kinds = ("function", "event", "error", "constructor")
    return tuple(_parse_entry(contract, item) for item in abi if item["type"] in kinds)


def find_function(entries: Sequence[Entry], name: str) -> Entry:
    """Returns the function called `name` in Solidity. Raises KeyError, which means that the caller passed
    another contract's ABI."""
    return next(entry for entry in entries if entry.kind == "function" and entry.name == name)


def to_snake_case(name: str) -> str:
    """Converts a name: `weightsRoot` becomes `weights_root`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def to_field_name(name: str, number: int) -> str:
    """Returns the Python name of a parameter: `weights_root`, `from_`, or `value_3` if parameter 3 has no
    name."""
    found = to_snake_case(name.lstrip("_")) or f"value_{number}"
    return found + "_" if keyword.iskeyword(found) else found


def _parse_entry(contract: str, item: Mapping[str, Any]) -> Entry:
    inputs, outputs = (_parse_parameters(item.get(side, ())) for side in ("inputs", "outputs"))
    name, signature = item.get("name", "constructor"), abi_to_signature(cast(ABIElement, item))
    is_view = item.get("stateMutability") in ("view", "pure")
    return Entry(contract, name, item["type"], inputs, outputs, signature, keccak(text=signature), is_view)


def _parse_parameters(items: Sequence[Mapping[str, Any]]) -> tuple[Parameter, ...]:
    return tuple(_parse_parameter(number, item) for number, item in enumerate(items))


def _parse_parameter(number: int, item: Mapping[str, Any]) -> Parameter:
    items, kind = _parse_parameters(item.get("components", ())), collapse_if_tuple(cast(ABIComponent, item))
    # "struct StateLeaves[]", "enum IDisputes.Stage" -> "StateLeaves", "Stage"
    type_name = item.get("internalType", "").split(" ")[-1].split(".")[-1].split("[")[0]
    name = to_field_name(item["name"], number)
    return Parameter(name, kind, type_name, items, item.get("indexed", False))
