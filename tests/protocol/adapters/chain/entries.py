"""What the interfaces' ABI lists, for the tests that walk all of it."""

from collections.abc import Iterator

from protocol.adapters.chain.abi import Entry, Parameter, load_abi
from protocol.adapters.chain.deployment import CONTRACT_NAMES
from protocol.adapters.chain.types import STRUCTS


def list_entries(kind: str) -> list[Entry]:
    return [entry for name in CONTRACT_NAMES.values() for entry in load_abi(f"I{name}") if entry.kind == kind]


def describe(entry: Entry) -> str:
    return f"{entry.contract}.{entry.name}"


def compute_zero(parameter: Parameter) -> object:
    if parameter.is_list:
        return []
    if parameter.items:
        kind = STRUCTS[parameter.type_name]
        return kind(**{item.name: compute_zero(item) for item in parameter.items})
    if parameter.kind.startswith("bytes"):
        return bytes(int(parameter.kind.removeprefix("bytes") or 0))
    return {"address": "0x" + 40 * "0", "bool": False, "string": ""}.get(parameter.kind, 0)


def walk(parameters: tuple[Parameter, ...]) -> Iterator[Parameter]:
    for parameter in parameters:
        yield parameter
        yield from walk(parameter.items)
