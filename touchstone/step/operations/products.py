"""Lowers sums and products."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.operations.arithmetic import scale
from touchstone.step.pending import Product
from touchstone.step.recordings import Call
from touchstone.step.views import View, expand, insert, permute, remove
from touchstone.step.writer import MEANS, RENAMES, SOFTMAXES, Value, Writer, handles, require_form


@handles("aten.mm.default", "aten.bmm.default")
def _lower_matmul(writer: Writer, call: Call, a: View, b: View) -> View:
    return writer.builder.multiply_matrices(a, b, writer.place_of(call), _find_weighted(call.args[:2]))


def _find_weighted(factors: Sequence[Call]) -> int | None:
    """Returns the operand that is multiplied with a softmax, under any name."""
    for place, factor in enumerate(factors):
        while factor.name in RENAMES:
            factor = factor.args[0]
        if factor.name in SOFTMAXES:
            return 1 - place
    return None


@handles("aten.addmm.default", "aten.baddbmm.default")
def _lower_addmm(
    writer: Writer, call: Call, bias: Value, a: View, b: View, beta: float = 1, alpha: float = 1
) -> View:
    """Computes beta * bias + alpha * (a @ b)."""
    product = writer.builder.multiply_matrices(a, b, weighted=_find_weighted(call.args[1:3]))
    return writer.map(call, Operation.ADD, scale(writer, product, alpha), scale(writer, bias, beta))


@handles("aten.mv.default")
def _lower_mv(writer: Writer, call: Call, a: View, b: View) -> View:
    return writer.contract(call, Operation.PRODUCT_SUM, (a, expand(b, a.shape)), 1)


@handles("aten.dot.default")
def _lower_dot(writer: Writer, call: Call, a: View, b: View) -> View:
    return writer.contract(call, Operation.PRODUCT_SUM, (a, b), 1)


@handles("aten.cumsum.default")
def _lower_cumsum(writer: Writer, _call: Call, x: View, dimension: int) -> View:
    """Computes by a product with a triangle of ones: element i is the sum of the elements 0 .. i."""
    return _multiply_along(writer, x, dimension, torch.ones(x.shape[dimension], x.shape[dimension]).tril())


@handles("aten.flip.default")
def _lower_flip(writer: Writer, _call: Call, x: View, dimensions: Sequence[int]) -> View:
    """Computes by products with matrices that reverse the order."""
    for dimension in dimensions:
        x = _multiply_along(writer, x, dimension, torch.eye(x.shape[dimension]).flip(0))
    return x


def _multiply_along(writer: Writer, x: View, dimension: int, matrix: Tensor) -> View:
    """Computes matrix @ x, where x is a column along one dimension."""
    rank, along = len(x.dimensions), dimension % len(x.dimensions)
    order = [*(d for d in range(rank) if d != along), along]
    turned, size = permute(x, order), x.shape[along]
    shape = (*turned.shape[:-1], size, size)
    factors = (expand(insert(turned, rank - 1), shape), expand(writer.builder.add_constant(matrix), shape))
    total = writer.builder.contract(Operation.PRODUCT_SUM, factors, 1)
    return permute(total, [order.index(d) for d in range(rank)])


@handles("aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim", "aten.mean.default", pending=True)
def _lower_sum(
    writer: Writer,
    call: Call,
    x: Value,
    dimensions: Sequence[int] | None = None,
    keep: bool = False,
) -> View:
    operands = (x.a, x.b) if isinstance(x, Product) else (writer.view(x),)
    shape = operands[0].shape
    if not prod(shape):
        require_form(call, "a mean of one number or more", call.name not in MEANS)
        return expand(writer.view(0.0), call.shape)
    reduced = sorted({d % len(shape) for d in (dimensions or range(len(shape)))})
    order = [d for d in range(len(shape)) if d not in reduced] + reduced
    operation = Operation.PRODUCT_SUM if len(operands) == 2 else Operation.SUM
    is_mean = call.name in MEANS
    turned = [permute(view, order) for view in operands]
    place = None if is_mean or keep else writer.place_of(call)
    if keep and not is_mean and (wanted := writer.place_of(call)) is not None:
        for d in reversed(reduced):
            wanted = remove(wanted, d)
        place = wanted
    total = writer.builder.contract(operation, turned, len(reduced), place)
    if is_mean:
        total = writer.builder.divide(total, prod(shape[d] for d in reduced))
    if keep:
        for d in reduced:
            total = insert(total, d)
    return total
