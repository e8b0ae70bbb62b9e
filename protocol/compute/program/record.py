"""Recording what PyTorch does: every aten operation below autograd, in order.

This is the point at which `make_fx` with real tensors and no decompositions records too, and the record is
the same (there is a test); but it takes as long as the step itself instead of five seconds more, which every
node would pay before it stakes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from protocol.spec.errors import InvalidInput

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
