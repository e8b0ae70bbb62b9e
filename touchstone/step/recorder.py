"""Records the operations of a PyTorch function without computing them.

The inputs are fake tensors, with shapes and no values. So a large model is recorded in seconds, and code that
looks at a value is refused. An operation that reads no input is computed at once: its result is a constant,
which enters the program if a recorded operation reads it.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

import touchstone
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.step.operations import HANDLERS
from touchstone.step.recordings import FORMATS, Call, Constant, Recording
from touchstone.step.remedies import refuse_missing

SHAPE_ONLY = {
    "aten.zeros_like.default": 0.0, "aten.new_zeros.default": 0.0, "aten.ones_like.default": 1.0,
    "aten.new_ones.default": 1.0,
}  # fmt: skip
"""Operations that read only the shape of their argument, and the value of all elements of the result."""
OVERWRITING = {
    "aten.add_.Tensor": "aten.add.Tensor",
    "aten.add_.Scalar": "aten.add.Scalar",
    "aten.sub_.Tensor": "aten.sub.Tensor",
    "aten.mul_.Tensor": "aten.mul.Tensor",
    "aten.mul_.Scalar": "aten.mul.Scalar",
    "aten.div_.Tensor": "aten.div.Tensor",
    "aten.div_.Scalar": "aten.div.Scalar",
    "aten.relu_.default": "aten.relu.default",
    "aten.silu_.default": "aten.silu.default",
    "aten.clamp_.default": "aten.clamp.default",
    "aten.logical_and_.default": "aten.logical_and.default",
    "aten.masked_fill_.Scalar": "aten.masked_fill.Scalar",
}
"""In-place operations, and the operation of the same result that is not in place."""
OWN_FOLDERS = tuple(str(Path(module.__file__).parent) for module in (torch, touchstone) if module.__file__)
"""Lines in these folders tell the author of a step nothing."""
VALUE_REMEDY = (
    "A program does the same on every batch: compute all cases, and select by a product with 0 and 1."
)


def record(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[tuple[Sequence[int], torch.dtype]]
) -> Recording:
    """Records `function`, which returns tensors, on inputs of these shapes and dtypes. Raises InvalidInput,
    with the line of the caller's code, if it depends on values, draws random numbers, or overwrites a tensor
    that has a view."""
    recorder = _Recorder()
    tensors = [recorder.add_input(shape, dtype) for shape, dtype in inputs]
    given = tuple(recorder.find(tensor) for tensor in tensors)
    # Record attention as separate operations, not as one kernel of a device.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _quiet(), _uncompiled(), recorder:
        results = function(*tensors)
        outputs = tuple(map(recorder.find, results))
    recorder.require_unchanged()
    needed = _find_needed(recorder.calls, outputs)
    for call in needed:
        call.users = [user for user in call.users if user in needed]
    calls = tuple(call for call in recorder.calls if call in needed)
    constants = tuple(constant for constant in recorder.constants if constant in needed)
    return Recording(given, calls, outputs, constants)


def require_equal(first: Recording, second: Recording) -> None:
    """Raises InvalidInput, with the line, if two recordings of one function differ. Then it counts, or draws,
    outside of PyTorch, and a program would keep the number of one call for ever."""
    for one, other in zip_longest((*first.constants, *first.calls), (*second.constants, *second.calls)):
        if one is None or other is None or not _is_same(one, other):
            _refuse(
                "the step does not do the same at each call",
                "the same operations with the same numbers",
                (one or other).name,
                (one or other).where,
                "Take the number from the batch, or fix it once: no counters, no random.random().",
            )


def _is_same(one: Call, other: Call) -> bool:
    if isinstance(one, Constant) and isinstance(other, Constant) and one.tensor is not other.tensor:
        return one.tensor.dtype == other.tensor.dtype and torch.equal(one.tensor, other.tensor)
    pairs = zip_longest(tree_leaves(one.args), tree_leaves(other.args))
    same = all(a == b or (isinstance(a, Call) and isinstance(b, Call)) or a != a for a, b in pairs)
    return same and (one.name, one.shape) == (other.name, other.shape)


def _find_needed(calls: Sequence[Call], outputs: Sequence[Call]) -> set[Call]:
    """Returns the calls whose results the outputs depend on."""
    needed = set(outputs)
    for call in reversed(calls):
        if call in needed:
            needed.update(argument for argument in tree_leaves(call.args) if isinstance(argument, Call))
    return needed


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences PyTorch, which prints a page for each operation that cannot run without values, besides
    raising its error."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Turns torch.compile off: compiled code hides its operations, and the compiler ends the process if it
    meets a recorder."""
    usual, is_loaded = torch.compile, "torch._dynamo" in sys.modules
    setattr(torch, "compile", _leave)  # noqa: B010
    try:
        with torch.compiler.set_stance("force_eager") if is_loaded else nullcontext():
            yield
    finally:
        setattr(torch, "compile", usual)  # noqa: B010


def _leave(function: Any = None, **options: Any) -> Any:
    return _leave if function is None else function


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes calls. Tensors are the edges between them, known by identity, and freed as soon as nothing refers
    to them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self.constants: list[Constant] = []
        self._missing: list[tuple[str, str]] = []
        """Operations that programs do not have, with their lines: an error if an output depends on them."""
        self._makers = WeakTensorKeyDictionary()
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._lines: dict[int, str] = {}
        """Lines of the forward pass, by the number that autograd gives each operation, because an operation
        of the backward pass has no line."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False: nothing is compiled here, and being skipped by the compiler would load it, which
        takes two seconds."""
        return False

    def add_input(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Returns a tensor without values that stands for an input."""
        with self._fake:
            tensor = torch.empty(tuple(shape), dtype=dtype)
        self._remember(tensor, Call("input", ()))
        return tensor

    def find(self, tensor: Tensor) -> Call:
        """Returns the call that made a tensor, or a new constant if none did."""
        call: Call | None = self._makers.get(tensor)  # type: ignore[no-untyped-call]
        if call is None:
            call = Constant("constant", (), where=_find_caller(), tensor=tensor, version=tensor._version)
            self.constants.append(call)
            self._remember(tensor, call)
        return call

    def require_unchanged(self) -> None:
        """Raises InvalidInput if a constant was written to after an operation had read it."""
        for constant in self.constants:
            if constant.tensor._version != constant.version:
                _refuse(
                    "a constant is overwritten after it was read",
                    "constants that stay as they are",
                    f"{constant.dtype} {list(constant.shape)}",
                    constant.where,
                    "Clone it before you write to it.",
                )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the operation and records it, unless it reads only constants."""
        kwargs, name = kwargs or {}, str(func)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        is_noted = any(self._is_noted(tensor) for tensor in given)
        where = self._find_line() if is_noted or torch.Tag.nondeterministic_seeded in func.tags else ""
        if torch.Tag.nondeterministic_seeded in func.tags:
            _refuse(
                "the step draws random numbers",
                "none: a dropout of 0, module.eval()",
                name,
                where,
                "Draw none, or draw them once, outside of the step.",
            )
        if not is_noted:
            return func(*args, **kwargs)
        if name in SHAPE_ONLY:
            shape = args[1] if name.startswith("aten.new_") else args[0].shape
            dtype = kwargs.get("dtype") or args[0].dtype
            return torch.full((1,) * len(shape), SHAPE_ONLY[name], dtype=dtype).expand(tuple(shape))
        result = self._run(func, args, kwargs, where)
        made = [tensor for tensor in tree_leaves(result) if isinstance(tensor, Tensor)]
        if not made:
            return result
        self._require_kept(func, given, where)
        call = self._add(Call(OVERWRITING.get(name, name), self._normalize(func, args, kwargs), where=where))
        if isinstance(result, Tensor):
            self._remember(result, call)
        else:
            for number, part in enumerate(result):
                if isinstance(part, Tensor):
                    self._remember(part, self._add(Call("getitem", (call, number), where=where)))
        return result

    def _is_noted(self, tensor: Tensor) -> bool:
        call = self._makers.get(tensor)  # type: ignore[no-untyped-call]
        return call is not None and not isinstance(call, Constant)

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> Any:
        name = str(func)
        if name.startswith("aten.") and name not in HANDLERS and name not in OVERWRITING:
            self._missing.append((name, where))
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            if self._missing and self._missing[0] != (name, where):
                refuse_missing(*self._missing[0])
            _refuse("values of a tensor decide what is done next", "the same for every batch", name, where)
        except RuntimeError:
            # PyTorch cannot run some unsupported operations without values.
            if not self._missing:
                raise
            refuse_missing(*self._missing[0])

    def _require_kept(self, func: Any, given: Sequence[Tensor], where: str) -> None:
        """Raises InvalidInput if the operation writes into a tensor that has another name too."""
        if not func._schema.is_mutable:
            return
        target = given[0].untyped_storage()._cdata
        others = [
            tensor
            for tensor in list(self._makers)
            if tensor is not given[0] and tensor.untyped_storage()._cdata == target
        ]
        if others or not self._is_noted(given[0]) or str(func) not in OVERWRITING:
            if self._missing and self._missing[0] != (str(func), where):
                # PyTorch's gradient of an unsupported operation overwrites something.
                refuse_missing(*self._missing[0])
            _refuse(
                "a tensor is overwritten",
                "operations whose result is a tensor of its own",
                str(func),
                where,
                "Write x = x + y for x += y, torch.cat or torch.where for x[...] = y, and inplace=False.",
            )

    def _normalize(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Returns all arguments by position, without keywords that say how a result is stored, because the
        result shows that."""
        told = {name: value for name, value in kwargs.items() if name not in FORMATS}
        found = [self._note(argument) for argument in args]
        for argument in func._schema.arguments[len(args) :]:
            if not told:
                break
            if argument.name not in FORMATS:
                found.append(self._note(told.pop(argument.name, argument.default_value)))
        return tuple(found)

    def _add(self, call: Call) -> Call:
        self.calls.append(call)
        for argument in tree_leaves(call.args):
            if isinstance(argument, Call):
                argument.users.append(call)
        return call

    def _remember(self, tensor: Tensor, call: Call) -> None:
        call.shape, call.dtype = tuple(tensor.shape), tensor.dtype
        # If an operation returns its argument, it makes no new tensor; the later call stands for it.
        self._makers[tensor] = call

    def _note(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            is_number = not argument.dim() and not self._is_noted(argument)
            return argument.item() if is_number else self.find(argument)
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._note, argument))
        return argument

    def _find_line(self) -> str:
        """Returns the innermost line of the caller's code, or of the library that it uses."""
        node: Any = torch._C._current_autograd_node()
        if node is not None:
            line = self._lines.get(node._sequence_nr(), "")
            return f"{line} (backward)" if line else node.name()
        line = _find_caller()
        # The number of the present operation: the next one gets the number that is asked for here.
        coming: int = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        self._lines.setdefault(coming - 1, line)
        return line


def _find_caller() -> str:
    """Returns file and line of the innermost frame outside PyTorch and this project."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _refuse(what: str, expected: str, actual: str, where: str, remedy: str = "") -> NoReturn:
    raise InvalidInput(
        what=what, expected=expected, actual=actual, where=where, remedy=remedy or VALUE_REMEDY
    )
