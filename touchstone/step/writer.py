"""Gives the handlers of the lowering the means to write nodes, and decides where results lie.

PyTorch computes pieces and then copies them together, or into another order. Here the node that computes
elements writes them directly to their final place, so a concatenation and a transposed copy cost nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import INDEX_ROLES
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.builder import Builder
from touchstone.step.pending import Pending
from touchstone.step.recordings import Call
from touchstone.step.views import View, narrow, permute, reshape

MEANS = frozenset({"aten.mean.dim", "aten.mean.default"})
SOFTMAXES = frozenset({"aten._softmax.default", "aten._safe_softmax.default"})
SUMS = frozenset({"aten.sum.dim_IntList", "aten.sum.default"}) | MEANS
Value = Any
"""A View, a Python number, a tuple of values, or a result that is not written yet (`pending.py`)."""
Handler = Callable[..., Value]
"""Maps (writer, call, the call's arguments as values) to the value of the result."""
HANDLERS: dict[str, Handler] = {}
"""Handlers by the operation's name; each file of handlers registers its own."""
READS_PENDING: set[str] = set()
"""Operations whose handlers take results that are not written yet; for all others they are written first."""


def handles(*names: str, pending: bool = False) -> Callable[[Handler], Handler]:
    """Registers the following function for the operations that it lowers. `pending` says that it takes
    results that are not written yet."""

    def register(handler: Handler) -> Handler:
        """Registers the handler under its names."""
        HANDLERS.update(dict.fromkeys(names, handler))
        if pending:
            READS_PENDING.update(names)
        return handler

    return register


class Writer:
    """The functions by which handlers write nodes, and the place of each result."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._places: dict[Call, View] = {}

    def view(self, value: Value) -> View:
        """Returns an operand of a node: a number becomes a constant."""
        if isinstance(value, View):
            return value
        if isinstance(value, (int, float)):
            return self.builder.add_number(value)
        if isinstance(value, Pending):
            return value.write(self.builder)
        raise InvalidInput(
            what="the step reads a value that is neither a tensor nor a number",
            expected="a tensor or a number",
            actual=value,
            remedy="Write the step without it.",
        )

    def map(self, call: Call, operation: Operation, *operands: Value) -> View:
        """Returns an elementwise operation whose result is the traced node's."""
        views = [self.view(value) for value in operands]
        is_number = not any(map(self.is_index, views))
        require_form(call, "numbers: tokens and labels only choose rows", is_number)
        return self.builder.map(operation, *views, out=self._places.get(call))

    def contract(self, call: Call, operation: Operation, operands: Sequence[View], reduced: int) -> View:
        """Returns a sum over the last `reduced` dimensions, written to the place of the traced node's
        result."""
        place = self._places.get(call)
        return self.builder.contract(operation, operands, reduced, place)

    def is_index(self, view: View) -> bool:
        """Returns whether the elements are tokens or labels of the batch."""
        return self.builder.buffers[view.buffer].role in INDEX_ROLES

    def is_constant(self, value: Value, number: float) -> bool:
        """Returns whether all elements are this number."""
        if not isinstance(value, View):
            return bool(value == number)
        is_number = value.buffer == self.builder.numbers_buffer
        return is_number and self.builder.numbers[value.offset] == number

    def place_of(self, call: Call) -> View | None:
        """Returns the place that was planned for the node's result, if there is one."""
        return self._places.get(call)

    def plan(self, calls: Sequence[Call]) -> None:
        """Decides where results lie, from the operations that only move them."""
        for call in calls:
            self._plan_copy(call)
        # The whole before its pieces, because a joined tensor may be a piece itself.
        for call in reversed(calls):
            self._plan_pieces(call)

    def _plan_copy(self, call: Call) -> None:
        """Makes a node write its tensor directly in the order into which PyTorch copies it later."""
        if call.name != "aten.clone.default" or not _is_only_renamed(call.args[0]):
            return
        maker, place = _trace_back(call.args[0], self.builder.add_tensor(call.shape))
        self._places.setdefault(maker, place)

    def _plan_pieces(self, call: Call) -> None:
        if call.name == "aten.cat.default":
            dimension, start = get_cat_dimension(call), 0
            for piece in filter(_has_elements, call.args[0]):
                self._plan(call, dimension, piece, start)
                start += piece.shape[dimension]
        elif call.name == "aten.add.Tensor" and _fill(*call.args[:2]):
            for padded in call.args[:2]:
                piece, _, dimension, start = padded.args[:4]
                self._plan(call, dimension, piece, start)

    def _plan(self, call: Call, dimension: int, piece: Call, start: int) -> None:
        """Fixes where the result of `call` lies, and that the node that computes `piece` writes it there."""
        if call not in self._places:
            self._places[call] = self.builder.add_tensor(call.shape)
        target = narrow(self._places[call], dimension, start, piece.shape[dimension])
        maker, place = _trace_back(piece, target)
        is_shared = not self.builder.shares_pieces and not _has_one_reader(piece)
        if maker not in self._places and maker.args and not is_shared:
            self._places[maker] = place

    def gather_pieces(self, call: Call, dimension: int, pieces: Sequence[tuple[Value, int]]) -> View:
        """Returns the planned tensor; pieces that lie elsewhere are copied into it."""
        place = self._places[call]
        for piece, start in pieces:
            target = narrow(place, dimension, start, piece.shape[dimension])
            if piece != target:
                self.builder.copy(piece, target)
        return place


def get_cat_dimension(call: Call) -> int:
    """Returns the dimension along which a concatenation's pieces lie."""
    return int(call.args[1]) % len(call.shape) if len(call.args) > 1 else 0


def _has_elements(call: Call) -> bool:
    return 0 not in call.shape


def _fill(*arguments: Any) -> bool:
    """Returns whether both are slices of a gradient that together fill it."""
    if not all(isinstance(one, Call) and one.name == "aten.slice_backward.default" for one in arguments):
        return False
    cut = [one.args[1:4] for one in arguments]
    size, dimension = cut[0][0], cut[0][1] % len(cut[0][0])
    lengths = sorted(
        (start % size[dimension], one.args[0].shape[dimension])
        for one, (*_, start) in zip(arguments, cut, strict=True)
    )
    (first, length), (second, rest) = lengths
    is_alike = all(shape == size and d % len(size) == dimension for shape, d, _ in cut)
    return is_alike and (first, length, length + rest) == (0, second, size[dimension])


_UNDO: dict[str, Callable[[View, Call], View]] = {
    "aten.t.default": lambda view, call: permute(view, (1, 0)),
    "aten.transpose.int": lambda view, call: permute(view, swap(len(view.dimensions), *call.args[1:3])),
    "aten.view.default": lambda view, call: reshape(view, call.args[0].shape),
    "aten._unsafe_view.default": lambda view, call: reshape(view, call.args[0].shape),
    "aten.detach.default": lambda view, call: view,
    "aten.clone.default": lambda view, call: view,
}
"""Inverses of the operations that only rename elements."""
RENAMES = frozenset({
    *_UNDO, "aten._to_copy.default", "aten.alias.default", "aten.expand.default", "aten.permute.default",
    "aten.select.int", "aten.slice.Tensor", "aten.squeeze.dim", "aten.unsqueeze.default",
})  # fmt: skip
"""Operations whose result has elements of their argument, and no others."""
_COMPUTED = frozenset({"aten.mm.default", "aten.bmm.default", "aten.add.Tensor"})
"""Operations that can write their result in any order."""


def _is_only_renamed(call: Call) -> bool:
    """Returns whether no other call reads the elements of `call`, under any name, and an operation computes
    them."""
    while call.name in _UNDO and len(call.users) == 1:
        call = call.args[0]
    return len(call.users) == 1 and call.name in _COMPUTED


def _has_one_reader(call: Call) -> bool:
    """Returns whether exactly one call reads the elements, under any name."""
    while call.name in _UNDO and len(call.users) == 1:
        call = call.args[0]
    return len(call.users) == 1


def _trace_back(call: Call, place: View) -> tuple[Call, View]:
    """Returns the call that computes the elements of `call`, and where they must lie if `call` lies at
    `place`."""
    while call.name in _UNDO:
        place = _UNDO[call.name](place, call)
        call = call.args[0]
    return call, place


def swap(rank: int, a: int, b: int) -> list[int]:
    """Returns the order of dimensions with two of them exchanged."""
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return order


def require_form(call: Call, expected: str, holds: bool) -> None:
    """Raises InvalidInput with the call's arguments unless `holds`."""
    if not holds:
        given = tuple(argument for argument in call.args if not isinstance(argument, Call))
        raise InvalidInput(
            what="the step uses a form of an operation that programs do not have",
            expected=expected,
            actual=f"{call.name} of {given}" if given else call.name,
            where=call.where or call.name,
            remedy="Rewrite this line in the form that is expected.",
        )


def get_only_stride(view: View, dimension: int) -> int:
    """Returns the stride of a dimension that is one loop."""
    atoms = view.dimensions[dimension]
    if len(atoms) != 1:
        raise InvalidInput(
            what="an index into a dimension that is not one loop",
            expected="one atom",
            actual=atoms,
            remedy="Index a contiguous tensor.",
        )
    return atoms[0][1]
