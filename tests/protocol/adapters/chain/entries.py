"""What the interfaces' ABI lists, for the tests that walk all of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from touchstone.protocol.adapters.chain.abi import Entry, Parameter, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import find_struct
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS


def list_entries(kind: str) -> list[Entry]:
    return [entry for name in GAME_CONTRACTS.values() for entry in load_own_abi(name) if entry.kind == kind]


def describe(entry: Entry) -> str:
    return f"{entry.contract}.{entry.name}"


def compute_zero(parameter: Parameter) -> object:
    if parameter.is_list:
        return []
    if parameter.items:
        values = [compute_zero(item) for item in parameter.items]
        return find_struct(parameter.type_name, parameter.items)(*values)
    if parameter.kind.startswith("bytes"):
        return bytes(int(parameter.kind.removeprefix("bytes") or 0))
    return {"address": "0x" + 40 * "0", "bool": False, "string": ""}.get(parameter.kind, 0)


def make_sample(parameter: Parameter, seed: int = 1) -> Any:
    """A value of the parameter's type, as it is read back."""
    if parameter.is_list:
        item = replace(parameter, kind=parameter.kind.rpartition("[")[0])
        return tuple(make_sample(item, seed + number) for number in range(2))
    if parameter.items:
        values = [make_sample(item, seed + number) for number, item in enumerate(parameter.items)]
        return find_struct(parameter.type_name, parameter.items)(*values)
    if parameter.kind.startswith("bytes"):
        return seed.to_bytes(1, "big") * int(parameter.kind.removeprefix("bytes") or 40)
    return {"address": f"0x{seed:040x}", "bool": True, "string": f"text {seed}"}.get(parameter.kind, seed)


def walk(parameters: tuple[Parameter, ...]) -> Iterator[Parameter]:
    for parameter in parameters:
        yield parameter
        yield from walk(parameter.items)
