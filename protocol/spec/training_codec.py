"""Encodes a training spec as canonical bytes: one value has exactly one encoding.

Rules: docs/spec.md, sections 2 and 3. A header, and then every field in the order of the dataclass, depth
first, as `kind (1 byte) || length (4 bytes) || payload`, big-endian. The decoder refuses anything that the
encoder would not have written.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import SIGN_BIT, bits_to_float, float_to_bits, is_finite
from touchstone.protocol.spec.hashing import bytes32_word
from touchstone.protocol.spec.task_spec import TrainingSpec

T = TypeVar("T")
Leaf = tuple[str, type, Any]
"""One field of a flattened container: dotted name, Python type, value."""

TRAINING_HEADER = b"touchstone.training\x03"
"""The magic bytes and the version of this encoding."""
KINDS: dict[type, int] = {int: 1, float: 2, bytes: 3, str: 4}
PAYLOAD_BYTES: dict[type, int] = {int: 8, float: 4, bytes: 32}
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")
NAME_MAX_CHARACTERS = 64


def _refuse(what: str, expected: object, actual: object, where: str) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=where,
        remedy="Use the bytes that the task was created with, or correct the field.",
    )


def _flatten(container: Any, prefix: str = "") -> Iterator[Leaf]:
    for field in fields(container):
        value, name = getattr(container, field.name), prefix + field.name
        if is_dataclass(value):
            yield from _flatten(value, name + ".")
        else:
            yield name, _python_type(field.type), value


def _python_type(annotation: object) -> type:
    if not isinstance(annotation, type):
        raise TypeError(f"containers hold plain types, not {annotation!r}")
    return annotation


def _require_type(name: str, kind: type, value: Any) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _refuse("a field has another type", kind.__name__, repr(value), name)


def _build(container: type[T], reader: "_TrainingReader", prefix: str = "") -> T:
    """Reads the fields of `container` in order; `reader.read(name, type)` gives each plain value."""
    values = {}
    for field in fields(container):  # type: ignore[arg-type]
        kind, name = _python_type(field.type), prefix + field.name
        nested = is_dataclass(kind)
        values[field.name] = _build(kind, reader, name + ".") if nested else reader.read(name, kind)
    return container(**values)


def _require_end(data: bytes, offset: int) -> None:
    if len(data) != offset:
        raise _refuse("bytes after the last field", f"{offset} bytes", f"{len(data)} bytes", f"byte {offset}")


def encode_training(training: TrainingSpec) -> bytes:
    """Returns the canonical bytes of the training spec. Raises InvalidInput for a value without a canonical
    form."""
    entries = []
    for name, kind, value in _flatten(training):
        payload = _training_payload(name, kind, value)
        entries.append(bytes([KINDS[kind]]) + len(payload).to_bytes(4, "big") + payload)
    return TRAINING_HEADER + b"".join(entries)


def _training_payload(name: str, kind: type, value: Any) -> bytes:
    if kind is float:
        bits = float_to_bits(value)
        if bits == SIGN_BIT:
            raise _refuse("negative zero has two spellings", "0.0", "-0.0", name)
        return bits.to_bytes(4, "big")
    _require_type(name, kind, value)
    if kind is int:
        if not 0 <= value < 1 << 64:
            raise _refuse("a number does not fit", "an unsigned integer below 2^64", value, name)
        return int(value).to_bytes(8, "big")
    return bytes32_word(value) if kind is bytes else _name_payload(name, value)


def _name_payload(name: str, value: str) -> bytes:
    if not 1 <= len(value) <= NAME_MAX_CHARACTERS or not set(value) <= NAME_CHARACTERS:
        raise _refuse(
            "not a registry name", f"1 to {NAME_MAX_CHARACTERS} of a-z 0-9 _ . -", repr(value), name
        )
    return value.encode("ascii")


class _TrainingReader:
    """Reads one entry after the other from encoded training bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = len(TRAINING_HEADER)

    def read(self, name: str, kind: type) -> Any:
        """Returns the next entry as a value of `kind`. Refuses another kind, length or spelling."""
        where = f"{name}, byte {self.offset}"
        head = self._take(5, where)
        if head[0] != KINDS[kind]:
            raise _refuse("a field has another kind", KINDS[kind], head[0], where)
        length, most = int.from_bytes(head[1:], "big"), PAYLOAD_BYTES.get(kind, NAME_MAX_CHARACTERS)
        if length > most or (kind is not str and length != most):
            raise _refuse("a field has the wrong length", f"{most} bytes", f"{length} bytes", where)
        return _training_value(kind, self._take(length, where), where)

    def _take(self, count: int, where: str) -> bytes:
        piece = self.data[self.offset : self.offset + count]
        if len(piece) != count:
            raise _refuse("the bytes end early", f"{count} more bytes", f"{len(piece)} bytes", where)
        self.offset += count
        return piece


def _training_value(kind: type, payload: bytes, where: str) -> Any:
    if kind is int:
        return int.from_bytes(payload, "big")
    if kind is bytes:
        return payload
    if kind is float:
        bits = int.from_bytes(payload, "big")
        if bits == SIGN_BIT or not is_finite(bits):
            raise _refuse("not a canonical float32", "a finite number other than -0", hex(bits), where)
        return bits_to_float(bits)
    value = payload.decode("latin-1")
    _name_payload(where, value)
    return value


def decode_training(data: bytes) -> TrainingSpec:
    """Does the inverse of encode_training. Raises InvalidInput, naming field and byte, for bytes that it
    would not have written."""
    header = data[: len(TRAINING_HEADER)]
    if header != TRAINING_HEADER:
        raise _refuse("not a training spec of this version", TRAINING_HEADER, header, "byte 0")
    reader = _TrainingReader(data)
    training = _build(TrainingSpec, reader)
    _require_end(data, reader.offset)
    return training
