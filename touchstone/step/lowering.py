"""Lowers PyTorch's operations to the program's, in one walk over a recording.

One function lowers one aten operation (`operations/`). Views cost nothing (`views.py`). The readers of a
result decide how it is written (`pending.py`).
"""

from collections.abc import Sequence
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.step.builder import Builder
from touchstone.step.constants import place_constant
from touchstone.step.operations import HANDLERS, READS_PENDING
from touchstone.step.pending import Pending
from touchstone.step.recordings import Call, Constant, Recording
from touchstone.step.remedies import refuse_missing
from touchstone.step.views import LayoutError, View, make_contiguous
from touchstone.step.writer import Value, Writer


class Lowering(Writer):
    """Walks over a record once and writes a program into `builder`."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self._values: dict[Call, Value] = {}

    def run(self, record: Recording, inputs: Sequence[View]) -> tuple[View, ...]:
        """Writes `record`, and returns the places of its outputs. `inputs` are the places of its inputs.
        Raises InvalidInput on an operation that programs do not have."""
        self._values.update(zip(record.inputs, inputs, strict=True))
        self.plan(record.calls)
        for call in record.calls:
            self._values[call] = self._lower(call)
        return tuple(self.view(self._resolve(call, "")) for call in record.outputs)

    def _lower(self, call: Call) -> Value:
        if 0 in call.shape:
            return make_contiguous(self.builder.numbers_buffer, 0, call.shape)  # Nothing reads it.
        handler = HANDLERS.get(call.name)
        if handler is None:
            refuse_missing(call.name, call.where)
        try:
            return handler(self, call, *(self._resolve(argument, call.name) for argument in call.args))
        except LayoutError as error:
            raise InvalidInput(
                what="elements of a tensor lie in an order that programs do not follow",
                expected="reshapes that do not mix dimensions of different sizes",
                actual=f"{call.name}: {error}",
                where=call.where,
                remedy="Cut or join whole dimensions.",
            ) from error

    def _resolve(self, argument: Any, reader: str) -> Value:
        if isinstance(argument, tuple):
            return tuple(self._resolve(one, reader) for one in argument)
        if not isinstance(argument, Call):
            return argument
        if isinstance(argument, Constant) and argument not in self._values:
            self._values[argument] = place_constant(self.builder, argument.tensor, argument.where)
        value = self._values[argument]
        if isinstance(value, Pending) and reader not in READS_PENDING:
            # Write it once, however many read it.
            value = self._values[argument] = self.view(value)
        return value
