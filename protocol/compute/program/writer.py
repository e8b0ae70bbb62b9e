"""The frame of the lowering: PyTorch's operations recorded, pending values, and where results are written.

PyTorch computes pieces and then copies them together, or into another order. Here the node that computes
elements writes them where they end, so a concatenation and a transposed copy cost nothing.

Recording what PyTorch does: every aten operation below autograd, in order. This is the point at which
`make_fx` with real tensors and no decompositions records too, and the record is the same (there is a test);
but it takes as long as the step itself instead of five seconds more, which every node would pay before it
stakes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from protocol.compute.program.builder import Builder
from protocol.compute.program.layout import View, narrow, permute, reshape
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Operation

# --- The record ---------------------------------------------------------------------------------------------
FORMATS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})
"""Keywords that say how a result is stored: the result shows it, so that they are not noted."""


@dataclass(eq=False)
class Call:
    """One operation. name: `aten.mm.default`, `input`, or `getitem` for one of several results; args: values,
    other calls among them; shape and dtype are the result's."""

    name: str
    args: tuple[Any, ...]
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    users: list["Call"] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """inputs: calls named `input`; calls: all others in order; outputs: calls whose results were returned."""

    inputs: tuple[Call, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Call, ...]


def record(function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]) -> Record:
    """What `function` does with `inputs`; it returns tensors. Values must not decide what it does."""
    recorder = _Recorder()
    given = tuple(recorder.add_input(tensor) for tensor in inputs)
    with torch.no_grad(), recorder:
        results = function(*inputs)
    return Record(given, tuple(recorder.calls), tuple(recorder.find(tensor) for tensor in results))


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tensors are the edges between calls. They are known by identity, and freed as soon as nothing refers to
    them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self._makers = WeakTensorKeyDictionary()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and to be skipped by the compiler means to load it: two seconds."""
        return False

    def add_input(self, tensor: Tensor) -> Call:
        """The call that stands for an input."""
        return self._remember(tensor, Call("input", ()))

    def find(self, tensor: Tensor) -> Call:
        """The call that made a tensor."""
        call: Call = self._makers[tensor]
        return call

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation and note it. Raises InvalidInput on a keyword that would be lost."""
        if lost := set(kwargs or {}) - FORMATS:
            raise InvalidInput(
                what="the step gives an operation a keyword that programs do not have",
                expected=f"at most {', '.join(sorted(FORMATS))}",
                actual=", ".join(sorted(lost)),
                where=str(func),
                remedy="Write it as operations of their own, for example a + 2 * b.",
            )
        result = func(*args, **(kwargs or {}))
        call = self._add(Call(str(func), tuple(map(self._note, args))))
        if isinstance(result, Tensor):
            self._remember(result, call)
        else:
            for number, part in enumerate(result):
                self._remember(part, self._add(Call("getitem", (call, number))))
        return result

    def _add(self, call: Call) -> Call:
        self.calls.append(call)
        for argument in _flatten(call.args):
            argument.users.append(call)
        return call

    def _remember(self, tensor: Tensor, call: Call) -> Call:
        call.shape, call.dtype = tuple(tensor.shape), tensor.dtype
        # An operation that hands its argument back makes no new tensor: the later call stands for it.
        self._makers[tensor] = call
        return call

    def _note(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            return self.find(argument)
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._note, argument))
        return argument


def _flatten(arguments: Sequence[Any]) -> list[Call]:
    calls: list[Call] = []
    for argument in arguments:
        if isinstance(argument, Call):
            calls.append(argument)
        elif isinstance(argument, tuple):
            calls += _flatten(argument)
    return calls


@dataclass(frozen=True)
class Product:
    """A product that only sums read."""

    a: View
    b: View


@dataclass(frozen=True)
class Absolute:
    """|of|, to be compared."""

    of: View


@dataclass(frozen=True)
class Below:
    """The condition |of| < limit."""

    of: View
    limit: float


@dataclass(frozen=True)
class Piece:
    """A tensor of `size` along `dimension` that is zero but for `view` at `start`."""

    view: View
    dimension: int
    start: int
    size: int


@dataclass(frozen=True)
class LogSoftmax:
    """Over the last dimension: shifted = x - max, powers = exp(max(shifted, -50)), total = their sum."""

    shifted: View
    powers: View
    total: View


@dataclass(frozen=True)
class LossGradient:
    """What the mean negative log likelihood gives back: -scale at each label."""

    labels: View
    scale: float


Value = Any
"""A View, a Python number, a tuple of values, or one of the pending forms above."""
Handler = Callable[..., Value]
"""From (writer, call, the call's arguments as values) to the value of its result."""


class Writer:
    """Where the handlers of operations write their nodes, and where each result belongs."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._places: dict[Call, View] = {}

    def view(self, value: Value) -> View:
        """Operand of a node: a number becomes a constant."""
        if isinstance(value, View):
            return value
        if isinstance(value, (int, float)):
            return self.builder.add_number(value)
        if isinstance(value, Product):
            return self.builder.map(Operation.MULTIPLY, value.a, value.b)
        raise InvalidInput(
            what="the step reads what programs do not have as a tensor",
            expected="a tensor or a number",
            actual=value,
            remedy="Use slices of a gradient, conditions and the like only as operations.py does.",
        )

    def map(self, call: Call, operation: Operation, *operands: Value) -> View:
        """An elementwise operation whose result is the traced node's."""
        views = [self.view(value) for value in operands]
        return self.builder.map(operation, *views, out=self._places.get(call))

    def contract(self, call: Call, operation: Operation, operands: Sequence[View], reduced: int) -> View:
        """A sum over the last `reduced` dimensions, written to where the traced node's result belongs."""
        place = self._places.get(call)
        return self.builder.contract(operation, operands, reduced, place)

    def place_of(self, call: Call) -> View | None:
        """Where the node's result was asked to be written, if anywhere."""
        return self._places.get(call)

    # --- Copies and concatenations: the node that computes the elements writes them in place ----------------
    def plan(self, calls: Sequence[Call]) -> None:
        """Decide where results lie, from the operations that only move them."""
        for call in calls:
            self._plan_copy(call)
        # The whole before its pieces: what is put together of pieces may be a piece itself.
        for call in reversed(calls):
            self._plan_pieces(call)

    def _plan_copy(self, call: Call) -> None:
        """Where PyTorch copies a tensor into another order, have its node write it in that order at once."""
        if call.name != "aten.clone.default" or not _is_only_renamed(call.args[0]):
            return
        maker, place = _trace_back(call.args[0], self.builder.add_tensor(call.shape))
        self._places.setdefault(maker, place)

    def _plan_pieces(self, call: Call) -> None:
        if call.name == "aten.cat.default":
            dimension, start = get_cat_dimension(call), 0
            for piece in call.args[0]:
                self._plan(call, dimension, piece, start)
                start += piece.shape[dimension]
        elif call.name == "aten.add.Tensor" and all(_is_piece(argument) for argument in call.args[:2]):
            for padded in call.args[:2]:
                piece, _, dimension, start = padded.args[:4]
                self._plan(call, dimension, piece, start)

    def _plan(self, call: Call, dimension: int, piece: Call, start: int) -> None:
        """Fix where the result of `call` lies, and that the node that computes `piece` writes it there."""
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


def get_cat_dimension(call: Call) -> int:
    """The dimension along which a concatenation's pieces lie."""
    return int(call.args[1]) % len(call.shape) if len(call.args) > 1 else 0


def _is_piece(argument: Any) -> bool:
    return isinstance(argument, Call) and argument.name == "aten.slice_backward.default"


_UNDO: dict[str, Callable[[View, Call], View]] = {
    "aten.t.default": lambda view, call: permute(view, (1, 0)),
    "aten.transpose.int": lambda view, call: permute(view, swap(len(view.dimensions), *call.args[1:3])),
    "aten.view.default": lambda view, call: reshape(view, call.args[0].shape),
    "aten._unsafe_view.default": lambda view, call: reshape(view, call.args[0].shape),
    "aten.detach.default": lambda view, call: view,
    "aten.clone.default": lambda view, call: view,
}
"""Inverses of the operations that only rename elements."""
_COMPUTED = frozenset({"aten.mm.default", "aten.bmm.default", "aten.add.Tensor"})
"""Operations that can write their result in any order."""


def _is_only_renamed(call: Call) -> bool:
    """Whether no other call reads the elements of `call`, under any name, and an operation computes them."""
    while call.name in _UNDO and len(call.users) == 1:
        call = call.args[0]
    return len(call.users) == 1 and call.name in _COMPUTED


def _trace_back(call: Call, place: View) -> tuple[Call, View]:
    """Who computes the elements of `call`, and where they belong when `call` belongs at `place`."""
    while call.name in _UNDO:
        place = _UNDO[call.name](place, call)
        call = call.args[0]
    return call, place


def swap(rank: int, a: int, b: int) -> list[int]:
    """The order of dimensions with two of them exchanged."""
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return order


def require_form(call: Call, expected: str, holds: bool) -> None:
    """Raises InvalidInput with the call's arguments unless `holds`."""
    if not holds:
        raise InvalidInput(
            what="the step uses a form of an operation that programs do not have",
            expected=expected,
            actual=tuple(argument for argument in call.args if not isinstance(argument, Call)),
            where=call.name,
            remedy="Write the model with the form named.",
        )


def get_only_stride(view: View, dimension: int) -> int:
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
