"""Canonical bytes of one encoding, the hash H, and the hashes made with it (docs/spec.md, sections 2 and 3).

One value has exactly one encoding.

`training` is a header and then every field in the order of the dataclass, depth first, as `kind (1 byte) ||
length (4 bytes) || payload`, big-endian. The decoder refuses whatever the encoder would not have written.

`H` of docs/spec.md: SHA-256 over 32-byte words, the one way in which protocol hashes are made. It equals
`sha256(abi.encode(...))` in Solidity, so a contract and a node agree without a codec between them.
"""

from collections.abc import Iterator
from dataclasses import astuple, fields, is_dataclass
from hashlib import sha256
from typing import Any, TypeVar

from touchstone.protocol.spec.containers import (
    OuterHeader,
    StateHeader,
    StepFacts,
    TrainingSpec,
)
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.float32 import SIGN_BIT, bits_to_float, float_to_bits, is_finite
from touchstone.protocol.spec.params import (
    TAG_BOUNDARY,
    TAG_DOMAIN,
    TAG_OUTER,
    TAG_SCHEDULE,
    TAG_STATE,
    TAG_STEP,
)

# --- H: SHA-256 over words ----------------------------------------------------------------------------------
WORD_BYTES = 32


def sha256_of(data: bytes) -> bytes:
    """SHA-256 of raw bytes (FIPS 180-4)."""
    return sha256(data).digest()


def tag_word(name: str) -> bytes:
    """A domain tag: ASCII, right-padded with zero bytes to one word, as `bytes32("...")` in Solidity."""
    encoded = name.encode("ascii")
    if not 1 <= len(encoded) <= WORD_BYTES:
        raise InvalidInput(
            what="a tag is one word",
            expected="1 to 32 ASCII characters",
            actual=repr(name),
            remedy="Shorten it.",
        )
    return encoded.ljust(WORD_BYTES, b"\0")


def integer_word(value: int) -> bytes:
    """An unsigned integer below 2^256, big-endian and left-padded to one word."""
    if not 0 <= value < 1 << 256:
        raise InvalidInput(
            what="an integer word is unsigned",
            expected="0 .. 2^256 - 1",
            actual=value,
            remedy="Check its origin.",
        )
    return value.to_bytes(WORD_BYTES, "big")


def address_word(address: str) -> bytes:
    """A 20-byte account address, written `0x` and 40 hexadecimal digits of any case, left-padded to one
    word."""
    digits = address[2:]
    if address[:2] != "0x" or len(digits) != 40 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise InvalidInput(
            what="not an account address",
            expected="0x and 40 hexadecimal digits",
            actual=repr(address),
            remedy="Copy the address as the wallet or the chain shows it.",
        )
    return bytes.fromhex(digits).rjust(WORD_BYTES, b"\0")


def bytes32_word(value: bytes) -> bytes:
    """A root, hash, salt or other word that enters as it is: exactly 32 bytes."""
    if len(value) != WORD_BYTES:
        raise InvalidInput(
            what="a word has another length",
            expected="32 bytes",
            actual=f"{len(value)} bytes",
            remedy="Check its origin.",
        )
    return bytes(value)


def hash_words(tag: str, *fields: int | bytes | str) -> bytes:
    """H(tag, fields...): integers as unsigned words, bytes as bytes32, strings as account addresses."""
    return sha256_of(join_words(tag, *fields))


def join_words(tag: str, *fields: int | bytes | str) -> bytes:
    """What `hash_words` hashes: who has it can show what stands behind the hash."""
    return tag_word(tag) + b"".join(map(field_word, fields))


def field_word(field: int | bytes | str) -> bytes:
    """One field of H by its Python type: int, bytes (bytes32) or str (address)."""
    if isinstance(field, int):
        return integer_word(field)
    return bytes32_word(field) if isinstance(field, bytes) else address_word(field)


T = TypeVar("T")
Leaf = tuple[str, type, Any]
"""One field of a flattened container: dotted name, Python type, value."""

TRAINING_HEADER = b"touchstone.training\x03"
"""Magic and the version of this encoding."""
KINDS: dict[type, int] = {int: 1, float: 2, bytes: 3, str: 4}
PAYLOAD_BYTES: dict[type, int] = {int: 8, float: 4, bytes: 32}
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")
NAME_MAX_CHARACTERS = 64
STATE_BYTES = 6 * WORD_BYTES
"""What is hashed to a state root."""


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


# --- Training: kind, length, payload ------------------------------------------------------------------------
def encode_training(training: TrainingSpec) -> bytes:
    """Canonical bytes of the training spec; raises InvalidInput on a value without a canonical form."""
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
    """Takes one entry after the other off encoded training bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = len(TRAINING_HEADER)

    def read(self, name: str, kind: type) -> Any:
        """The next entry as a value of `kind`; refuses another kind, another length, another spelling."""
        where = f"{name}, byte {self.offset}"
        head = self._take(5, where)
        if head[0] != KINDS[kind]:
            raise _refuse("a field has another kind", KINDS[kind], head[0], where)
        length, most = int.from_bytes(head[1:], "big"), PAYLOAD_BYTES.get(kind, NAME_MAX_CHARACTERS)
        if length > most or (kind is not str and length != most):
            raise _refuse("a field has another length", f"{most} bytes", f"{length} bytes", where)
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
    """Inverse of encode_training. Raises InvalidInput, with field and byte, on any bytes it would not have
    written."""
    header = data[: len(TRAINING_HEADER)]
    if header != TRAINING_HEADER:
        raise _refuse("not a training spec of this version", TRAINING_HEADER, header, "byte 0")
    reader = _TrainingReader(data)
    training = _build(TrainingSpec, reader)
    _require_end(data, reader.offset)
    return training


# --- Roots, commitments -------------------------------------------------------------------------------------
def compute_domain(chain_id: int, registry: str, task_id: bytes) -> bytes:
    """Keeps apart the hashes of equal tasks on other chains and other deployments."""
    return hash_words(TAG_DOMAIN, chain_id, registry, task_id)


def compute_state_root(state: StateHeader) -> bytes:
    """One root over weights, both moments and both step counters."""
    return sha256_of(encode_state(state))


def encode_state(state: StateHeader) -> bytes:
    """The STATE_BYTES whose SHA-256 the state root is."""
    return join_words(TAG_STATE, *astuple(state))


def decode_state(data: bytes, source: str = "") -> StateHeader:
    """The state behind a state root. Raises ProtocolFault, with `source` as culprit, where the bytes are no
    `encode_state`: the root is then no state's."""
    words = [data[start : start + WORD_BYTES] for start in range(0, len(data), WORD_BYTES)]
    steps = [int.from_bytes(word, "big") for word in words[4:]]
    if len(data) != STATE_BYTES or words[0] != tag_word(TAG_STATE) or max(steps) >= 1 << 64:
        raise _no_preimage(
            "a state root is no state's", "touchstone.state, three roots, two steps", data, source
        )
    return StateHeader(words[1], words[2], words[3], *steps)


def compute_outer_root(outer: OuterHeader) -> bytes:
    """One root over the global model and the outer momentum."""
    return hash_words(TAG_OUTER, outer.weights_root, outer.momentum_root)


def compute_boundary_leaf(
    domain: bytes, round_number: int, solver: str, boundary: int, salt: bytes, state_root: bytes
) -> bytes:
    """Leaf `boundary` of a claim tree: the state after boundary * k steps, salted so that paths show
    nothing."""
    return hash_words(TAG_BOUNDARY, domain, round_number, solver, boundary, salt, state_root)


def _no_preimage(what: str, expected: str, data: bytes, source: str) -> ProtocolFault:
    return ProtocolFault(
        what=what,
        expected=expected,
        actual=data[: 2 * STATE_BYTES].hex(),
        culprit=source,
        remedy="Nothing can be replayed from it; report it as unserved.",
    )


def compute_schedule_leaf(segment_index: int, learning_rate_sum: int) -> bytes:
    """Leaf of the schedule tree: global segment index and the segment's learning rates, summed, in 2^-64."""
    return hash_words(TAG_SCHEDULE, segment_index, learning_rate_sum)


def compute_step_root(facts: StepFacts) -> bytes:
    """One root over all that a referee must know of the task's training steps."""
    return hash_words(TAG_STEP, *astuple(facts))
