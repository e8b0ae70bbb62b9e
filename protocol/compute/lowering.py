"""From PyTorch's operations to the program's: one function for each aten operation of the record.

The record is that of `plain.plain_step` (`record.py`). Views cost nothing (`layout.py`). Composite operations
are spelled out as the vocabulary has them (`composites.py`): a softmax is maximum, subtract, maximum with
-50, exponential, sum, divide. Some patterns across operations are recognised, so that nothing is computed
that nobody reads: a product that is only summed becomes a product sum (`operations.py`), a concatenation is
written in place by those who compute its pieces (`writer.py`).
"""

from collections.abc import Sequence
from typing import Any

from protocol.compute.builder import Builder
from protocol.compute.composites import COMPOSITES
from protocol.compute.layout import View
from protocol.compute.operations import OPERATIONS
from protocol.compute.record import Call, Record
from protocol.compute.writer import Handler, Value, Writer
from protocol.spec.errors import InvalidInput

HANDLERS: dict[str, Handler] = {**OPERATIONS, **COMPOSITES}
"""By the operation's name."""


class Lowering(Writer):
    """Walks a record once and writes a program into `builder`."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self._values: dict[Call, Value] = {}

    def run(self, record: Record, inputs: Sequence[View]) -> tuple[View, ...]:
        """Lower `record`; `inputs` are the views of its inputs. Returns the views of its outputs. Raises
        InvalidInput on an operation that the vocabulary does not have."""
        self._values.update(zip(record.inputs, inputs, strict=True))
        self.plan(record.calls)
        for call in record.calls:
            self._values[call] = self._lower(call)
        return tuple(self.view(self._values[call]) for call in record.outputs)

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
