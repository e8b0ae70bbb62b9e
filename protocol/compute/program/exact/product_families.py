"""Multiplies quantized matrices in one of two ways: as bytes or as float64.

The sums are exact, so the bits are equal. Bytes are four times as fast if the processor has instructions for
them, and slower than float64 otherwise. Bytes are first tested for each shape, because older processors
saturate sums of byte products.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.determinism import has_byte_products
from touchstone.protocol.compute.program import compiled_loops
from touchstone.protocol.compute.program.exact import product_loops
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Node
from touchstone.protocol.spec.program_operations import Operation

PLANES_OF_PAIRS = 2


class Side(NamedTuple):
    """One operand of a batch of products. If `is_turned`, its memory runs term by term, [batch, terms,
    planes, rows], else row by row, [batch, rows, planes, terms]."""

    rows: int
    is_turned: bool


class Shape(NamedTuple):
    """A batch of products of [rows, terms] and [columns, terms]. `planes` is the number of int8 planes, 1 or
    2; 0 means int32."""

    batch: int
    left: Side
    right: Side
    terms: int
    planes: int


Finish = Callable[..., None]
"""Writes one product. Takes (scales of rows, scales of columns as float64, rows, columns, out, at, down,
across)."""
Multiply = Callable[[Tensor, Tensor, Shape], Iterator[Finish]]
"""Takes (flat quantized values of both operands, shape), and returns a function for each product of the batch
that finishes it."""


def multiply_doubles(a: Tensor, b: Tensor, shape: Shape) -> Iterator[Finish]:
    """Multiplies through float64, because sums stay below 2^53."""
    left, right = _widen(a, shape.left, shape), _widen(b, shape.right, shape)
    for product in torch.bmm(left, right.transpose(1, 2)):
        yield partial(product_loops.finish_sums, product.reshape(-1).numpy())


def _widen(values: Tensor, side: Side, shape: Shape) -> Tensor:
    """Converts to float64 [batch, rows, terms]."""
    words = join(values, side.rows if side.is_turned else shape.terms, shape.planes)
    if side.is_turned:
        return words.double().view(shape.batch, shape.terms, side.rows).transpose(1, 2)
    return words.double().view(shape.batch, side.rows, shape.terms)


def join(values: Tensor, width: int, planes: int) -> Tensor:
    """Returns quantized values as one number each: int8, or int32 [n] joined from two planes."""
    if planes != PLANES_OF_PAIRS:
        return values
    words = torch.empty(values.numel() // 2, dtype=torch.int32)
    product_loops.join_planes(values.numpy(), width, words.numpy())
    return words


def multiply_bytes(a: Tensor, b: Tensor, shape: Shape) -> Iterator[Finish]:
    """Multiplies int8 with int32 sums: all planes of one operand with all of the other in one product."""
    left, right = _stack(a, shape.left, shape), _stack(b, shape.right, shape)
    for n in range(shape.batch):
        sums = torch._int_mm(left[n], right[n].t()).numpy().reshape(-1)
        if shape.planes == 1:
            yield partial(product_loops.finish_sums, sums)
        else:
            yield partial(product_loops.finish_planes, sums, shape.left.is_turned, shape.right.is_turned)


def _stack(values: Tensor, side: Side, shape: Shape) -> Tensor:
    """Returns int8 [batch, planes * rows, terms], without a copy."""
    lines = shape.planes * side.rows
    if side.is_turned:
        return values.view(shape.batch, shape.terms, lines).transpose(1, 2)
    return values.view(shape.batch, lines, shape.terms)


FAMILIES: dict[str, Multiply] = {"bytes": multiply_bytes, "doubles": multiply_doubles}
_chosen: dict[Shape, Multiply] = {}
_forced: list[str] = []


def force_family(name: str | None) -> None:
    """Makes this process use one family of products; with None, one is chosen for each shape."""
    _forced[:] = [] if name is None else [name]


def is_allowed(name: str) -> bool:
    """Returns whether this process may use a family."""
    return _forced in ([], [name])


def choose_family(shape: Shape) -> Multiply:
    """Returns the byte products if this processor has instructions for them that give the right sums for this
    shape; else the float64 products."""
    if shape.planes == 0:
        return multiply_doubles
    if _forced:
        return FAMILIES[_forced[0]]
    if shape not in _chosen:
        _chosen[shape] = _choose(shape)
    return _chosen[shape]


def _choose(shape: Shape) -> Multiply:
    if not has_byte_products():
        return multiply_doubles
    if shape.terms == 1:
        return multiply_doubles  # `_int_mm` of one term writes nothing, and leaves old memory as the result.
    is_right = all(_is_right(_draw_extremes(shape, signs), shape) for signs in SIGNS)
    return multiply_bytes if is_right else multiply_doubles


def _is_right(samples: tuple[Tensor, Tensor], shape: Shape) -> bool:
    right, own = (_finish(multiply, samples, shape) for multiply in (multiply_doubles, multiply_bytes))
    return np.array_equal(right, own)


SIGNS = ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
"""Signs of the samples of both sides; 0 means either sign."""


def _draw_extremes(shape: Shape, signs: tuple[int, int] = SIGNS[0]) -> tuple[Tensor, Tensor]:
    """Returns samples that would show saturated sums of byte products: values of the whole range, half of
    them at its ends; or all at one end, because a few random values would not saturate."""
    generator = torch.Generator().manual_seed(0)
    limit = 127 if shape.planes == 1 else 16319
    drawn = []
    for side, sign in zip((shape.left, shape.right), signs, strict=True):
        count = shape.batch * side.rows * shape.terms
        words = torch.randint(-limit, limit + 1, (count,), generator=generator, dtype=torch.int32)
        words[::2] = words[::2].sign() * limit
        if sign:
            words.fill_(sign * limit)
        values = torch.empty(shape.planes * count, dtype=torch.int8)
        width = side.rows if side.is_turned else shape.terms
        product_loops.split_planes(words.numpy(), width, shape.planes, values.numpy())
        drawn.append(values)
    return drawn[0], drawn[1]


def _finish(multiply: Multiply, samples: tuple[Tensor, Tensor], shape: Shape) -> compiled_loops.Floats:
    rows, columns = shape.left.rows, shape.right.rows
    out = np.empty(shape.batch * rows * columns, np.float32)
    scales = np.ones(rows, np.float32), np.ones(columns, np.float64)
    for n, finish in enumerate(multiply(*samples, shape)):
        finish(*scales, rows, columns, out, n * rows * columns, columns, 1)
    return out


def require_quantized(node: Node) -> None:
    """Raises InvalidInput for a product sum of floats, which no exact program has."""
    if node.operation is Operation.PRODUCT_SUM:
        raise InvalidInput(
            what="an exact program has a product sum that is not quantized",
            expected="QUANTIZED_PRODUCT_SUM",
            actual=node.operation.name,
            remedy="Build the program for the format exact.",
        )
