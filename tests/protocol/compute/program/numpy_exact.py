"""Exact programs in NumPy, written from docs/spec.md (sections 8 and 9.1) alone.

A second reading of the text: it shares the program's data types with the product, and no kernel, table or
constant. Each node is run over whole arrays: operands are views of flat buffers, with a size of 1 along
loops that do not move them. Sums of integers below 2^53 are taken in float64, where any order gives the same
number.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from touchstone.protocol.spec.program import Access, Node, Program, Role
from touchstone.protocol.spec.program_operations import INDEXED, Operation

Array = NDArray[Any]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

DTYPES: Mapping[Role, type[np.generic]] = {
    Role.TOKENS: np.int64,
    Role.LABELS: np.int64,
    Role.INTEGER8: np.int8,
    Role.INTEGER16: np.int16,
    Role.INTEGER32: np.int32,
}
"""In memory; all other buffers are float32."""
LIMITS = {8: 127, 15: 127 * 128 + 63, 20: 2**19 - 1}
"""L by b."""
LEAST_SCALE = -149
"""log2 of it."""
SUM_BITS = 38
"""t = 2^(e - 38)."""
EXPONENTIAL_FACTOR = 396564993198
EXPONENTIAL_SERIES = (1073741824, 744261118, 257941248, 59597083, 10327387, 1431680, 165394, 16377, 1419)
"""c0 .. c8."""
LOGARITHM_OF_TWO = 190530846196
LOGARITHM_SPLIT = 11863283
LOGARITHM_SERIES = tuple((2**32 + 2 * k + 1) // (2 * (2 * k + 1)) for k in range(7))
"""d0 .. d6: the integer nearest to 2^31 / (2 k + 1)."""


# Programs
def run_program(
    program: Program,
    constants: Mapping[int, Floats],
    weights: Floats,
    first: Floats,
    second: Floats,
    tokens: Integers,
    labels: Integers,
    scalars: Floats,
) -> tuple[np.float32, Floats, Floats, Floats]:
    """One step: the loss and the new W, m and v. constants: flat, by number of the buffer."""
    inputs = (weights, first, second, tokens, labels, scalars)
    buffers = compute_buffers(program, constants, inputs)
    outputs = program.outputs
    loss = np.float32(buffers[outputs.loss][0])
    return loss, buffers[outputs.weights], buffers[outputs.first_moment], buffers[outputs.second_moment]


def compute_buffers(
    program: Program, constants: Mapping[int, Floats], inputs: Sequence[Array]
) -> list[Array]:
    """All buffers of one step, flat. inputs: buffers 0 to 5 in order, of any shape."""
    given = {**dict(enumerate(inputs)), **constants}
    buffers: list[Array] = []
    for number, buffer in enumerate(program.buffers):
        dtype = DTYPES.get(buffer.role, np.float32)
        if number in given:
            values = np.ascontiguousarray(given[number]).reshape(-1)
            if values.dtype != dtype or values.size != buffer.size:
                raise ValueError(f"buffer {number}: {buffer} and not {values.dtype} {values.size}")
            buffers.append(values)
        else:
            buffers.append(np.zeros(buffer.size, dtype))
    with np.errstate(all="ignore"):
        for node in program.nodes:
            run_node(node, buffers)
    return buffers


def run_node(node: Node, buffers: Sequence[Array]) -> None:
    """Computes the node's elements where its output lies."""
    output = view(buffers, node.output, node.output_sizes)
    if node.operation is Operation.GATHER:
        output[...] = _gather(node, buffers)
        return
    operands = [view_moving(buffers, operand, node.sizes) for operand in node.operands]
    if node.operation in INDEXED:
        output[...] = _INDEXED[node.operation](node, *operands)
    elif node.operation in _REDUCTIONS:
        output[...] = _REDUCTIONS[node.operation](node, *operands)
    elif node.operation is Operation.QUANTIZE:
        x, scale = operands
        output[...] = quantize(x, scale, LIMITS[node.selected])
    else:
        output[...] = _ELEMENTWISE[node.operation](*operands)


# Views
def view(buffers: Sequence[Array], access: Access, sizes: Sequence[int]) -> Array:
    """The elements at offset + sum(index * stride), one loop an axis, where they lie."""
    buffer = buffers[access.buffer]
    width = buffer.itemsize
    strides = [stride * width for stride in access.strides]
    # Refuses what would leave the buffer, as as_strided does not.
    return np.ndarray(tuple(sizes), buffer.dtype, buffer.data, access.offset * width, strides)


def view_moving(buffers: Sequence[Array], access: Access, sizes: Sequence[int]) -> Array:
    """As `view`, with one element along loops that do not move the operand: NumPy repeats it."""
    moving = [size if stride else 1 for size, stride in zip(sizes, access.strides, strict=True)]
    return view(buffers, access, moving)


def _make_index(node: Node, loop: int, loops: int) -> Integers:
    """The index of a loop, along its axis."""
    shape = [1] * loops
    shape[loop] = node.sizes[loop]
    return np.arange(node.sizes[loop], dtype=np.int64).reshape(shape)


def _flatten_terms(node: Node, values: Array) -> Array:
    """The reduced loops as one last axis, with all their terms."""
    outer = values.shape[: len(node.output_sizes)]
    return np.broadcast_to(values, outer + node.reduced_sizes).reshape(*outer, node.terms)


# Numbers
def _make_power(exponent: Array) -> Doubles:
    """2^exponent, of -1022 to 1023."""
    return np.asarray((exponent.astype(np.int64) + 1023) << 52).view(np.float64)


def _split_pattern(x: Floats) -> tuple[Integers, Integers]:
    """M and q with |x| = M 2^q, M < 2^24, q = -149 of subnormal numbers and zeros."""
    pattern = np.asarray(x, order="C").view(np.uint32).astype(np.int64)
    exponent = (pattern >> 23) & 0xFF
    significand = (pattern & 0x7FFFFF) | ((exponent > 0).astype(np.int64) << 23)
    return significand, np.maximum(exponent, 1) - 150


def choose_scale(rows: Floats, bits: int) -> Floats:
    """The scale of each row along the last axis."""
    largest = np.abs(rows).max(-1)
    # RNE(|x| / s) <= L is |x| / s < L + 1/2: L is odd, so a tie goes up.
    fraction, exponent = np.frexp(largest.astype(np.float64))
    bound, bound_exponent = np.frexp(np.float64(LIMITS[bits] + 0.5))
    power = exponent - bound_exponent + (fraction >= bound)
    power = np.maximum(np.where(largest > 0, power, LEAST_SCALE), LEAST_SCALE)
    return np.where(np.isfinite(largest), _make_power(power), np.nan).astype(np.float32)


def quantize(x: Floats, scale: Floats, limit: int) -> Integers:
    """RNE(x / s), also where s is not the scale of the row."""
    # A quotient of two float32 is a tie, or further from one than float64 rounds.
    quotient = np.rint(x.astype(np.float64) / scale.astype(np.float64))
    is_number = np.isfinite(x) & np.isfinite(scale) & (scale > 0)
    return np.where(is_number, np.clip(quotient, -limit, limit), 0).astype(np.int64)


def sum_fixed(rows: Floats) -> Floats:
    """SUM of each row along the last axis."""
    largest = np.abs(rows).max(-1, initial=0)
    shift = SUM_BITS - (np.frexp(largest.astype(np.float64))[1] - 1)
    shift = np.where(np.isfinite(largest), shift, 0)
    total = np.rint(rows * _make_power(shift)[..., None]).sum(-1)
    return _finish_sum(total, shift, largest)


def _finish_sum(total: Doubles, shift: Array, largest: Array) -> Floats:
    exact = total * _make_power(-shift)
    # Adding +0 makes a zero +0; it changes nothing else.
    return np.where(np.isfinite(largest), exact + 0.0, np.nan).astype(np.float32)


def exponential(x: Floats) -> Floats:
    """EXPONENTIAL."""
    significand, q = _split_pattern(x)
    y = (significand * EXPONENTIAL_FACTOR) >> np.minimum(6 - q, 63)
    y = np.where(np.signbit(x), -y, y)
    is_far = ~(np.abs(x) < 128)
    y = np.where(is_far, 0, y)
    n = (y + 2**31) >> 32
    f = y - (n << 32)
    p = np.full_like(f, EXPONENTIAL_SERIES[-1])
    for c in EXPONENTIAL_SERIES[-2::-1]:
        p = c + ((p * f) >> 32)
    near = (p.astype(np.float64) * _make_power(n - 30)).astype(np.float32)
    far = np.where(np.isnan(x), x, np.where(x > 0, np.float32(np.inf), np.float32(0)))
    return np.where(is_far, far, near)


def logarithm(x: Floats) -> Floats:
    """LOGARITHM."""
    is_number = np.isfinite(x) & (x > 0)
    significand, q = _split_pattern(np.where(is_number, x, np.float32(1)))
    # M < 2^24 is moved up to 2^23 or more: x = M 2^(n - 23).
    up = 24 - np.frexp(significand.astype(np.float64))[1].astype(np.int64)
    m, n = significand << up, q - up + 23
    is_high = m > LOGARITHM_SPLIT
    o = np.where(is_high, 2**24, 2**23)
    n = n + is_high
    z = (np.abs(m - o) << 34) // (m + o)
    w = ((z >> 4) ** 2) >> 28
    r = np.full_like(z, LOGARITHM_SERIES[-1])
    for d in LOGARITHM_SERIES[-2::-1]:
        r = d + ((r * w) >> 32)
    t = (z * r) >> 26
    t = np.where(m < o, -t, t)
    near = ((n * LOGARITHM_OF_TWO + t).astype(np.float64) * 2.0**-38).astype(np.float32)
    far = np.where(x == 0, np.float32(-np.inf), np.where(x > 0, x, np.float32(np.nan)))
    return np.where(is_number, near, far)


def reciprocal_root(a: Floats) -> Floats:
    """SQUARE_ROOT, then 1 divided by it."""
    return np.divide(np.float32(1), np.sqrt(a), dtype=np.float32)


def sigmoid(a: Floats) -> Floats:
    """EXPONENTIAL of -a, ADD 1, then 1 divided by it."""
    return np.float32(1) / (exponential(-a) + np.float32(1))


def _maximum(a: Floats, b: Floats) -> Floats:
    return np.maximum(a, b) + np.float32(0)


def _minimum(a: Floats, b: Floats) -> Floats:
    return np.minimum(a, b) + np.float32(0)


def _flush(a: Floats, b: Floats) -> Floats:
    return np.where(np.abs(a) < b, np.float32(0), a)


def _select_finite(a: Floats, b: Floats, c: Floats) -> Floats:
    return np.where(np.isfinite(a), b, c)


# Reductions
def _sum(node: Node, a: Floats) -> Floats:
    return sum_fixed(_flatten_terms(node, a))


def _maximum_of(node: Node, a: Floats) -> Floats:
    return np.asarray(_flatten_terms(node, a).max(-1) + np.float32(0))


def _scale_of(node: Node, a: Floats) -> Floats:
    return choose_scale(_flatten_terms(node, a), node.selected)


def _product_sum(node: Node, a: Array, b: Array, scale_a: Floats, scale_b: Floats) -> Floats:
    """QUANTIZED_PRODUCT_SUM: matrix products along the loops that move one operand alone."""
    outer = range(len(node.output_sizes))
    own_a = [n for n in outer if a.shape[n] > 1 and b.shape[n] == 1]
    own_b = [n for n in outer if b.shape[n] > 1 and a.shape[n] == 1]
    shared = [n for n in outer if n not in own_a and n not in own_b]
    order = (*shared, *own_a, *own_b)
    lefts = _lay_rows(node, a, order).reshape(prod(a.shape[n] for n in shared), -1, node.terms)
    rights = _lay_rows(node, b, order).reshape(len(lefts), -1, node.terms)
    if lefts.shape[1] == rights.shape[1] == 1:
        total = np.einsum("sk,sk->s", lefts[:, 0], rights[:, 0])
    else:
        total = np.matmul(lefts, rights.transpose(0, 2, 1))
    laid = total.reshape([max(a.shape[n], b.shape[n]) for n in order])
    sums = laid.transpose([order.index(n) for n in outer])
    scales = [_flatten_terms(node, scale)[..., 0].astype(np.float64) for scale in (scale_a, scale_b)]
    scale = scales[0] * scales[1]
    exact = np.where(np.isnan(scale), np.nan, np.where(sums == 0, 0.0, sums * scale))
    return exact.astype(np.float32)


def _lay_rows(node: Node, values: Array, order: Sequence[int]) -> Doubles:
    terms = _flatten_terms(node, values)
    return np.ascontiguousarray(terms.transpose(*order, len(order)), dtype=np.float64)


_REDUCTIONS: Mapping[Operation, Callable[..., Array]] = {
    Operation.SUM: _sum,
    Operation.MAXIMUM_OF: _maximum_of,
    Operation.SCALE_OF: _scale_of,
    Operation.QUANTIZED_PRODUCT_SUM: _product_sum,
}


# Indices
def _gather(node: Node, buffers: Sequence[Array]) -> Array:
    index, read = node.operands
    loops = len(node.sizes)
    place = read.offset + node.selected * view_moving(buffers, index, node.sizes)
    for loop, stride in enumerate(read.strides):
        place = place + stride * _make_index(node, loop, loops)
    source = buffers[read.buffer]
    if place.min() < 0 or place.max() >= source.size:
        raise ValueError("an index leads out of the buffer")
    return np.take(source, place)


def _equal_select(node: Node, index: Integers, a: Floats, b: Floats) -> Floats:
    return np.where(index == _make_index(node, node.selected, len(node.sizes)), a, b)


def _selected_sum(node: Node, index: Integers, a: Floats) -> Floats:
    """The terms of a sum are those whose index is that of the selected loop."""
    outer, loop = len(node.output_sizes), node.selected
    if index.shape[loop] > 1 or a.shape[loop] > 1:
        is_term = index == _make_index(node, loop, len(node.sizes))
        return sum_fixed(_flatten_terms(node, np.where(is_term, a, np.float32(0))))
    # No loop over the selected one: each term goes to where its index says.
    sizes = [1 if n == loop else size for n, size in enumerate(node.sizes)]
    size, columns = node.sizes[loop], prod(sizes[:outer])
    targets = np.broadcast_to(index, sizes).reshape(columns, node.terms)
    terms = np.broadcast_to(a, sizes).reshape(columns, node.terms).astype(np.float64)
    is_term = (targets >= 0) & (targets < size)
    column = np.broadcast_to(np.arange(columns)[:, None], targets.shape)[is_term]
    row, values = targets[is_term], terms[is_term]
    largest = np.zeros((size, columns))
    np.maximum.at(largest, (row, column), np.abs(values))
    shift = np.where(np.isfinite(largest), SUM_BITS - (np.frexp(largest)[1] - 1), 0)
    total = np.zeros((size, columns))
    np.add.at(total, (row, column), np.rint(values * _make_power(shift)[row, column]))
    rows = _finish_sum(total, shift, largest).reshape([size, *sizes[:outer]])
    return np.squeeze(np.swapaxes(rows, 0, loop + 1), 0)


_INDEXED: Mapping[Operation, Callable[..., Array]] = {
    Operation.SELECTED_SUM: _selected_sum,
    Operation.EQUAL_SELECT: _equal_select,
}
_ELEMENTWISE: Mapping[Operation, Callable[..., Array]] = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: np.divide,
    Operation.MAXIMUM: _maximum,
    Operation.MINIMUM: _minimum,
    Operation.SQUARE_ROOT: np.sqrt,
    Operation.RECIPROCAL_ROOT: reciprocal_root,
    Operation.EXPONENTIAL: exponential,
    Operation.LOGARITHM: logarithm,
    Operation.SIGMOID: sigmoid,
    Operation.FLUSH: _flush,
    Operation.FINITE_SELECT: _select_finite,
    Operation.COPY: np.positive,
}
