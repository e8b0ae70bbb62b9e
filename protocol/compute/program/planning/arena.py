"""Plans one arena for a program's tensors, where a place is reused once no later node reads its tensor."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.program.planning.lifetimes import Lifetime, compute_lifetimes
from touchstone.protocol.spec.program import ELEMENT_BYTES, MAX_ELEMENTS, Buffer, Program, Role

EXTERNAL = frozenset({Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT})
OWN_INPUTS = frozenset({Role.TOKENS, Role.LABELS, Role.SCALARS})
ALIGNMENT = 16
"""Tensors begin at multiples of this many elements: cache lines."""


def list_external(program: Program) -> dict[int, Role]:
    """Returns W, m and v before and after the step, by number. The caller that runs the program provides
    their memory."""
    outputs = program.outputs
    named = {outputs.weights, outputs.first_moment, outputs.second_moment}
    return {
        number: buffer.role
        for number, buffer in enumerate(program.buffers)
        if buffer.role in EXTERNAL or number in named
    }


def list_internal(
    program: Program, lifetimes: Mapping[int, Lifetime], hidden: Set[int] = frozenset()
) -> list[int]:
    """Returns the tensors in the arena. `hidden` tensors have no memory of their own."""
    elsewhere = hidden | list_external(program).keys()
    return [
        number
        for number, buffer in enumerate(program.buffers)
        if buffer.role not in OWN_INPUTS and number in lifetimes and number not in elsewhere
    ]


def plan_memory(
    program: Program,
    internal: Sequence[int],
    at_most: int = MAX_ELEMENTS,
    blocks: Iterable[range] = (),
    lifetimes: Mapping[int, Lifetime] | None = None,
) -> tuple[dict[int, int], int]:
    """Returns the offset of each internal tensor in one arena, and the arena's size in elements. A tensor
    gets the first gap that fits when it is first written. At most `at_most` elements of a tensor exist at a
    time. The nodes of each of `blocks` run by turns; a node is in one block at most. `lifetimes` are by
    default those of the program."""
    lifetimes = _stretch(lifetimes or compute_lifetimes(program), internal, blocks)
    gaps, ending = _Gaps(), list[tuple[int, int, int]]()
    offsets: dict[int, int] = {}
    total = 0
    for buffer in sorted(internal, key=lambda b: lifetimes[b].first):
        own, size = lifetimes[buffer], _align(min(count_words(program.buffers[buffer]), at_most))
        while ending and ending[0][0] < own.first:
            _, start, stop = heappop(ending)
            gaps.give_back(start, stop)
        offsets[buffer] = offset = gaps.take(size)
        heappush(ending, (own.last, offset, offset + size))
        total = max(total, offset + size)
    return offsets, total


class _Gaps:
    """The gaps in an endless arena."""

    def __init__(self) -> None:
        self._starts, self._sizes = [0], np.array([1 << 62])

    def take(self, size: int) -> int:
        """Returns the start of free memory of this size, from the first gap that is large enough. The last
        gap has no end."""
        place = int((self._sizes >= size).argmax())
        start = self._starts[place]
        if self._sizes[place] == size:
            self._remove(place)
        else:
            self._starts[place] += size
            self._sizes[place] -= size
        return start

    def give_back(self, start: int, stop: int) -> None:
        """Frees a region, and joins it with free regions beside it."""
        place, size = bisect_left(self._starts, start), stop - start
        if place < len(self._starts) and self._starts[place] == stop:
            size += int(self._sizes[place])
            self._remove(place)
        if place and self._starts[place - 1] + self._sizes[place - 1] == start:
            self._sizes[place - 1] += size
        else:
            self._starts.insert(place, start)
            self._sizes = np.insert(self._sizes, place, size)

    def _remove(self, place: int) -> None:
        del self._starts[place]
        self._sizes = np.delete(self._sizes, place)


def _stretch(
    lifetimes: Mapping[int, Lifetime], buffers: Iterable[int], blocks: Iterable[range]
) -> dict[int, Lifetime]:
    """Extends the lifetimes of these buffers over their block, because the block's first node still reads
    when its last one begins to write."""
    inside = {number: block for block in blocks for number in block}
    stretched: dict[int, Lifetime] = {}
    for buffer in buffers:
        life = lifetimes[buffer]
        first, last = inside.get(life.first), inside.get(life.last)
        stretched[buffer] = replace(
            life,
            first=life.first if first is None else first.start,
            last=life.last if last is None else last.stop - 1,
        )
    return stretched


def lay_out_apart(program: Program, internal: Sequence[int]) -> tuple[dict[int, int], int]:
    """Plans as `plan_memory`, but no two tensors ever share memory."""
    sizes = [_align(count_words(program.buffers[buffer])) for buffer in internal]
    return dict(zip(internal, accumulate(sizes, initial=0), strict=False)), sum(sizes)


SHOWN_TYPES = {Role.INTEGER8: torch.int8, Role.INTEGER16: torch.int16, Role.INTEGER32: torch.int32}
"""The types of quantized values in traces."""
_MEMORY_TYPES = {**SHOWN_TYPES, Role.INTEGER16: torch.int8}
"""The types of quantized values in an arena; 15 bits are two planes of bytes (`exact_kernels.py`)."""
_PLANES = {Role.INTEGER16: 2}


def cut_arena(arena: Tensor, offset: int, buffer: Buffer) -> Tensor:
    """Returns the memory of a tensor at an offset in a flat float32 arena."""
    words = arena[offset : offset + count_words(buffer)]
    dtype = _MEMORY_TYPES.get(buffer.role, torch.float32)
    return words.view(dtype)[: buffer.size * _PLANES.get(buffer.role, 1)]


def count_words(buffer: Buffer) -> int:
    """Returns how many elements of an arena (four bytes each) a tensor takes."""
    return -(-buffer.size * ELEMENT_BYTES[buffer.role] // 4)


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
