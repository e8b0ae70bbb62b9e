"""The pseudo-gradient and the outer step on float32 bits, and the trees that a contest descends.

The pseudo-gradient and the outer step, element by element, on float32 bits (docs/spec.md, section 5).

The reference that `compute/outer` and `OuterMath.sol` (the chain) equal bit for bit. DiLoCo
(arXiv 2311.08105): mean of the pseudo-gradients, then Nesterov. Every function is total on finite input, so
that any state can be claimed and any disputed element has one right answer.

The trees of a contested root: the nodes that an answer opens, and the first that differs.
"""

from collections.abc import Sequence
from fractions import Fraction

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.merkle import Levels, hash_node
from touchstone.protocol.spec.params import (
    BLOCK_ELEMENTS,
    DELTA_BLOCK_BYTES,
    DELTA_LEAF_BYTES,
    LEAF_BYTES,
    LEAF_ELEMENTS,
    MAX_SHARDS,
    QUANTUM_MAX,
    SCALE_BYTE_MAX,
    SCALE_EXPONENT_BIAS,
    SCALE_EXPONENT_MAX,
    SCALE_EXPONENT_MIN,
    ZERO_WORD,
)

_LARGEST_UNITS = QUANTUM_MAX << SCALE_EXPONENT_MAX - SCALE_EXPONENT_MIN
"""127 * 2^71: differences are cut off here, infinite ones too."""


class _NotFinite(ArithmeticError):
    """An operation of the outer step left the finite numbers; the element then keeps its values."""


# --- Pseudo-gradient ----------------------------------------------------------------------------------------
def compute_scale_exponent(largest: int) -> int:
    """The smallest e >= -149 with largest <= 127 * 2^e; `largest` is a magnitude in units of 2^-149."""
    shift = max(0, largest.bit_length() - 7)
    if largest > QUANTUM_MAX << shift:
        shift += 1
    return SCALE_EXPONENT_MIN + shift


def quantise_block(differences: Sequence[int]) -> tuple[int, list[int]]:
    """(e, 64 integers in -127 .. 127) of 64 float32 bit patterns d = fl(W_global - W_final).

    What is larger than 127 * 2^71, or infinite, counts as 127 * 2^71: so e is 71 at most."""
    if len(differences) != BLOCK_ELEMENTS:
        raise _wrong_size("a block", BLOCK_ELEMENTS, len(differences))
    units = [_to_cut_units(bits) for bits in differences]
    exponent = compute_scale_exponent(max(map(abs, units)))
    scale = 1 << (exponent - SCALE_EXPONENT_MIN)
    return exponent, [round(Fraction(value, scale)) for value in units]


def _to_cut_units(bits: int) -> int:
    """Units of 2^-149, from -127 * 2^220 to 127 * 2^220."""
    magnitude = bits & ~float32.SIGN_BIT
    finite = float32.is_finite(bits)
    units = min(float32.to_units(magnitude), _LARGEST_UNITS) if finite else _LARGEST_UNITS
    return -units if bits & float32.SIGN_BIT else units


def encode_block(exponent: int, quanta: Sequence[int]) -> bytes:
    """65 bytes: e + 149, then 64 signed bytes."""
    return bytes([exponent + SCALE_EXPONENT_BIAS]) + bytes(quantum & 0xFF for quantum in quanta)


def decode_block(data: bytes) -> tuple[int, list[int]]:
    """(e, 64 integers in -128 .. 127) of 65 bytes. Every byte string has a value, -128 included, and zeros
    where no encoding has such a scale: whether it is the right one is for `compute_delta_leaf` to say."""
    if len(data) != DELTA_BLOCK_BYTES:
        raise _wrong_size("an encoded block", DELTA_BLOCK_BYTES, len(data))
    if data[0] > SCALE_BYTE_MAX:
        return SCALE_EXPONENT_MIN, [0] * BLOCK_ELEMENTS
    return data[0] - SCALE_EXPONENT_BIAS, [byte - 256 if byte > 127 else byte for byte in data[1:]]


def dequantise(quantum: int, exponent: int) -> int:
    """Bits of q * 2^e, exact; q = 0 gives +0."""
    return float32.round_to_bits(quantum * Fraction(2) ** exponent)


def compute_delta_leaf(global_leaf: bytes, final_leaf: bytes) -> bytes:
    """The 260-byte delta leaf that belongs to one leaf (1024 bytes) of the global and of the final weights.

    Raises ProtocolFault where a weight is not finite: no node has the hash of such a state."""
    pairs = zip(_unpack_finite(global_leaf), _unpack_finite(final_leaf), strict=True)
    differences = [float32.subtract(a, b) for a, b in pairs]
    blocks = (differences[i : i + BLOCK_ELEMENTS] for i in range(0, len(differences), BLOCK_ELEMENTS))
    return b"".join(encode_block(*quantise_block(block)) for block in blocks)


def decode_delta_leaf(leaf: bytes) -> list[int]:
    """The 256 element values of a delta leaf, as float32 bits."""
    if len(leaf) != DELTA_LEAF_BYTES:
        raise _wrong_size("a delta leaf", DELTA_LEAF_BYTES, len(leaf))
    values = []
    for start in range(0, DELTA_LEAF_BYTES, DELTA_BLOCK_BYTES):
        exponent, quanta = decode_block(leaf[start : start + DELTA_BLOCK_BYTES])
        values += [dequantise(quantum, exponent) for quantum in quanta]
    return values


# --- Outer step ---------------------------------------------------------------------------------------------
def compute_mean(values: Sequence[int]) -> int:
    """D = fl(s / n), s summed in the order given (ascending shard); 1 to 64 finite bit patterns.

    Raises ArithmeticError where the sum overflows, which values of claims (at most 2^78) cannot."""
    if not 1 <= len(values) <= MAX_SHARDS:
        raise _wrong_size("a mean of claims", f"1 to {MAX_SHARDS}", len(values))
    total = values[0]
    for value in values[1:]:
        total = _finite(float32.add(total, value))
    return float32.divide(total, float32.float_to_bits(float(len(values))))


def compute_outer_element(
    weight: int, momentum: int, deltas: Sequence[int], learning_rate: int, momentum_factor: int
) -> tuple[int, int]:
    """(W', M') as bits: M' = fl(fl(mu M) + D), W' = fl(W - fl(eta fl(D + fl(mu M')))).

    `deltas` are the included claims' values in ascending shard order; without any the element stays as it is.
    So does an element one of whose intermediate results is not finite: the step is total, whatever a claim
    contains."""
    if not deltas:
        return weight, momentum
    try:
        mean = compute_mean(deltas)
        new_momentum = _finite(float32.add(_finite(float32.multiply(momentum_factor, momentum)), mean))
        step = _finite(float32.add(mean, _finite(float32.multiply(momentum_factor, new_momentum))))
        return _finite(float32.subtract(weight, _finite(float32.multiply(learning_rate, step)))), new_momentum
    except _NotFinite:
        return weight, momentum


def compute_outer_leaf(
    weights: bytes,
    momentum: bytes,
    delta_leaves: Sequence[bytes],
    learning_rate: int,
    momentum_factor: int,
    elements: int = LEAF_ELEMENTS,
) -> tuple[bytes, bytes]:
    """The new weights leaf and momentum leaf (1024 bytes each) from the old ones and the included claims'
    leaves. elements: so many are the tensor's; what lies behind them is zero, whatever claims have there."""
    deltas = [decode_delta_leaf(leaf) for leaf in delta_leaves]
    stepped = [
        compute_outer_element(
            weight, moment, [values[i] for values in deltas], learning_rate, momentum_factor
        )
        for i, (weight, moment) in enumerate(zip(_unpack_leaf(weights), _unpack_leaf(momentum), strict=True))
    ]
    new_weights, new_momentum = (float32.pack_bits(list(column)) for column in zip(*stepped, strict=True))
    size = elements * LEAF_BYTES // LEAF_ELEMENTS
    return new_weights[:size].ljust(LEAF_BYTES, b"\0"), new_momentum[:size].ljust(LEAF_BYTES, b"\0")


def _finite(bits: int) -> int:
    if not float32.is_finite(bits):
        raise _NotFinite
    return bits


def _unpack_leaf(leaf: bytes) -> list[int]:
    if len(leaf) != LEAF_BYTES:
        raise _wrong_size("a state leaf", LEAF_BYTES, len(leaf))
    return float32.unpack_bits(leaf)


def _unpack_finite(leaf: bytes) -> list[int]:
    elements = _unpack_leaf(leaf)
    if not all(map(float32.is_finite, elements)):
        raise ProtocolFault(
            what="a leaf of weights holds a number that is not finite",
            expected="finite float32 elements only",
            actual="an infinite element or none that is a number",
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


FANOUT_LEVELS = 4
"""Levels that one answer opens: 16 nodes, so three answers reach any leaf of a million parameters."""


def compute_nodes_below(levels: Levels, level: int, index: int) -> list[bytes]:
    """The nodes at most FANOUT_LEVELS below a node of a tree, left to right; padding where there is no leaf.

    `levels` from the leaves up, as `merkle.compute_levels` gives them; `level` counts from the root."""
    depth = len(levels) - 1
    down = min(FANOUT_LEVELS, depth - level)
    height, first = depth - level - down, index << down
    row, padding = levels[height], compute_padding(height)
    return [row[place] if place < len(row) else padding for place in range(first, first + (1 << down))]


def compute_padding(height: int) -> bytes:
    """The node `height` above the leaves that holds only missing leaves."""
    padding = ZERO_WORD
    for _ in range(height):
        padding = hash_node(padding, padding)
    return padding


def find_differing(own: Sequence[bytes], posted: Sequence[bytes]) -> int | None:
    """Position of the first node that differs, None where all are equal."""
    return next((i for i, (a, b) in enumerate(zip(own, posted, strict=True)) if a != b), None)
