"""Where the tensors of a program lie: one arena, whose places are used again once nobody reads them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from protocol.spec.program import MAX_ELEMENTS, Program

ALIGNMENT = 16
"""Elements: tensors begin at cache lines."""


@dataclass(frozen=True)
class Lifetime:
    """Numbers of the nodes that first write, last write and last touch a tensor."""

    first: int
    written: int
    last: int


def compute_lifetimes(program: Program) -> dict[int, Lifetime]:
    """Of every tensor; the outputs live to the end."""
    lifetimes: dict[int, Lifetime] = {}
    for number, node in enumerate(program.nodes):
        for access in node.operands:
            if access.buffer in lifetimes:
                lifetimes[access.buffer] = replace(lifetimes[access.buffer], last=number)
        own = lifetimes.get(node.output.buffer, Lifetime(number, number, number))
        lifetimes[node.output.buffer] = replace(own, written=number, last=number)
    outputs = program.outputs
    for buffer in (outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment):
        lifetimes[buffer] = replace(lifetimes[buffer], last=len(program.nodes))
    return lifetimes


def join_lifetimes(program: Program, other: Program) -> dict[int, Lifetime]:
    """Of the tensors of a program whose nodes may also read what those of another one with the same numbers
    read."""
    lifetimes = compute_lifetimes(program)
    for buffer, life in compute_lifetimes(other).items():
        lifetimes[buffer] = replace(lifetimes[buffer], last=max(lifetimes[buffer].last, life.last))
    return lifetimes


def plan_memory(
    program: Program,
    internal: Sequence[int],
    at_most: int = MAX_ELEMENTS,
    blocks: Iterable[range] = (),
    lifetimes: Mapping[int, Lifetime] | None = None,
) -> tuple[dict[int, int], int]:
    """Offset of each internal tensor in one arena, and the arena's elements: first fit among what is free
    when the tensor is first written. Of each tensor at most so many elements are there at a time. blocks:
    nodes that run by turns; lifetimes: by default those of the program."""
    lifetimes = _stretch(dict(lifetimes or compute_lifetimes(program)), blocks)
    placed: list[tuple[int, int, Lifetime]] = []
    offsets: dict[int, int] = {}
    total = 0
    for buffer in sorted(internal, key=lambda b: lifetimes[b].first):
        own, size = lifetimes[buffer], _align(min(program.buffers[buffer].size, at_most))
        taken = sorted((start, stop) for start, stop, other in placed if other.last >= own.first)
        offset = 0
        for start, stop in taken:
            if start - offset >= size:
                break
            offset = max(offset, stop)
        offsets[buffer] = offset
        placed = [entry for entry in placed if entry[2].last >= own.first]
        placed.append((offset, offset + size, own))
        total = max(total, offset + size)
    return offsets, total


def _stretch(lifetimes: dict[int, Lifetime], blocks: Iterable[range]) -> dict[int, Lifetime]:
    """Within a block the first node still reads when the last has begun to write."""
    for block in blocks:
        for buffer, life in lifetimes.items():
            first = block.start if life.first in block else life.first
            last = block.stop - 1 if life.last in block else life.last
            lifetimes[buffer] = replace(life, first=first, last=last)
    return lifetimes


def lay_out_apart(program: Program, internal: Sequence[int]) -> tuple[dict[int, int], int]:
    """As `plan_memory`, but no two tensors ever share memory."""
    sizes = [_align(program.buffers[buffer].size) for buffer in internal]
    return dict(zip(internal, accumulate(sizes, initial=0), strict=False)), sum(sizes)


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
