"""Defines the layout of W: which elements belong to which parameter, how each is drawn, what an export needs.

No rule of training, judging or paying reads it. It is used to draw the first weights from a seed, and to
write files for other software. It travels beside the program, as text under a root that the task names. The
text is JSON in the one form that `encode_layout` writes:

{"config": ..., "frozen": [[name, shape, root or bits], ...], "parameters": [[name, shape, how, bits of the
deviation], ...]}
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import bits_to_float, float_to_bits, is_finite

MAX_LAYOUT_BYTES = 1 << 22
MAX_CONFIG_CHARACTERS = 1 << 18
"""The most characters of another software's `config.json`; published ones have a few thousand."""
MAX_ENTRIES = 1 << 16
MAX_NAME_CHARACTERS = 256
MAX_DIMENSIONS = 8
MAX_ELEMENTS = 1 << 40
MAX_FROZEN_ELEMENTS = 1 << 33
"""The most elements of all frozen parameters together: an export contains all of them, some 32 GB."""
MAX_DEPTH = 4
"""The deepest nesting of brackets: table, list of entries, entry, shape."""
NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
"""The most characters of a parameter's name, which becomes a key of a file and appears in messages."""

_PIECES = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Matches a string, which may lack its end, or a bracket. It reads each byte once, and never goes back."""


class Start(StrEnum):
    """How the first values of a parameter are chosen."""

    UNIFORM = "uniform"
    """Drawn from the task's seed around 0, with a standard deviation."""
    ZEROS = "zeros"
    ONES = "ones"


@dataclass(frozen=True)
class ParameterEntry:
    """A trained parameter. `deviation` is a float32 above 0 for UNIFORM, else 0."""

    name: str
    shape: tuple[int, ...]
    start: Start = Start.UNIFORM
    deviation: float = 0.0

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class FrozenEntry:
    """A parameter that is not trained: the constant of the program with this root, in this shape; without a
    root it has one value everywhere."""

    name: str
    shape: tuple[int, ...]
    root: bytes = b""
    number: float = 0.0

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class WeightsLayout:
    """The layout. `parameters` are the parameters of W, one after another without gaps. `config` is the
    model's `config.json` in Hugging Face's form as text, empty if there is none."""

    parameters: tuple[ParameterEntry, ...]
    frozen: tuple[FrozenEntry, ...] = ()
    config: str = ""

    @property
    def count(self) -> int:
        """The number of elements of W."""
        return sum(entry.size for entry in self.parameters)

    def list_places(self) -> Iterator[tuple[ParameterEntry, int]]:
        """Yields each parameter with its first element in W."""
        offset = 0
        for entry in self.parameters:
            yield entry, offset
            offset += entry.size


def encode_layout(layout: WeightsLayout) -> bytes:
    """Returns the one text of a layout, in ASCII. Raises InvalidInput if it breaks a rule."""
    require_layout(layout)
    content = {
        "config": layout.config,
        "frozen": [
            [entry.name, list(entry.shape), entry.root.hex() or float_to_bits(entry.number)]
            for entry in layout.frozen
        ],
        "parameters": [
            [entry.name, list(entry.shape), str(entry.start), float_to_bits(entry.deviation)]
            for entry in layout.parameters
        ],
    }
    data = json.dumps(content, separators=(",", ":"), sort_keys=True).encode("ascii")
    _require(len(data) <= MAX_LAYOUT_BYTES, f"at most {MAX_LAYOUT_BYTES} bytes", len(data), "its bytes")
    return data


def decode_layout(data: bytes) -> WeightsLayout:
    """Does the inverse of encode_layout. Raises InvalidInput on any bytes that it would not have written."""
    _require(len(data) <= MAX_LAYOUT_BYTES, f"at most {MAX_LAYOUT_BYTES} bytes", len(data), "its bytes")
    try:
        # Python's parser recurses at each bracket, and would overflow the stack.
        layout = _read(json.loads(data) if _measure_depth(data) <= MAX_DEPTH else None)
    except (ValueError, TypeError, RecursionError, KeyError) as error:
        raise _refuse("the text of a layout", str(error)[:200] or "another form", "its bytes") from error
    _require(encode_layout(layout) == data, "the one spelling of a layout", "another one", "its bytes")
    return layout


def _measure_depth(data: bytes) -> int:
    """Returns the deepest nesting of brackets, without those in strings."""
    depth = deepest = 0
    for piece in _PIECES.finditer(data):
        opens = piece[0] in (b"[", b"{")
        depth += opens - (piece[0] in (b"]", b"}"))
        deepest = max(deepest, depth)
    return deepest


def _read(content: Any) -> WeightsLayout:
    if not isinstance(content, dict) or set(content) != {"config", "frozen", "parameters"}:
        raise ValueError("not a table of config, frozen and parameters")
    parameters = tuple(
        ParameterEntry(_read_name(name), _read_shape(shape), Start(start), _read_float(bits))
        for name, shape, start, bits in content["parameters"]
    )
    frozen = tuple(
        _read_frozen(_read_name(name), _read_shape(shape), value) for name, shape, value in content["frozen"]
    )
    return WeightsLayout(parameters, frozen, content["config"])


def _read_frozen(name: str, shape: tuple[int, ...], value: Any) -> FrozenEntry:
    if isinstance(value, str):
        return FrozenEntry(name, shape, bytes.fromhex(value))
    return FrozenEntry(name, shape, number=_read_float(value))


def _read_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError("not the name of a parameter")
    return name


def _read_shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(_read_integer, shape))


def _read_float(value: Any) -> float:
    bits = _read_integer(value)
    if bits >= 1 << 32 or not is_finite(bits):
        raise ValueError("not the bits of a finite float32")
    return bits_to_float(bits)


def _read_integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError("not a number of a layout")
    return value


def require_layout(layout: WeightsLayout) -> None:
    """Raises InvalidInput, with the entry at fault, if a layout breaks a rule."""
    entries: list[ParameterEntry | FrozenEntry] = [*layout.parameters, *layout.frozen]
    _require(bool(layout.parameters), "a parameter to train", "none", "parameters")
    _require(len(entries) <= MAX_ENTRIES, f"at most {MAX_ENTRIES} entries", len(entries), "its entries")
    names = [entry.name for entry in entries]
    _require(len({*names}) == len(names), "names that differ", _find_twice(names), "its names")
    for number, entry in enumerate(entries):
        _require_entry(entry, f"entry {number}")
    for entry in layout.parameters:
        is_drawn = entry.start is Start.UNIFORM
        bits = float_to_bits(entry.deviation)
        is_number = is_finite(bits) and (entry.deviation > 0 if is_drawn else bits == 0)
        _require(is_number, "a deviation above 0 if values are drawn, else 0", entry.deviation, entry.name)
    for frozen in layout.frozen:
        bits = float_to_bits(frozen.number)
        is_one = is_finite(bits) if not frozen.root else len(frozen.root) == 32 and bits == 0
        _require(is_one, "a root of 32 bytes, or no root and a finite number", frozen.root.hex(), frozen.name)
    is_text = isinstance(layout.config, str) and len(layout.config) <= MAX_CONFIG_CHARACTERS
    is_text = is_text and not any("\ud800" <= one <= "\udfff" for one in layout.config)
    _require(is_text, f"a text of at most {MAX_CONFIG_CHARACTERS} characters", "another", "config")
    frozen_elements = sum(entry.size for entry in layout.frozen)
    _require(
        frozen_elements <= MAX_FROZEN_ELEMENTS,
        f"at most {MAX_FROZEN_ELEMENTS} elements",
        frozen_elements,
        "frozen",
    )


def _require_entry(entry: ParameterEntry | FrozenEntry, where: str) -> None:
    name, shape = entry.name, entry.shape
    is_name = isinstance(name, str) and 1 <= len(name) <= MAX_NAME_CHARACTERS and set(name) <= NAME_CHARACTERS
    # Files of weights have special fields with such names.
    is_name = is_name and not name.startswith("__")
    _require(is_name, f"a name of 1 to {MAX_NAME_CHARACTERS} of A-Z a-z 0-9 _ . -", repr(name)[:80], where)
    is_shape = len(shape) <= MAX_DIMENSIONS and all(size >= 1 for size in shape)
    _require(is_shape, f"at most {MAX_DIMENSIONS} dimensions of 1 or more", shape, name)
    _require(entry.size <= MAX_ELEMENTS, f"at most {MAX_ELEMENTS} elements", entry.size, name)


def _find_twice(names: Sequence[str]) -> str:
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), "")  # type: ignore[func-returns-value]


def _require(holds: bool, expected: str, actual: object, where: str) -> None:
    if not holds:
        raise _refuse(expected, actual, where)


def _refuse(expected: str, actual: object, where: str) -> InvalidInput:
    return InvalidInput(
        what="not a layout of weights",
        expected=expected,
        actual=actual,
        where=where,
        remedy="Do not stake on a task with this layout; tell its submitter.",
    )
