"""Reads tables of TOML files into typed values.

A value that is missing, unknown or of another type is refused, and the error names its key.
"""

import tomllib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.scripts.command_line.typed_input import expect_known
from touchstone.scripts.home.home_files import CONFIG_FILE

Container = TypeVar("Container")
ToUnits = Callable[[type, Mapping[str, Any]], Mapping[str, Any]]
"""`to_units(kind, table)` returns the values of a table in the units of its dataclass."""

MAX_CHARACTERS = 4096
"""The most characters of a text in a file: the longest path on Linux."""
MAX_BITS = 256
"""The most bits of an integer in a file: a word of a contract."""
MAX_DEPTH = 4
MISSING_KEY = "the key is missing"
REMEDY = "Correct it there; `touchstone task example` writes a whole file."


def keep_units(kind: type, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the values unchanged."""
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a whole file. Raises InvalidInput."""
    if not path.is_file():
        raise malformed(path, "", "a TOML file", "a folder" if path.is_dir() else "no such file")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise malformed(path, "", "a TOML file", f"{type(error).__name__}: {error}") from error
    refuse_long(path, document)
    return document


def refuse_long(path: Path, table: Mapping[str, Any], where: str = "") -> None:
    """Raises InvalidInput for the first value that is longer or deeper than any key allows, because an error
    about it could not even show it. `where` are the keys above, each followed by a dot."""
    waiting = deque((where + name, value, 1) for name, value in table.items())
    while waiting:
        key, value, depth = waiting.popleft()
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            raise malformed(path, key, f"at most {MAX_CHARACTERS} characters", f"{len(value)} characters")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise malformed(path, key, f"a number of at most {MAX_BITS} bits", f"{value.bit_length()} bits")
        if isinstance(value, Mapping | list) and depth == MAX_DEPTH:
            raise malformed(path, key, f"tables in tables, {MAX_DEPTH} at most", "more")
        if isinstance(value, Mapping):
            waiting.extend((f"{key}.{name}", one, depth + 1) for name, one in value.items())
        elif isinstance(value, list):
            waiting.extend((key, one, depth + 1) for one in value)


def build_container(
    kind: type[Container],
    values: Any,
    path: Path,
    where: str = "",
    to_units: ToUnits = keep_units,
) -> Container:
    """Returns a dataclass from a table, nested tables included; floats become the nearest float32. `where`
    are the keys above, each followed by a dot.

    Raises InvalidInput, naming the key."""
    if not isinstance(values, Mapping):
        raise malformed(path, where.rstrip("."), "a table", repr(values))
    assert is_dataclass(kind)
    known, types = {field.name: field for field in fields(kind)}, get_type_hints(kind)
    for name in values:
        if name not in known:
            raise malformed(path, where + name, expect_known(name, known), "an unknown key")
    table, arguments = _convert_units(kind, values, path, where, to_units), {}
    for name, field in known.items():
        if name in table:
            arguments[name] = _convert(types[name], table[name], path, where + name, to_units)
        elif not _has_default(field):
            raise malformed(path, where + name, _describe(types[name]), MISSING_KEY)
    return kind(**arguments)


def _convert_units(
    kind: type, values: Mapping[str, Any], path: Path, where: str, to_units: ToUnits
) -> dict[str, Any]:
    """Converts as `to_units`, one key at a time. Raises InvalidInput, naming the key."""
    found = dict[str, Any]()
    for name, value in values.items():
        try:
            found |= to_units(kind, {name: value})
        except InvalidInput as refusal:
            raise malformed(path, where + name, str(refusal.expected), str(refusal.actual)) from refusal
    return found


def _describe(kind: type) -> str:
    """Describes a type."""
    if is_dataclass(kind):
        return f"a table with {', '.join(field.name for field in fields(kind))}"
    return {bool: "true or false", int: "an integer", float: "a number", str: "text in quotes"}.get(
        kind, kind.__name__
    )


def malformed(path: Path, key: str, expected: str, actual: str) -> InvalidInput:
    """Returns the error for one key; for the whole file if there is none."""
    return InvalidInput(
        what="the file is malformed",
        expected=expected,
        actual=actual,
        where=f"{path}, {key}" if key else str(path),
        remedy="Correct it there." if path.name == CONFIG_FILE else REMEDY,
    )


def _convert(kind: Any, value: Any, path: Path, where: str, to_units: ToUnits) -> Any:
    if kind is bool and isinstance(value, bool):
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):
            # No file has such a value; it was computed from the file.
            return value
        return build_container(kind, value, path, where + ".", to_units)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _to_float32(value, path, where)
    # bool is an int in Python, but no number in a file.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise malformed(path, where, _describe(kind), repr(value))
    return value


def _to_float32(value: float, path: Path, where: str) -> float:
    try:
        return nearest(float(value))
    except (ValueError, OverflowError, InvalidInput) as error:
        raise malformed(path, where, "a number that float32 holds", repr(value)) from error


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
