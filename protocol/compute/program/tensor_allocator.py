"""Decides where large tensors lie: in memory, or in mapped files.

Large tensors lie in memory, in huge pages if the system has them. A node with less memory than a step needs
keeps them in files that are mapped into memory. Code that walks them calls `relax` every few megabytes; then
pages that it has read may leave memory. The bytes stay in the files, and are read again when needed. A step
touches gigabytes, but never many at once.

    allocate --> huge pages, or a mapped file --> kernels and checks --> relax, every few megabytes
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, mmap
from weakref import finalize

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.spec.errors import EnvironmentFault

CPU = torch.device("cpu")
LARGE_BYTES = 1 << 20
"""Smaller tensors never lie in files."""
HUGE_PAGE_BYTES = 1 << 21
"""The huge pages of x86-64. Smaller tensors lie where PyTorch puts them."""
SPARE_VECTORS = 3
"""The most unused vectors that are kept for new vectors of their size: W, m and v of a state."""
_spare: list[memoryview] = []
"""Unused vectors. Any thread takes from the end and adds to it, each in one step."""


@dataclass(frozen=True)
class Room:
    """Where large tensors lie. `make` makes a mapped file of the given number of zero bytes; `relax` releases
    pages if there are too many."""

    make: Callable[[int], memoryview]
    relax: Callable[[], None]


_rooms: list[Room] = []
"""The `Room` of this process, if it has one."""


def use_room(room: Room | None) -> None:
    """Puts large tensors of this process into `room` from now on; None means in memory."""
    _rooms[:] = [] if room is None else [room]


def allocate(elements: int, dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> Tensor:
    """Returns a flat tensor with undefined contents. Raises EnvironmentFault if a large one does not fit."""
    size_bytes = dtype.itemsize * elements
    if size_bytes < (LARGE_BYTES if _rooms else HUGE_PAGE_BYTES) or device != CPU:
        return torch.empty(elements, dtype=dtype, device=device)
    return view_mapped(_rooms[0].make(size_bytes) if _rooms else _take_huge_pages(size_bytes), dtype)


def _take_huge_pages(size_bytes: int) -> memoryview:
    """Returns new memory, in huge pages if it fills them and the system has some, because these are faster to
    get and easier on the processor's cache of page addresses. If memory is short, unused vectors are released
    first."""
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
    with suppress(OSError):  # The system has no huge pages.
        memory.madvise(MADV_HUGEPAGE, first, size_bytes // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES)
    return memoryview(memory)[first : first + size_bytes]


def allocate_vector(elements: int, device: torch.device = CPU) -> Tensor:
    """Allocates a float32 vector of a state, as `allocate`, in the memory of an unused one if there is one. A
    round needs new ones for each segment. If free memory belongs to the host of a virtual machine, getting a
    hundred megabytes back takes a fifth of a second."""
    size_bytes = 4 * elements
    if _rooms or size_bytes < HUGE_PAGE_BYTES or device != CPU:
        return allocate(elements, device=device)
    memory = _take_spare(size_bytes) or _take_huge_pages(size_bytes)
    array = np.frombuffer(memory, np.float32)
    # PyTorch keeps the array as long as a tensor uses it.
    finalize(array, _give_back, memory).atexit = False
    return torch.from_numpy(array)


def _take_spare(size_bytes: int) -> memoryview | None:
    """Returns unused memory of this size, or None. Unused memory of other sizes goes back to the system."""
    with suppress(IndexError):
        while True:
            if len(memory := _spare.pop()) == size_bytes:
                return memory
    return None


def _give_back(memory: memoryview) -> None:
    if len(_spare) < SPARE_VECTORS:
        _spare.append(memory)


def forget_spare() -> None:
    """Gives the memory of unused vectors back to the system."""
    _spare.clear()


def return_freed() -> None:
    """Returns freed memory that malloc keeps to the system. PyTorch's smaller tensors lie there, after a step
    of PyTorch up to hundreds of megabytes. It works with glibc; elsewhere nothing happens."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def allocate_zeros(elements: int) -> Tensor:
    """Returns a flat float32 tensor of zeros. Raises as `allocate` does."""
    if 4 * elements < (LARGE_BYTES if _rooms else HUGE_PAGE_BYTES):
        return torch.zeros(elements)
    return allocate(elements)  # New files and new pages are zero already.


def view_mapped(mapped: memoryview, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns the numbers of a mapped file, flat. It stays mapped as long as the tensor lives."""
    return torch.frombuffer(mapped, dtype=dtype)


def relax() -> None:
    """Releases mapped pages if this process holds more memory than it should."""
    if _rooms:
        _rooms[0].relax()
