"""Lays out how Triton kernels walk tensors with strides: tiles of two loops inside the other loops."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

OUTER = 3
"""The most loops around a tile."""
REACH = 1 << 31
"""How many places within a tile can be numbered in 32 bits."""
STILL, NEXT, APART = 0, 1, 2
"""How a tensor moves along a loop of a tile: not at all, by one element, or by more."""
BYTES_AT_ONCE = 16
FLOATS_AT_ONCE = 4
Strides = tuple[int, ...]


@dataclass(frozen=True)
class Loops:
    """Loops, except loops of one iteration. Successive loops are joined if all tensors allow it. `strides`
    are by tensor."""

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]

    def pick(self, loops: Sequence[int]) -> "Loops":
        """Returns some of the loops, in another order."""
        return Loops(
            tuple(self.sizes[n] for n in loops), tuple(tuple(own[n] for n in loops) for own in self.strides)
        )


def join_loops(sizes: Sequence[int], *strides: Sequence[int]) -> Loops:
    """Returns the same elements in fewer loops, in the given order."""
    kept = [n for n, size in enumerate(sizes) if size > 1]
    joined: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for n in kept:
        is_next = bool(joined) and all(
            own[-1] == other[n] * sizes[n] for own, other in zip(steps, strides, strict=True)
        )
        if is_next:
            joined[-1] *= sizes[n]
        else:
            joined.append(sizes[n])
        for own, other in zip(steps, strides, strict=True):
            own[len(joined) - 1 :] = [other[n]]
    return Loops(tuple(joined), tuple(map(tuple, steps)))


def sort_by(first: Sequence[int], sizes: Sequence[int], *strides: Sequence[int]) -> Loops:
    """Returns joined loops, sorted by falling strides of tensor `first`."""
    order = sorted(range(len(sizes)), key=lambda n: -first[n])
    return join_loops([sizes[n] for n in order], *([own[n] for n in order] for own in strides))


@dataclass(frozen=True)
class Tiling:
    """Loops cut into tiles. `sizes` are the sizes of a tile's last loop (x), of its first (y), and of the
    outer loops. `strides` are each tensor's strides over the same loops."""

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]
    block_x: int
    block_y: int

    @property
    def is_wide(self) -> bool:
        """Whether places within a tile need 64 bits."""
        return any(self.block_x * own[0] + self.block_y * own[1] >= REACH for own in self.strides)

    @property
    def programs(self) -> int:
        """The number of tiles."""
        x, y, *outer = self.sizes
        return -(-x // self.block_x) * -(-y // self.block_y) * prod(outer)

    def describe(self, place: int, at_once: int = FLOATS_AT_ONCE) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns, for a kernel, the strides of tensor number `place`, counted in the alignment. Also returns
        (kind along x, kind along y, alignment of rows and tiles in elements)."""
        own = self.strides[place]
        kinds = tuple(min(stride, APART) for stride in own[:2])
        is_aligned = all(stride <= 1 or stride % at_once == 0 for stride in own[:2])
        is_aligned = is_aligned and all(stride % at_once == 0 for stride in own[2:])
        unit = at_once if is_aligned else 1
        return tuple(stride // unit for stride in own), (*kinds, unit)


def cut_tiles(loops: Loops, x: int, y: int, block_x: int, block_y: int) -> Tiling | None:
    """Returns tiles over the loops x and y (-1: none); None if too many loops are left."""
    rest = [n for n in range(len(loops.sizes)) if n not in (x, y)]
    if len(rest) > OUTER:
        return None
    chosen = [x, y, *[-1] * (OUTER - len(rest)), *rest]
    sizes = tuple(1 if n < 0 else loops.sizes[n] for n in chosen)
    strides = tuple(tuple(0 if n < 0 else own[n] for n in chosen) for own in loops.strides)
    return Tiling(sizes, strides, block_x, block_y)


FLAT_TILE, WIDE_TILE, TURNED_TILE = (2048, 1), (256, 8), (64, 64)


def tile_elements(sizes: Sequence[int], out: Sequence[int], *others: Sequence[int]) -> Tiling | None:
    """Returns tiles for an elementwise node. x is the loop along which the output is contiguous; y is a loop
    along which an operand is contiguous, if there is one."""
    loops = sort_by(out, sizes, out, *others)
    x = len(loops.sizes) - 1
    if x <= 0:
        return cut_tiles(loops, x, -1, *FLAT_TILE)
    turned = [n for n in range(x) for own in loops.strides[1:] if own[n] == 1 and own[x] != 0]
    if turned:
        return cut_tiles(loops, x, turned[0], *TURNED_TILE)
    block_x = WIDE_TILE[0]
    while block_x // 2 >= max(loops.sizes[x], 32):
        block_x //= 2
    y = max(range(x), key=lambda n: (loops.sizes[n], n))
    return cut_tiles(loops, x, y, block_x, FLAT_TILE[0] // block_x)
