"""Where large tensors lie: in memory, unless a node has less of it than a step touches.

Then they lie in files that are mapped into memory, and whoever goes through them says from time to time that
it may let go of what it has seen: the bytes stay in the files, and are read again when they are touched
again. A step touches gigabytes, but never many at once.

    allocate --> memory, or a mapped file --> kernels and checks --> relax, every few megabytes
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LARGE_BYTES = 1 << 20
"""What is smaller always lies in memory."""


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


def allocate(elements: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A flat tensor with anything in it."""
    size_bytes = dtype.itemsize * elements
    if not _rooms or size_bytes < LARGE_BYTES:
        return torch.empty(elements, dtype=dtype)
    return view_mapped(_rooms[0].make(size_bytes), dtype)


def allocate_zeros(elements: int) -> Tensor:
    """A flat float32 tensor of zeros."""
    if not _rooms or 4 * elements < LARGE_BYTES:
        return torch.zeros(elements)
    return allocate(elements)  # New files are.


def view_mapped(mapped: memoryview, dtype: torch.dtype = torch.float32) -> Tensor:
    """The numbers of a mapped file, flat; it is mapped as long as the tensor lives."""
    return torch.frombuffer(mapped, dtype=dtype)


def relax() -> None:
    """Let go of mapped pages, where this process has more in memory than it wants."""
    if _rooms:
        _rooms[0].relax()
