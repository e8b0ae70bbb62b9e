"""From PyTorch's operations to the program's: one function for each aten operation that the step's trace has.

The record is that of `plain.plain_step` (`record.py`). Views cost nothing (`layout.py`). Composite operations
are spelled out as the vocabulary has them: a softmax is maximum, subtract, maximum with -50, exponential,
sum, divide. Some patterns across operations are recognised, so that nothing is computed that nobody reads: a
product that is only summed becomes a product sum, a concatenation is written in place by those who compute
its pieces.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import torch

from protocol.compute.builder import Builder
from protocol.compute.layout import (
    View,
    expand,
    insert,
    narrow,
    permute,
    remove,
    reshape,
)
from protocol.compute.record import Call, Record
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Operation

LEAST_EXPONENT = -50.0
"""Softmax takes exp(max(x, -50)): what is smaller vanishes beside the 1 of the largest (2^-24 > e^-50), and
exponentials that underflow cost up to a hundred times as much."""


@dataclass(frozen=True)
class _Product:
    """A product that only sums read."""

    a: View
    b: View


@dataclass(frozen=True)
class _Absolute:
    """|of|, to be compared."""

    of: View


@dataclass(frozen=True)
class _Below:
    """The condition |of| < limit."""

    of: View
    limit: float


@dataclass(frozen=True)
class _Piece:
    """A tensor of `size` along `dimension` that is zero but for `view` at `start`."""

    view: View
    dimension: int
    start: int
    size: int


@dataclass(frozen=True)
class _LogSoftmax:
    """Over the last dimension: shifted = x - max, powers = exp(max(shifted, -50)), total = their sum."""

    shifted: View
    powers: View
    total: View


@dataclass(frozen=True)
class _LossGradient:
    """What the mean negative log likelihood gives back: -scale at each label."""

    labels: View
    scale: float


MEAN = 1
"""PyTorch's number of a loss that is averaged."""
Value = Any
"""A View, a Python number, a tuple of values, or one of the pending forms above."""


class Lowering:
    """Walks a record once and writes a program into `builder`."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._values: dict[Call, Value] = {}
        self._places: dict[Call, View] = {}

    def run(self, record: Record, inputs: Sequence[View]) -> tuple[View, ...]:
        """Lower `record`; `inputs` are the views of its inputs. Returns the views of its outputs. Raises
        InvalidInput on an operation that the vocabulary does not have."""
        self._values.update(zip(record.inputs, inputs, strict=True))
        for call in record.calls:
            self._plan_copy(call)
        for call in record.calls:
            self._plan_pieces(call)
        for call in record.calls:
            self._values[call] = self._lower(call)
        return tuple(self._view(self._values[call]) for call in record.outputs)

    def _lower(self, call: Call) -> Value:
        handler = HANDLERS.get(call.name)
        if handler is None:
            raise InvalidInput(
                what="the step uses an operation that programs do not have",
                expected="one of " + ", ".join(sorted(HANDLERS)),
                actual=call.name,
                remedy="Write the model with the operations listed, or add a lowering.",
            )
        return handler(self, call, *map(self._resolve, call.args))

    def _resolve(self, argument: Any) -> Value:
        if isinstance(argument, Call):
            return self._values[argument]
        if isinstance(argument, tuple):
            return tuple(map(self._resolve, argument))
        return argument

    def _view(self, value: Value) -> View:
        """Operand of a node: a number becomes a constant."""
        if isinstance(value, View):
            return value
        if isinstance(value, (int, float)):
            return self.builder.add_number(value)
        if isinstance(value, _Product):
            return self.builder.map(Operation.MULTIPLY, value.a, value.b)
        raise InvalidInput(
            what="the step reads what programs do not have as a tensor",
            expected="a tensor or a number",
            actual=value,
            remedy="Use slices of a gradient, conditions and the like only as lowering.py's handlers do.",
        )

    def map(self, call: Call, operation: Operation, *operands: Value) -> View:
        """An elementwise operation whose result is the traced node's."""
        views = [self._view(value) for value in operands]
        return self.builder.map(operation, *views, out=self._places.get(call))

    def contract(self, call: Call, operation: Operation, operands: Sequence[View], reduced: int) -> View:
        """A sum over the last `reduced` dimensions, written to where the traced node's result belongs."""
        place = self._places.get(call)
        return self.builder.contract(operation, operands, reduced, place)

    def place_of(self, call: Call) -> View | None:
        """Where the node's result was asked to be written, if anywhere."""
        return self._places.get(call)

    # --- Concatenations: whoever computes a piece writes it in place ----------------------------------------
    def _plan_copy(self, call: Call) -> None:
        """Where PyTorch copies a tensor into another order, whoever computes it writes it in that order."""
        if call.name != "aten.clone.default" or not _is_only_renamed(call.args[0]):
            return
        maker, place = _trace_back(call.args[0], self.builder.add_tensor(call.shape))
        self._places.setdefault(maker, place)

    def _plan_pieces(self, call: Call) -> None:
        if call.name == "aten.cat.default":
            dimension, start = _get_cat_dimension(call), 0
            for piece in call.args[0]:
                self._plan(call, dimension, piece, start)
                start += piece.shape[dimension]
        elif call.name == "aten.add.Tensor" and all(_is_piece(argument) for argument in call.args[:2]):
            for padded in call.args[:2]:
                piece, _, dimension, start = padded.args[:4]
                self._plan(call, dimension, piece, start)

    def _plan(self, call: Call, dimension: int, piece: Call, start: int) -> None:
        """Fix where the result of `call` lies, and that whoever computes `piece` writes it there."""
        if call not in self._places:
            self._places[call] = self.builder.add_tensor(call.shape)
        target = narrow(self._places[call], dimension, start, piece.shape[dimension])
        maker, place = _trace_back(piece, target)
        if maker not in self._places and maker.args:
            self._places[maker] = place

    def gather_pieces(self, call: Call, dimension: int, pieces: Sequence[tuple[Value, int]]) -> View:
        """The planned tensor; pieces that lie elsewhere are copied in."""
        place = self._places[call]
        for piece, start in pieces:
            target = narrow(place, dimension, start, piece.shape[dimension])
            if piece != target:
                self.builder.copy(piece, target)
        return place


def _get_cat_dimension(call: Call) -> int:
    return int(call.args[1]) % len(call.shape) if len(call.args) > 1 else 0


def _is_piece(argument: Any) -> bool:
    return isinstance(argument, Call) and argument.name == "aten.slice_backward.default"


_UNDO: dict[str, Callable[[View, Call], View]] = {
    "aten.t.default": lambda view, call: permute(view, (1, 0)),
    "aten.transpose.int": lambda view, call: permute(view, _swap(len(view.dimensions), *call.args[1:3])),
    "aten.view.default": lambda view, call: reshape(view, call.args[0].shape),
    "aten._unsafe_view.default": lambda view, call: reshape(view, call.args[0].shape),
    "aten.detach.default": lambda view, call: view,
    "aten.clone.default": lambda view, call: view,
}
"""Inverses of the operations that only rename elements."""
_COMPUTED = frozenset({"aten.mm.default", "aten.bmm.default", "aten.add.Tensor"})
"""Operations that can write their result in any order."""


def _is_only_renamed(call: Call) -> bool:
    """Whether nobody else reads the elements of `call`, under any name, and an operation computes them."""
    while call.name in _UNDO and len(call.users) == 1:
        call = call.args[0]
    return len(call.users) == 1 and call.name in _COMPUTED


def _trace_back(call: Call, place: View) -> tuple[Call, View]:
    """Who computes the elements of `call`, and where they belong when `call` belongs at `place`."""
    while call.name in _UNDO:
        place = _UNDO[call.name](place, call)
        call = call.args[0]
    return call, place


def _swap(rank: int, a: int, b: int) -> list[int]:
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return order


# --- One function for each operation ------------------------------------------------------------------------
Handler = Callable[..., Value]
HANDLERS: dict[str, Handler] = {}


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


@_handles("aten.detach.default", "aten.clone.default", "aten.alias.default")
def _lower_same(_lowering: Lowering, _call: Call, x: Value) -> Value:
    return x


@_handles("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
def _lower_view(_lowering: Lowering, call: Call, x: View, _shape_: object) -> View:
    return reshape(x, call.shape)


@_handles("aten.t.default")
def _lower_t(_lowering: Lowering, _call: Call, x: View) -> View:
    return permute(x, (1, 0))


@_handles("aten.transpose.int")
def _lower_transpose(_lowering: Lowering, _call: Call, x: View, a: int, b: int) -> View:
    return permute(x, _swap(len(x.dimensions), a, b))


@_handles("aten.expand.default")
def _lower_expand(_lowering: Lowering, call: Call, x: View, _sizes: object) -> View:
    return expand(x, call.shape)


@_handles("aten.unsqueeze.default")
def _lower_unsqueeze(_lowering: Lowering, call: Call, x: View, dimension: int) -> View:
    return insert(x, dimension % len(call.shape))


@_handles("aten.squeeze.dim")
def _lower_squeeze(_lowering: Lowering, _call: Call, x: View, dimension: int) -> View:
    return remove(x, dimension % len(x.dimensions))


@_handles("aten.slice.Tensor")
def _lower_slice(
    _lowering: Lowering,
    call: Call,
    x: View,
    dimension: int = 0,
    start: int = 0,
    _stop: int = 0,
    step: int = 1,
) -> View:
    _require_form(call, "slices without steps", step == 1)
    return narrow(x, dimension, start % x.shape[dimension], call.shape[dimension])


@_handles("aten.unbind.int")
def _lower_unbind(_lowering: Lowering, _call: Call, x: View) -> tuple[View, ...]:
    return tuple(remove(narrow(x, 0, i, 1), 0) for i in range(x.shape[0]))


@_handles("getitem")
def _lower_getitem(_lowering: Lowering, _call: Call, values: tuple[Value, ...], index: int) -> Value:
    return values[index]


@_handles("aten.cat.default")
def _lower_cat(lowering: Lowering, call: Call, pieces: tuple[View, ...], *_: int) -> View:
    dimension = _get_cat_dimension(call)
    starts = [sum(view.shape[dimension] for view in pieces[:i]) for i in range(len(pieces))]
    return lowering.gather_pieces(call, dimension, list(zip(pieces, starts, strict=True)))


@_handles("aten.slice_backward.default")
def _lower_slice_backward(
    _lowering: Lowering,
    call: Call,
    x: View,
    sizes: Sequence[int],
    dimension: int,
    start: int,
    _stop: int,
    step: int,
) -> _Piece:
    _require_form(call, "slices without steps", step == 1)
    return _Piece(x, dimension, start % sizes[dimension], sizes[dimension])


@_handles("aten.add.Tensor", "aten.add.Scalar")
def _lower_add(lowering: Lowering, call: Call, a: Value, b: Value) -> View:
    if isinstance(a, _Piece) and isinstance(b, _Piece):
        first, second = sorted((a, b), key=lambda piece: piece.start)
        meet = first.start + first.view.shape[first.dimension]
        end = second.start + second.view.shape[second.dimension]
        if a.dimension != b.dimension or (first.start, meet, end) != (0, second.start, a.size):
            raise InvalidInput(
                what="two slices of a gradient do not fill it",
                expected="complementary slices",
                actual=(a, b),
                remedy="Cut tensors into two parts that meet.",
            )
        return lowering.gather_pieces(call, a.dimension, [(a.view, a.start), (b.view, b.start)])
    return lowering.map(call, Operation.ADD, a, b)


@_handles("aten.sub.Tensor")
def _lower_sub(lowering: Lowering, call: Call, a: Value, b: Value) -> View:
    return lowering.map(call, Operation.SUBTRACT, a, b)


@_handles("aten.rsub.Scalar")
def _lower_rsub(lowering: Lowering, call: Call, a: Value, b: Value) -> View:
    return lowering.map(call, Operation.SUBTRACT, b, a)


@_handles("aten.mul.Tensor", "aten.mul.Scalar")
def _lower_mul(lowering: Lowering, call: Call, a: Value, b: Value) -> Value:
    if b == 1.0 and lowering.place_of(call) is None:
        return a
    if isinstance(a, View) and isinstance(b, View) and all(u.name in SUMS for u in call.users):
        return _Product(*(expand(view, call.shape) for view in (a, b)))
    return lowering.map(call, Operation.MULTIPLY, a, b)


@_handles("aten.div.Tensor", "aten.div.Scalar")
def _lower_div(lowering: Lowering, call: Call, a: Value, b: Value) -> View:
    return lowering.map(call, Operation.DIVIDE, a, b)


@_handles("aten.neg.default")
def _lower_neg(lowering: Lowering, call: Call, a: Value) -> View:
    return lowering.map(call, Operation.MULTIPLY, a, -1.0)


@_handles("aten.reciprocal.default")
def _lower_reciprocal(lowering: Lowering, call: Call, a: Value) -> View:
    return lowering.map(call, Operation.DIVIDE, 1.0, a)


@_handles("aten.pow.Tensor_Scalar")
def _lower_pow(lowering: Lowering, call: Call, a: View, exponent: float) -> View:
    if exponent not in (2, 3):
        raise InvalidInput(
            what="a power that programs do not have",
            expected="2 or 3",
            actual=exponent,
            remedy="Write it as products.",
        )
    square = lowering.builder.map(Operation.MULTIPLY, a, a)
    return square if exponent == 2 else lowering.map(call, Operation.MULTIPLY, square, a)


@_handles("aten.rsqrt.default")
def _lower_rsqrt(lowering: Lowering, call: Call, a: Value) -> View:
    return lowering.map(call, Operation.RECIPROCAL_ROOT, a)


@_handles("aten._to_copy.default")
def _lower_to_copy(_lowering: Lowering, call: Call, x: Value) -> Value:
    return x  # only around a square root, see there


@_handles("aten.sqrt.default")
def _lower_sqrt(lowering: Lowering, call: Call, a: Value) -> View:
    if call.dtype is not torch.float64:
        raise InvalidInput(
            what="a float32 square root",
            expected="one through float64, which is rounded correctly everywhere",
            actual=str(call.dtype),
            remedy="Write x.double().sqrt().float().",
        )
    return lowering.map(call, Operation.SQUARE_ROOT, a)


@_handles("aten.clamp.default")
def _lower_clamp(
    lowering: Lowering, call: Call, a: Value, low: float | None = None, high: float | None = None
) -> Value:
    if low is None:
        return lowering.map(call, Operation.MINIMUM, a, high)
    if high is None:
        return lowering.map(call, Operation.MAXIMUM, a, low)
    raised = lowering.builder.map(Operation.MAXIMUM, a, lowering.builder.add_number(low))
    return lowering.map(call, Operation.MINIMUM, raised, high)


@_handles("aten.abs.default")
def _lower_abs(_lowering: Lowering, _call: Call, a: View) -> _Absolute:
    return _Absolute(a)


@_handles("aten.lt.Scalar")
def _lower_lt(_lowering: Lowering, call: Call, a: Value, limit: float) -> _Below:
    _require_form(call, "|x| < limit or x < inf", isinstance(a, _Absolute) or limit == inf)
    return _Below(a.of if isinstance(a, _Absolute) else a, limit)


@_handles("aten.scalar_tensor.default")
def _lower_scalar_tensor(_lowering: Lowering, _call: Call, value: float) -> float:
    return value


@_handles("aten.where.self")
def _lower_where(lowering: Lowering, call: Call, condition: _Below, yes: Value, no: Value) -> View:
    if condition.limit == inf:
        return lowering.map(call, Operation.FINITE_SELECT, condition.of, yes, no)
    if yes != 0.0 or no != condition.of:
        raise InvalidInput(
            what="a selection that programs do not have",
            expected="where(|x| < limit, 0, x) or where(x < inf, a, b)",
            actual=(condition, yes, no),
            remedy="Write it as one of these.",
        )
    return lowering.map(call, Operation.FLUSH, no, condition.limit)


@_handles("aten.ones_like.default")
def _lower_ones_like(_lowering: Lowering, _call: Call, _x: Value) -> float:
    return 1.0


# --- Sums and products --------------------------------------------------------------------------------------
@_handles("aten.mm.default", "aten.bmm.default")
def _lower_matmul(lowering: Lowering, call: Call, a: View, b: View) -> View:
    """[..., M, K] and [..., K, N]: both are spread over [..., M, N, K], the last of which is summed."""
    rank = len(a.dimensions)
    batch = tuple(range(rank - 2))
    *head, rows, terms = a.shape
    full = (*head, rows, b.shape[-1], terms)
    left = expand(insert(a, rank - 1), full)
    right = expand(insert(permute(b, (*batch, rank - 1, rank - 2)), rank - 2), full)
    return lowering.contract(call, Operation.PRODUCT_SUM, (left, right), 1)


@_handles("aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim")
def _lower_sum(
    lowering: Lowering,
    call: Call,
    x: Value,
    dimensions: Sequence[int] | None = None,
    keep: bool = False,
) -> View:
    operands = (x.a, x.b) if isinstance(x, _Product) else (x,)
    shape = operands[0].shape
    reduced = sorted({d % len(shape) for d in (dimensions or range(len(shape)))})
    order = [d for d in range(len(shape)) if d not in reduced] + reduced
    operation = Operation.PRODUCT_SUM if len(operands) == 2 else Operation.SUM
    is_mean = call.name == "aten.mean.dim"
    turned = [permute(view, order) for view in operands]
    place = None if is_mean or keep else lowering.place_of(call)
    if keep and not is_mean and (wanted := lowering.place_of(call)) is not None:
        for d in reversed(reduced):
            wanted = remove(wanted, d)
        place = wanted
    total = lowering.builder.contract(operation, turned, len(reduced), place)
    if is_mean:
        total = lowering.builder.map(
            Operation.DIVIDE, total, lowering.builder.add_number(prod(shape[d] for d in reduced))
        )
    if keep:
        for d in reduced:
            total = insert(total, d)
    return total


SUMS = frozenset({"aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim"})


# --- Composites ---------------------------------------------------------------------------------------------
def _lower_powers(lowering: Lowering, x: View) -> _LogSoftmax:
    """The parts of a softmax over the last dimension."""
    builder = lowering.builder
    largest = insert(builder.reduce_maximum(x), len(x.dimensions) - 1)
    shifted = builder.map(Operation.SUBTRACT, x, largest)
    clamped = builder.map(Operation.MAXIMUM, shifted, builder.add_number(LEAST_EXPONENT))
    powers = builder.map(Operation.EXPONENTIAL, clamped)
    total = insert(builder.contract(Operation.SUM, (powers,), 1), len(x.dimensions) - 1)
    return _LogSoftmax(shifted, powers, total)


@_handles("aten._softmax.default")
def _lower_softmax(lowering: Lowering, call: Call, x: View, dimension: int, _half: bool) -> View:
    _require_form(call, "the last dimension", dimension in (-1, len(x.dimensions) - 1))
    parts = _lower_powers(lowering, x)
    return lowering.map(call, Operation.DIVIDE, parts.powers, parts.total)


@_handles("aten._softmax_backward_data.default")
def _lower_softmax_backward(
    lowering: Lowering, call: Call, gradient: View, softmax: View, dimension: int, _dtype: object
) -> View:
    """(gradient - sum(gradient * softmax)) * softmax."""
    _require_form(call, "the last dimension", dimension in (-1, len(softmax.dimensions) - 1))
    mean = lowering.builder.contract(Operation.PRODUCT_SUM, (gradient, softmax), 1)
    centred = lowering.builder.map(Operation.SUBTRACT, gradient, insert(mean, len(mean.dimensions)))
    return lowering.map(call, Operation.MULTIPLY, centred, softmax)


@_handles("aten._log_softmax.default")
def _lower_log_softmax(lowering: Lowering, call: Call, x: View, dimension: int, _half: bool) -> _LogSoftmax:
    _require_form(call, "the last dimension", dimension in (-1, len(x.dimensions) - 1))
    return _lower_powers(lowering, x)


@_handles("aten.nll_loss_forward.default")
def _lower_nll_loss(
    lowering: Lowering,
    call: Call,
    x: _LogSoftmax,
    labels: View,
    weights: object,
    reduction: int,
    _ignored: int,
) -> tuple[View, None]:
    """The mean of log(total) - shifted[label]."""
    _require_form(call, "a plain mean", weights is None and reduction == MEAN)
    builder = lowering.builder
    positions = x.shifted.shape[0]
    row = remove(narrow(x.shifted, 1, 0, 1), 1)
    chosen = builder.map(Operation.GATHER, labels, row, selected=_only_stride(x.shifted, 1))
    logarithm = builder.map(Operation.LOGARITHM, remove(x.total, 1))
    losses = builder.map(Operation.SUBTRACT, logarithm, chosen)
    total = builder.contract(Operation.SUM, (losses,), 1)
    return builder.map(Operation.DIVIDE, total, builder.add_number(positions)), None


@_handles("aten.nll_loss_backward.default")
def _lower_nll_loss_backward(
    _lowering: Lowering, _call: Call, gradient: float, x: _LogSoftmax, labels: View, *_: object
) -> _LossGradient:
    return _LossGradient(labels, gradient / x.shifted.shape[0])


@_handles("aten._log_softmax_backward_data.default")
def _lower_log_softmax_backward(
    lowering: Lowering, call: Call, gradient: _LossGradient, x: _LogSoftmax, *_: object
) -> View:
    """softmax * scale, less scale at the label."""
    builder = lowering.builder
    scale = builder.add_number(gradient.scale)
    weights = builder.map(Operation.DIVIDE, scale, x.total)
    spread = builder.map(Operation.MULTIPLY, x.powers, weights)
    shape = x.shifted.shape
    at_label = builder.map(
        Operation.EQUAL_SELECT,
        expand(insert(gradient.labels, 1), shape),
        scale,
        builder.add_number(0.0),
        selected=1,
    )
    return lowering.map(call, Operation.SUBTRACT, spread, at_label)


@_handles("aten.embedding.default")
def _lower_embedding(lowering: Lowering, _call: Call, table: View, tokens: View, *_: object) -> View:
    stride = _only_stride(table, 0)
    row = remove(narrow(table, 0, 0, 1), 0)
    index = insert(tokens, len(tokens.dimensions))
    return lowering.builder.map(Operation.GATHER, index, row, selected=stride)


@_handles("aten.embedding_dense_backward.default")
def _lower_embedding_backward(
    lowering: Lowering, call: Call, gradient: View, tokens: View, rows: int, padding: int, is_scaled: bool
) -> View:
    """Each row is the sum of the gradients at the positions that read it: [rows, D] over positions."""
    _require_form(call, "neither padding nor frequencies", padding == -1 and not is_scaled)
    flat = reshape(gradient, (prod(gradient.shape[:-1]), gradient.shape[-1]))
    positions, width = flat.shape
    shape = (rows, width, positions)
    index = expand(reshape(tokens, (positions,)), shape)
    values = expand(permute(flat, (1, 0)), shape)
    place = lowering.place_of(call)
    return lowering.builder.contract(Operation.SELECTED_SUM, (index, values), 1, place, selected=0)


@_handles("aten.silu.default")
def _lower_silu(lowering: Lowering, call: Call, x: View) -> View:
    gate = lowering.builder.map(Operation.SIGMOID, x)
    return lowering.map(call, Operation.MULTIPLY, x, gate)


@_handles("aten.silu_backward.default")
def _lower_silu_backward(lowering: Lowering, call: Call, gradient: View, x: View) -> View:
    """d(x s)/dx = s + x s (1 - s) with s = sigmoid(x)."""
    builder = lowering.builder
    gate = builder.map(Operation.SIGMOID, x)
    value = builder.map(Operation.MULTIPLY, x, gate)
    rest = builder.map(Operation.SUBTRACT, builder.add_number(1.0), gate)
    slope = builder.map(Operation.ADD, gate, builder.map(Operation.MULTIPLY, value, rest))
    return lowering.map(call, Operation.MULTIPLY, gradient, slope)


def _require_form(call: Call, expected: str, holds: bool) -> None:
    if not holds:
        raise InvalidInput(
            what="the step uses a form of an operation that programs do not have",
            expected=expected,
            actual=tuple(argument for argument in call.args if not isinstance(argument, Call)),
            where=call.name,
            remedy="Write the model with the form named.",
        )


def _only_stride(view: View, dimension: int) -> int:
    """Stride of a dimension that is one loop."""
    atoms = view.dimensions[dimension]
    if len(atoms) != 1:
        raise InvalidInput(
            what="an index into a dimension that is not one loop",
            expected="one atom",
            actual=atoms,
            remedy="Index a tensor that lies in one piece.",
        )
    return atoms[0][1]
