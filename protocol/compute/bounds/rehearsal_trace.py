"""Runs a step, checks each node, and keeps little of the trace.

A referee looks only at what a proof opens and at the paths above it. So only buffers that the drawn nodes
touch are hashed, only what is opened is kept, and every other buffer has a fixed hash.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.exact_fault_finder import find_writer
from touchstone.protocol.compute.bounds.rehearsal_samples import Run
from touchstone.protocol.compute.bounds.trace_check import Fault, TraceChecker
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.determinism import get_device
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.planning.lifetimes import list_written
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.merkle import compute_levels, hash_leaf
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import ELEMENT_BYTES, INTEGER_ROLES, Program, leaf_elements

UNHASHED = hash_leaf(b"")
"""Stands for the root of a buffer from which nothing is opened."""


@dataclass(frozen=True)
class Excerpt(TraceTree):
    """A trace that keeps only these runs. `get` has only the inputs."""

    runs: Mapping[Run, tuple[bytes, list[bytes]]]

    def open_run(self, buffer: int, first_element: int, count: int) -> tuple[bytes, list[bytes]]:
        """Opens a run as `TraceTree` does. Raises KeyError for a run that is not kept."""
        return self.runs[buffer, first_element, count]

    def read(self, run: Run) -> dict[tuple[int, int], int]:
        """Returns the bits of a kept run's elements, or its quantized values, by buffer and element."""
        buffer, first, count = run
        role, data = self.program.buffers[buffer].role, self.open_run(*run)[0]
        width, skipped = ELEMENT_BYTES[role], first % leaf_elements(self.program, buffer)
        pieces = (data[width * n : width * (n + 1)] for n in range(skipped, skipped + count))
        values = [int.from_bytes(one, "little", signed=role in INTEGER_ROLES) for one in pieces]
        return {(buffer, first + n): value for n, value in enumerate(values)}


def trace_checked(
    built: BuiltProgram, inputs: Sequence[Tensor], runs: set[Run], numeric_format: str
) -> Excerpt:
    """Runs the step once. Raises EnvironmentFault at the first node with an element outside its bound, or, in
    an exact program, with bits that differ from other kernels'."""
    program, keeper = built.program, _Keeper(built.program, runs)
    interpreter = Interpreter(program, built.constants, is_traced=True, numeric_format=numeric_format)
    is_exact = numeric_format in PRODUCT_BITS
    check = _compare_kernels(built, inputs, numeric_format) if is_exact else _check_bounds(program)
    known = {**dict(enumerate(inputs)), **built.constants}
    for buffer in known.keys() & keeper.wanted.keys():
        keeper.keep(buffer, known[buffer])
    written = list_written(program)
    weights, first, second, tokens, labels, scalars = inputs
    for number in interpreter.iterate((weights, first, second), tokens, labels, scalars):
        for fault in check(number, interpreter.tensors):
            raise refuse_bits(fault) if is_exact else refuse_excess(fault)
        for buffer in keeper.wanted.keys() & written.get(number, ()):
            keeper.keep(buffer, interpreter.tensors[buffer])
    return Excerpt(program, compute_levels(keeper.roots), inputs.__getitem__, keeper.opened)


_Check = Callable[[int, Mapping[int, Tensor]], Iterable[Fault]]
"""Maps (node that was just computed, buffers) to the node's faults."""


def _check_bounds(program: Program) -> _Check:
    checker = TraceChecker(program)
    return lambda number, tensors: checker.check(tensors.__getitem__, range(number, number + 1)).faults


def _compare_kernels(built: BuiltProgram, inputs: Sequence[Tensor], numeric_format: str) -> _Check:
    """Runs the same step on the processor with other kernels, and compares: the compiled loops if this
    process has another device, else `device_kernels.py`."""
    program, written = built.program, list_written(built.program)
    other = Interpreter(
        program,
        built.constants,
        is_traced=True,
        numeric_format=numeric_format,
        device="cpu",
        by_tensors=get_device().type == "cpu",
    )
    weights, first, second, tokens, labels, scalars = inputs
    steps = other.iterate((weights, first, second), tokens, labels, scalars)

    def check(number: int, tensors: Mapping[int, Tensor]) -> Iterator[Fault]:
        """Compares whole buffers once their last node is computed."""
        next(steps)
        for buffer in written.get(number, ()):
            at = _find_differing(tensors[buffer], other.tensors[buffer])
            if at is not None:
                node, element = find_writer(program, buffer, at)
                yield Fault(node, program.nodes[node].operation, element, inf)

    return check


def _find_differing(a: Tensor, b: Tensor) -> int | None:
    """Returns the first element with different bits; all NaN count as equal."""
    if a.dtype is not torch.float32:
        is_other = a != b
    else:
        is_other = (a.view(torch.int32) != b.view(torch.int32)) & ~(a.isnan() & b.isnan())
    return int(is_other.int().argmax()) if bool(is_other.any()) else None


class _Keeper:
    """Opens the wanted runs of each buffer while its values are in memory."""

    def __init__(self, program: Program, runs: set[Run]) -> None:
        self.wanted: dict[int, list[Run]] = defaultdict(list)
        for run in runs:
            self.wanted[run[0]].append(run)
        self.roots = [UNHASHED] * len(program.buffers)
        self.opened: dict[Run, tuple[bytes, list[bytes]]] = {}
        self._program = program

    def keep(self, buffer: int, tensor: Tensor) -> None:
        """Keeps the wanted runs of a buffer, once all of it is computed."""
        tree = build_buffer_tree(self._program, lambda _: tensor, buffer)
        self.roots[buffer], elements = tree.root, leaf_elements(self._program, buffer)
        for _, first, count in self.wanted[buffer]:
            opened = tree.open_run(first // elements, (first + count - 1) // elements)
            self.opened[buffer, first, count] = opened


def refuse_excess(fault: Fault) -> EnvironmentFault:
    """Returns the error for a machine that computes outside the bounds."""
    return EnvironmentFault(
        what="this machine computes outside of the bounds, and could be convicted for it",
        expected="each element of a step within its bound",
        actual=f"element {fault.element} at {fault.ratio:.3g} times its bound",
        where=f"node {fault.node} ({fault.operation.name})",
        remedy="Do not stake from this machine; use another one, or another build of torch.",
        retryable=False,
    )


def refuse_bits(fault: Fault) -> EnvironmentFault:
    """Returns the error for a machine whose bits differ in an exact program."""
    return EnvironmentFault(
        what="this machine does not compute the bits of an exact task, and could be convicted for it",
        expected="the same bits from two kinds of kernels and the referee",
        actual=f"element {fault.element} has other bits",
        where=f"node {fault.node} ({fault.operation.name})",
        remedy="Do not stake from this machine; use another one, or another build of torch.",
        retryable=False,
    )
