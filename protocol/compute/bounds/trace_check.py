"""Checks a claimed step against its program: every element of every node, from the claimant's own operands.

Nothing is trained again. Each node is judged by what the claimant says that it read and wrote. So a false
element shows where it was made, not in the nodes after it. Other code checks that inputs and outputs are the
claimed states.

    provider --> buffer when first touched --> nodes in order, check_node --> report
                 dropped after its last node
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.node_check import NodeReport, check_node
from touchstone.protocol.compute.program.planning.arena import SHOWN_TYPES
from touchstone.protocol.compute.program.planning.node_views import look
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import INDEX_ROLES, Access, Program
from touchstone.protocol.spec.program_operations import Operation

Provider = Callable[[int], Tensor]
"""Returns a buffer by its number: flat, whole, float32 (int64 for tokens and labels). It is asked once in a
check."""
Release = Callable[[int], None]
"""Called with each buffer that is not needed any more."""


class Fault(NamedTuple):
    """The worst element of a node that has elements outside their bounds. `element` is counted over the
    output's loops. `ratio` is |claimed - exact| / bound, above 1, infinite if the bound is zero or the claim
    is not finite."""

    node: int
    operation: Operation
    element: int
    ratio: float


@dataclass(frozen=True)
class KindReport:
    """The result for one kind of operation. `worst_ratio` is as in `Fault.ratio`."""

    elements: int = 0
    outside: int = 0
    worst_ratio: float = 0.0

    def add(self, node: NodeReport) -> "KindReport":
        """Adds one more node."""
        return KindReport(
            self.elements + node.elements,
            self.outside + node.outside,
            max(self.worst_ratio, node.worst_ratio),
        )


@dataclass(frozen=True)
class TraceReport:
    """The result of a check. `faults` has one entry for each node with a fault, in the order of nodes."""

    kinds: Mapping[Operation, KindReport]
    faults: tuple[Fault, ...]

    @property
    def worst(self) -> Fault | None:
        """The fault with the largest ratio, the earliest of equals."""
        return max(self.faults, key=lambda fault: fault.ratio, default=None)


class TraceChecker:
    """Checks traces of one program. Call pin_kernels first, because the bounds assume IEEE float32 with
    subnormals."""

    def __init__(self, program: Program) -> None:
        """Prepares a checker. Raises InvalidInput for an exact program, whose elements have no bounds."""
        if program.is_exact:
            raise InvalidInput(
                what="an exact program has no bounds",
                expected="a program of a float32 task",
                actual="one with quantized values",
                remedy="Compare its bits instead.",
            )
        self.program = program

    def check(self, get: Provider, nodes: range | None = None, release: Release | None = None) -> TraceReport:
        """Checks these nodes (all by default) of the trace that `get` gives. Raises InvalidInput if a tensor
        does not fit the program, or an index is outside its table."""
        numbers = range(len(self.program.nodes)) if nodes is None else nodes
        last_uses = compute_last_uses(self.program, numbers)
        held: dict[int, Tensor] = {}

        def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
            """Returns the tensor of an access in a buffer that is in memory."""
            return look(held[access.buffer], access.offset, sizes, strides)

        kinds: dict[Operation, KindReport] = {}
        faults = []
        for number in numbers:
            node = self.program.nodes[number]
            touched = {access.buffer for access in (*node.operands, node.output)}
            for buffer in touched - held.keys():
                held[buffer] = fetch_buffer(self.program, get, buffer)
            seen = check_node(node, view)
            kinds[node.operation] = kinds.get(node.operation, KindReport()).add(seen)
            if seen.outside:
                faults.append(Fault(number, node.operation, seen.element, seen.worst_ratio))
            for buffer in last_uses.get(number, ()):
                del held[buffer]
                if release:
                    release(buffer)
        return TraceReport(kinds, tuple(faults))


def fetch_buffer(program: Program, get: Provider, number: int) -> Tensor:
    """Returns a buffer from the provider, contiguous. Raises InvalidInput if its size or type does not fit
    the program."""
    entry, tensor = program.buffers[number], get(number)
    dtype = torch.int64 if entry.role in INDEX_ROLES else SHOWN_TYPES.get(entry.role, torch.float32)
    if tensor.shape != (entry.size,) or tensor.dtype != dtype:
        raise InvalidInput(
            what="a tensor of the trace is not the program's",
            expected=f"{entry.size} elements of {dtype}",
            actual=f"{tuple(tensor.shape)} of {tensor.dtype}",
            where=f"buffer {number}",
            remedy="Ask for the whole buffer, flat.",
        )
    return tensor.contiguous()


def compute_last_uses(program: Program, nodes: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Returns, for each node, the buffers that no later one of `nodes` touches; inputs and constants are
    included."""
    last: dict[int, int] = {}
    for number in nodes:
        node = program.nodes[number]
        last.update((access.buffer, number) for access in (*node.operands, node.output))
    uses: dict[int, tuple[int, ...]] = {}
    for buffer, number in last.items():
        uses[number] = (*uses.get(number, ()), buffer)
    return uses
