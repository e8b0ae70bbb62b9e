"""Tables of a TOML file become dataclasses; what is missing, unknown or misshapen is refused by its key."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest

Container = TypeVar("Container")
ToUnits = Callable[[type, Mapping[str, Any]], Mapping[str, Any]]
"""(kind, table): the values of a table in the units of its dataclass."""


def keep_units(kind: type, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values as they stand there."""
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """A whole file. Raises InvalidInput."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise malformed(path, "", "a TOML file", f"{type(error).__name__}: {error}") from error


def build_container(
    kind: type[Container],
    values: Any,
    path: Path,
    where: str = "",
    to_units: ToUnits = keep_units,
) -> Container:
    """A dataclass from a table, nested tables included; floats become the nearest float32. where: the keys
    above, each with a dot behind it.

    Raises InvalidInput naming the key.
    """
    if not isinstance(values, Mapping):
        raise malformed(path, where.rstrip("."), "a table", repr(values))
    assert is_dataclass(kind)
    known, types = {field.name: field for field in fields(kind)}, get_type_hints(kind)
    for name in values:
        if name not in known:
            raise malformed(path, where + name, f"one of {', '.join(known)}", "an unknown key")
    table, arguments = to_units(kind, values), {}
    for name, field in known.items():
        if name in table:
            arguments[name] = _convert(types[name], table[name], path, where + name, to_units)
        elif not _has_default(field):
            raise malformed(path, where + name, types[name].__name__, "nothing")
    return kind(**arguments)


def malformed(path: Path, key: str, expected: str, actual: str) -> InvalidInput:
    """The error of one key; of the whole file where there is none."""
    return InvalidInput(
        what="the file is malformed",
        expected=expected,
        actual=actual,
        where=f"{path}, {key}" if key else str(path),
        remedy="Correct the file; `touchstone task example` writes a whole one.",
    )


def _convert(kind: Any, value: Any, path: Path, where: str, to_units: ToUnits) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return build_container(kind, value, path, where + ".", to_units)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return nearest(float(value))
    # bool is an int in Python, never in a file of ours.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise malformed(path, where, kind.__name__, repr(value))
    return value


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
