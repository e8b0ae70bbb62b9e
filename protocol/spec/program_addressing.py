"""Finds the operands' elements of an element of a node (docs/spec.md, section 8)."""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import Operation


def unravel(number: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the loop indices of the `number`-th element; the last loop runs fastest."""
    indices = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        indices.append(index)
    return tuple(reversed(indices))


def locate(access: Access, indices: tuple[int, ...]) -> int:
    """Returns the element of the buffer at these loop indices (as many as there are strides)."""
    return access.offset + sum(i * stride for i, stride in zip(indices, access.strides, strict=True))


def iterate_terms(node: Node, number: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yields, for the `number`-th output element, each term's loop indices and its operands' elements, before
    index operands move them."""
    outer = unravel(number, node.output_sizes)
    for term in range(node.terms):
        indices = (*outer, *unravel(term, node.reduced_sizes))
        yield indices, tuple(locate(operand, indices) for operand in node.operands)


def iterate_runs(node: Node, element: int, get: Callable[[int], Any]) -> Iterator[tuple[int, int, int]]:
    """Yields the buffer, first element and length of each run that is opened for an element's operands."""
    indices = (*unravel(element, node.output_sizes), *(0 for _ in node.reduced_sizes))
    operands = list(node.operands)
    moved = 0
    if node.operation in (Operation.GATHER, Operation.EQUAL_SELECT):
        index = int(get(operands[0].buffer)[locate(operands[0], indices)])
        if node.operation is Operation.GATHER:
            moved = index * node.selected
        else:
            operands.pop(2 if index == indices[node.selected] else 1)
    for place, operand in enumerate(operands):
        is_moving = any(operand.strides[len(node.output_sizes) :])
        start = locate(operand, indices) + (moved if place else 0)
        yield operand.buffer, start, node.terms if is_moving else 1


def is_run(strides: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Returns whether the elements at these strides are successive, or always the same element. The last loop
    runs fastest. The terms of sums are opened as one run of leaves."""
    return not any(strides) or strides == lay_row_major(sizes)


def lay_row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides of successive elements; the last loop runs fastest."""
    return tuple(prod(sizes[n + 1 :]) for n in range(len(sizes)))
