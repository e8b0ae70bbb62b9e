"""Where tensors lie: in memory or in mapped files, and the arena of a program's tensors.

Large tensors lie in memory, in huge pages where the system has them. A node that has less memory than a step
touches keeps them in files that are mapped into memory. Code that goes through them calls `relax` every few
megabytes, and the pages that it has seen may leave memory. The bytes stay in the files, and are read again
when they are touched again. A step touches gigabytes, but never many at once.

    allocate --> huge pages, or a mapped file --> kernels and checks --> relax, every few megabytes

The tensors of a program lie in one arena. A place in it is used again once no later node reads its tensor.
"""

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, mmap
from weakref import finalize

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.program import ELEMENT_BYTES, MAX_ELEMENTS, Buffer, Program, Role

CPU = torch.device("cpu")
LARGE_BYTES = 1 << 20
"""What is smaller lies in no file."""
HUGE_PAGE_BYTES = 1 << 21
"""Of x86-64. What is smaller lies where PyTorch puts it."""
SPARE_VECTORS = 3
"""Kept for others of their size: W, m and v of a state."""
_spare: list[memoryview] = []
"""Any thread takes from its end and adds to it, each in one step."""


@dataclass(frozen=True)
class Room:
    """make: a mapped file of so many zero bytes; relax: let go of what was touched, where it is too much."""

    make: Callable[[int], memoryview]
    relax: Callable[[], None]


_rooms: list[Room] = []
"""At most one, of this process."""


def use_room(room: Room | None) -> None:
    """Have large tensors of this process lie in `room` from now on; None: in memory."""
    _rooms[:] = [] if room is None else [room]


def allocate(elements: int, dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> Tensor:
    """A flat tensor with anything in it. Raises EnvironmentFault where a large one does not fit."""
    size_bytes = dtype.itemsize * elements
    if size_bytes < (LARGE_BYTES if _rooms else HUGE_PAGE_BYTES) or device != CPU:
        return torch.empty(elements, dtype=dtype, device=device)
    return view_mapped(_rooms[0].make(size_bytes) if _rooms else _take_huge_pages(size_bytes), dtype)


def _take_huge_pages(size_bytes: int) -> memoryview:
    """New memory, in huge pages as far as it fills them and the system has some: the system hands them out
    faster, and the processor's cache of page addresses covers more memory. Where there is too little, what
    is spare goes first."""
    try:
        memory = mmap(-1, size_bytes + HUGE_PAGE_BYTES, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        if _spare:
            forget_spare()
            return _take_huge_pages(size_bytes)
        raise EnvironmentFault(
            what="a tensor of a step does not fit into memory",
            expected=f"{size_bytes} bytes free",
            actual=error.strerror,
            remedy="Set memory_mb in config.toml, so that large tensors lie in files, or add memory.",
            retryable=False,
        ) from error
    first = -torch.frombuffer(memory, dtype=torch.uint8).data_ptr() % HUGE_PAGE_BYTES
    with suppress(OSError):  # A system that knows no huge pages.
        memory.madvise(MADV_HUGEPAGE, first, size_bytes // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES)
    return memoryview(memory)[first : first + size_bytes]


def allocate_vector(elements: int, device: torch.device = CPU) -> Tensor:
    """As `allocate`, for a float32 vector of a state: in the memory of one that nobody uses any more, if
    there is one. A round needs new ones for each segment. Where free memory belongs to the host of a virtual
    machine, a hundred megabytes of it take a fifth of a second to come back."""
    size_bytes = 4 * elements
    if _rooms or size_bytes < HUGE_PAGE_BYTES or device != CPU:
        return allocate(elements, device=device)
    memory = _take_spare(size_bytes) or _take_huge_pages(size_bytes)
    array = np.frombuffer(memory, np.float32)
    # PyTorch holds the array as long as any tensor lies there.
    finalize(array, _give_back, memory).atexit = False
    return torch.from_numpy(array)


def _take_spare(size_bytes: int) -> memoryview | None:
    """Memory of this size that nobody uses, or None. What is spare of other sizes goes back to the system."""
    with suppress(IndexError):
        while True:
            if len(memory := _spare.pop()) == size_bytes:
                return memory
    return None


def _give_back(memory: memoryview) -> None:
    if len(_spare) < SPARE_VECTORS:
        _spare.append(memory)


def forget_spare() -> None:
    """Give the memory of vectors that nobody uses back to the system."""
    _spare.clear()


def return_freed() -> None:
    """Give freed memory that malloc keeps back to the system. PyTorch's smaller tensors lie there: after a
    step of PyTorch it can be hundreds of megabytes. Only glibc can do this; elsewhere nothing happens."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def allocate_zeros(elements: int) -> Tensor:
    """A flat float32 tensor of zeros. Raises as `allocate` does."""
    if 4 * elements < (LARGE_BYTES if _rooms else HUGE_PAGE_BYTES):
        return torch.zeros(elements)
    return allocate(elements)  # New files and new pages are.


def view_mapped(mapped: memoryview, dtype: torch.dtype = torch.float32) -> Tensor:
    """The numbers of a mapped file, flat; it is mapped as long as the tensor lives."""
    return torch.frombuffer(mapped, dtype=dtype)


def relax() -> None:
    """Let go of mapped pages, where this process has more in memory than it wants."""
    if _rooms:
        _rooms[0].relax()


EXTERNAL = frozenset({Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT})
OWN_INPUTS = frozenset({Role.TOKENS, Role.LABELS, Role.SCALARS})
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
    results = {outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment}
    # What gives the loss alone hands W, m and v on: they are inputs.
    for buffer in results & lifetimes.keys():
        lifetimes[buffer] = replace(lifetimes[buffer], last=len(program.nodes))
    return lifetimes


def list_written(program: Program) -> dict[int, list[int]]:
    """By node: the tensors that are whole when it has been computed."""
    written: dict[int, list[int]] = {}
    for buffer, lifetime in compute_lifetimes(program).items():
        written.setdefault(lifetime.written, []).append(buffer)
    return written


def join_lifetimes(program: Program, other: Program) -> dict[int, Lifetime]:
    """Of the tensors of a program whose nodes may also read what those of another one with the same numbers
    read."""
    lifetimes = compute_lifetimes(program)
    for buffer, life in compute_lifetimes(other).items():
        lifetimes[buffer] = replace(lifetimes[buffer], last=max(lifetimes[buffer].last, life.last))
    return lifetimes


def list_external(program: Program) -> dict[int, Role]:
    """W, m and v before and after the step, by their numbers: whoever runs the program brings the memory."""
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
    """Tensors that lie in the arena. hidden: those that lie in no memory of their own."""
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
    """Offset of each internal tensor in one arena, and the arena's elements: first fit among what is free
    when the tensor is first written. Of each tensor at most so many elements are there at a time. blocks:
    nodes that run by turns, each in one block at most; lifetimes: by default those of the program."""
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
    """What is free in an endless arena."""

    def __init__(self) -> None:
        self._starts, self._sizes = [0], np.array([1 << 62])

    def take(self, size: int) -> int:
        """The start of so much, from the first gap that has it. The last gap has no end."""
        place = int((self._sizes >= size).argmax())
        start = self._starts[place]
        if self._sizes[place] == size:
            self._remove(place)
        else:
            self._starts[place] += size
            self._sizes[place] -= size
        return start

    def give_back(self, start: int, stop: int) -> None:
        """It is free again, in one with what is free beside it."""
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
    """Of these buffers. Within a block the first node still reads when the last has begun to write."""
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
    """As `plan_memory`, but no two tensors ever share memory."""
    sizes = [_align(count_words(program.buffers[buffer])) for buffer in internal]
    return dict(zip(internal, accumulate(sizes, initial=0), strict=False)), sum(sizes)


SHOWN_TYPES = {Role.INTEGER8: torch.int8, Role.INTEGER16: torch.int16, Role.INTEGER32: torch.int32}
"""Quantized values as traces have them."""
_MEMORY_TYPES = {**SHOWN_TYPES, Role.INTEGER16: torch.int8}
"""As they lie in an arena: of 15 bits two planes of bytes (`exact_kernels.py`)."""
_PLANES = {Role.INTEGER16: 2}


def cut_arena(arena: Tensor, offset: int, buffer: Buffer) -> Tensor:
    """The memory of a tensor that lies at an offset of a flat float32 arena."""
    words = arena[offset : offset + count_words(buffer)]
    dtype = _MEMORY_TYPES.get(buffer.role, torch.float32)
    return words.view(dtype)[: buffer.size * _PLANES.get(buffer.role, 1)]


def count_words(buffer: Buffer) -> int:
    """Elements of an arena, of four bytes each, that a tensor needs."""
    return -(-buffer.size * ELEMENT_BYTES[buffer.role] // 4)


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
