"""Encodes Python values for the contracts' ABI, and decodes them.

Numbers and enums are int, `bytesN` are bytes, addresses are lower-case `0x` strings, lists are tuples. A
struct of the same name in `STRUCTS` has that class; any other is a named tuple. Fields carry the Solidity
name in snake case.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError

from touchstone.protocol.adapters.chain.abi import Entry, Parameter
from touchstone.protocol.spec import openings, state_headers, task_spec
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput


@dataclass(frozen=True)
class BoundaryProof:
    """A salted boundary leaf and its path in the claim tree."""

    header: state_headers.StateHeader
    salt: bytes
    path: tuple[bytes, ...]


STRUCTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        state_headers.StateHeader, task_spec.Limits, openings.LeafProof, openings.StateLeaves,
        task_spec.StepFacts, openings.NodeProof, openings.BufferOpening, openings.TraceProof,
        task_spec.StepContext, BoundaryProof,
    )
}  # fmt: skip


def encode_call(entry: Entry, arguments: Sequence[Any]) -> bytes:
    """Returns the call data of a function: selector and arguments. Raises InvalidInput if a value does not
    fit its type."""
    return entry.selector + encode_values(entry.inputs, arguments)


def encode_values(parameters: Sequence[Parameter], values: Sequence[Any]) -> bytes:
    """Returns the plain ABI encoding of `values`. Raises InvalidInput if one does not fit its type."""
    try:
        plain = [_to_plain(p, p.kind, value) for p, value in zip(parameters, values, strict=True)]
        return encode([parameter.kind for parameter in parameters], plain)
    except (EncodingError, TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise InvalidInput(
            what="a value does not fit the contract's parameter",
            expected=", ".join(f"{parameter.kind} {parameter.name}" for parameter in parameters),
            actual=f"{error}",
            remedy="Check the types and lengths of what is sent.",
        ) from error


def decode_values(parameters: Sequence[Parameter], data: bytes) -> list[Any]:
    """Decodes `data` and returns the values in the order of `parameters`. Invalid UTF-8 in a string becomes
    U+FFFD. Raises EnvironmentFault if `data` does not encode such values."""
    # Decode strings as bytes: Solidity does not check text, so its sender chooses the bytes.
    kinds = [parameter.kind.replace("string", "bytes") for parameter in parameters]
    try:
        values = decode(kinds, data)
        return [_from_plain(p, p.kind, value) for p, value in zip(parameters, values, strict=True)]
    except (DecodingError, OverflowError) as error:
        raise EnvironmentFault(
            what="the chain answered something that the ABI does not describe",
            expected=", ".join(f"{parameter.kind} {parameter.name}" for parameter in parameters),
            actual=f"{len(data)} bytes: {error}",
            remedy="Check that the deployment file belongs to this chain and this version.",
            retryable=False,
        ) from error


def _to_plain(parameter: Parameter, kind: str, value: Any) -> Any:
    """Converts one value. `kind` is the value's type; for a list, the type of an item."""
    if kind.endswith("]"):
        return [_to_plain(parameter, kind.rpartition("[")[0], item) for item in value]
    if parameter.items:
        return _to_plain_struct(parameter, value)
    return int(value) if isinstance(value, IntEnum) else value


def _to_plain_struct(parameter: Parameter, value: Any) -> tuple[Any, ...]:
    """Returns a struct's fields: by order from a plain tuple, by name from any other object."""
    items = parameter.items
    if type(value) is tuple:
        return tuple(_to_plain(item, item.kind, part) for item, part in zip(items, value, strict=True))
    return tuple(_to_plain(item, item.kind, _get_field(value, item.name)) for item in items)


def _get_field(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, Mapping) else getattr(value, name)


def _from_plain(parameter: Parameter, kind: str, value: Any) -> Any:
    if kind.endswith("]"):
        return tuple(_from_plain(parameter, kind.rpartition("[")[0], item) for item in value)
    if parameter.items:
        parts = (_from_plain(p, p.kind, part) for p, part in zip(parameter.items, value, strict=True))
        return find_struct(parameter.type_name, parameter.items)(*parts)
    return value.decode(errors="replace") if kind == "string" else value


@cache
def find_struct(name: str, items: tuple[Parameter, ...]) -> Callable[..., Any]:
    """Returns the class in `STRUCTS` with exactly these fields, or a named tuple of them."""
    names, known = [item.name for item in items], STRUCTS.get(name)
    if known is not None and [field.name for field in fields(known)] == names:
        return known
    return namedtuple(name, names)
