"""Encodes a claim's pseudo-gradient: global minus final weights, quantized in blocks.

Rules: docs/spec.md, section 5. It is the reference that `compute/outer/` and `OuterMath.sol` (the chain)
equal bit for bit, on float32 bits. Every function has a result for any finite input.
"""

from collections.abc import Sequence
from fractions import Fraction

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import (
    BLOCK_ELEMENTS,
    DELTA_BLOCK_BYTES,
    DELTA_LEAF_BYTES,
    LEAF_BYTES,
    QUANTUM_MAX,
    SCALE_BYTE_MAX,
    SCALE_EXPONENT_BIAS,
    SCALE_EXPONENT_MAX,
    SCALE_EXPONENT_MIN,
)

_LARGEST_UNITS = QUANTUM_MAX << SCALE_EXPONENT_MAX - SCALE_EXPONENT_MIN
"""127 * 2^71. Larger differences, infinite ones too, are cut to this."""


def compute_scale_exponent(largest: int) -> int:
    """Returns the smallest e >= -149 with largest <= 127 * 2^e; `largest` is a magnitude in units of
    2^-149."""
    shift = max(0, largest.bit_length() - 7)
    if largest > QUANTUM_MAX << shift:
        shift += 1
    return SCALE_EXPONENT_MIN + shift


def quantise_block(differences: Sequence[int]) -> tuple[int, list[int]]:
    """Returns (e, 64 integers in -127 .. 127) for 64 float32 values d = fl(W_global - W_final), given as
    bits.

    Values above 127 * 2^71, or infinite, count as 127 * 2^71, so e is 71 at most."""
    if len(differences) != BLOCK_ELEMENTS:
        raise _wrong_size("a block", BLOCK_ELEMENTS, len(differences))
    units = [_to_cut_units(bits) for bits in differences]
    exponent = compute_scale_exponent(max(map(abs, units)))
    scale = 1 << (exponent - SCALE_EXPONENT_MIN)
    return exponent, [round(Fraction(value, scale)) for value in units]


def _to_cut_units(bits: int) -> int:
    """Returns a value in units of 2^-149, cut to -127 * 2^220 .. 127 * 2^220."""
    magnitude = bits & ~float32.SIGN_BIT
    finite = float32.is_finite(bits)
    units = min(float32.to_units(magnitude), _LARGEST_UNITS) if finite else _LARGEST_UNITS
    return -units if bits & float32.SIGN_BIT else units


def encode_block(exponent: int, quanta: Sequence[int]) -> bytes:
    """Returns 65 bytes: e + 149, then 64 signed bytes."""
    return bytes([exponent + SCALE_EXPONENT_BIAS]) + bytes(quantum & 0xFF for quantum in quanta)


def decode_block(data: bytes) -> tuple[int, list[int]]:
    """Returns (e, 64 integers in -128 .. 127) for 65 bytes. Every byte string has a value, -128 included, and
    zeros for a scale that no encoding has. `compute_delta_leaf` says whether it is the right one."""
    if len(data) != DELTA_BLOCK_BYTES:
        raise _wrong_size("an encoded block", DELTA_BLOCK_BYTES, len(data))
    if data[0] > SCALE_BYTE_MAX:
        return SCALE_EXPONENT_MIN, [0] * BLOCK_ELEMENTS
    return data[0] - SCALE_EXPONENT_BIAS, [byte - 256 if byte > 127 else byte for byte in data[1:]]


def dequantise(quantum: int, exponent: int) -> int:
    """Returns the float32 bits of q * 2^e, exact; q = 0 gives +0."""
    return float32.round_to_bits(quantum * Fraction(2) ** exponent)


def compute_delta_leaf(global_leaf: bytes, final_leaf: bytes) -> bytes:
    """Returns the 260-byte delta leaf for one leaf (1024 bytes) of the global and of the final weights.

    Raises ProtocolFault if a weight is not finite, because no node has the hash of such a state."""
    pairs = zip(_unpack_finite(global_leaf), _unpack_finite(final_leaf), strict=True)
    differences = [float32.subtract(a, b) for a, b in pairs]
    blocks = (differences[i : i + BLOCK_ELEMENTS] for i in range(0, len(differences), BLOCK_ELEMENTS))
    return b"".join(encode_block(*quantise_block(block)) for block in blocks)


def decode_delta_leaf(leaf: bytes) -> list[int]:
    """Returns the 256 element values of a delta leaf, as float32 bits."""
    if len(leaf) != DELTA_LEAF_BYTES:
        raise _wrong_size("a delta leaf", DELTA_LEAF_BYTES, len(leaf))
    values = []
    for start in range(0, DELTA_LEAF_BYTES, DELTA_BLOCK_BYTES):
        exponent, quanta = decode_block(leaf[start : start + DELTA_BLOCK_BYTES])
        values += [dequantise(quantum, exponent) for quantum in quanta]
    return values


def unpack_leaf(leaf: bytes) -> list[int]:
    """Returns the float32 bits in a leaf of 1024 bytes."""
    if len(leaf) != LEAF_BYTES:
        raise _wrong_size("a state leaf", LEAF_BYTES, len(leaf))
    return float32.unpack_bits(leaf)


def _unpack_finite(leaf: bytes) -> list[int]:
    elements = unpack_leaf(leaf)
    if not all(map(float32.is_finite, elements)):
        raise ProtocolFault(
            what="a leaf of weights holds a number that is not finite",
            expected="finite float32 elements only",
            actual="an infinite element or a NaN",
            remedy="Refuse the state; the training that made it has diverged or is forged.",
        )
    return elements


def _wrong_size(what: str, expected: object, actual: int) -> InvalidInput:
    return InvalidInput(
        what=f"{what} has another size",
        expected=expected,
        actual=actual,
        remedy="Cut tensors with split_leaves.",
    )
