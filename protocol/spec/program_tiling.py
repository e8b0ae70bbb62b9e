"""Decides whether the nodes that write a tensor write each of its elements exactly once.

A tensor may have 2^40 elements, so they are not listed. Loops are sorted by their strides, and joined if one
continues the other. Then a tensor is cut at places that no writer crosses. If writers interleave, the tensor
is cut into blocks of the largest stride, and the writers must fill each block.

    rows of 8, columns 0 .. 3: ((6, 8), (4, 1)) at 0      blocks of 8:  [0, 4) and [4, 8)
    rows of 8, columns 4 .. 7: ((6, 8), (4, 1)) at 4
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from touchstone.protocol.spec.program import Access

MOST_PIECES = 1 << 20
"""The most pieces that are checked for one tensor. The recorder's own programs need a few thousand."""
Loops = tuple[tuple[int, int], ...]
"""Size and stride of each loop, the largest stride first. Inner loops stay within one step of outer ones."""


@dataclass(frozen=True)
class _Piece:
    """The elements that one node writes: offset + sum(index * stride)."""

    offset: int
    loops: Loops

    @property
    def end(self) -> int:
        """The number of the element after the last one."""
        return self.offset + 1 + sum((size - 1) * stride for size, stride in self.loops)

    @property
    def is_run(self) -> bool:
        """Whether the elements are successive."""
        return not self.loops or (len(self.loops) == 1 and self.loops[0][1] == 1)


def is_tiled(size: int, accesses: Sequence[tuple[Access, tuple[int, ...]]]) -> bool:
    """Returns whether writers, each an access with the sizes of its loops, write each of `size` elements
    exactly once. Also False if that cannot be told from their loops."""
    pieces: list[_Piece] = []
    for access, sizes in accesses:
        piece = _sort(access, sizes)
        if piece is None:
            return False
        pieces.append(piece)
    return _Search().is_tiled(0, size, pieces)


def _sort(access: Access, sizes: tuple[int, ...]) -> _Piece | None:
    """Returns the same elements in sorted loops. None if an element is written twice, or inner loops reach
    beyond a step of outer ones."""
    offset, loops = access.offset, []
    for size, stride in zip(sizes, access.strides, strict=True):
        if size == 1:
            continue
        if stride < 0:
            offset += (size - 1) * stride
        loops.append((size, abs(stride)))
    joined: list[tuple[int, int]] = []
    reach = 1
    for size, stride in sorted(loops, key=lambda loop: loop[1]):
        if stride < reach:
            return None
        if joined and stride == joined[-1][0] * joined[-1][1]:
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, stride))
        reach += (size - 1) * stride
    return _Piece(offset, tuple(reversed(joined)))


@dataclass
class _Search:
    """Counts the pieces that were looked at. After MOST_PIECES it says that nothing is tiled."""

    looked_at: int = field(default=0)

    def is_tiled(self, start: int, end: int, pieces: Sequence[_Piece]) -> bool:
        """Returns whether the pieces fill start .. end - 1, each element once."""
        self.looked_at += len(pieces)
        filled = start
        for group in _group(pieces):
            if group[0].offset != filled or self.looked_at > MOST_PIECES:
                return False
            filled = max(piece.end for piece in group)
            if len(group) == 1 and group[0].is_run:
                continue
            if not self._is_woven(group[0].offset, filled, group):
                return False
        return filled == end

    def _is_woven(self, start: int, end: int, group: Sequence[_Piece]) -> bool:
        """Returns whether pieces that interleave fill start .. end - 1, block by block."""
        block = max((piece.loops[0][1] for piece in group if not piece.is_run), default=0)
        if block == 0:
            return False
        # Blocks begin where a piece of the largest stride does.
        widest = [piece for piece in group if piece.loops and piece.loops[0][1] == block]
        phases = sorted({start % block, *(piece.offset % block for piece in widest)})
        if any(piece.end - piece.offset > block and block % piece.loops[0][1] for piece in group):
            return False  # A loop's steps would cross blocks, wherever they begin.
        return any(self._are_blocks_tiled(start, end, group, block, phase) for phase in phases)

    def _are_blocks_tiled(
        self, start: int, end: int, group: Sequence[_Piece], block: int, phase: int
    ) -> bool:
        """Returns whether pieces fill start .. end - 1 in blocks that begin at multiples of `block`, moved by
        `phase`; the first and the last block may be partial."""
        low, high = start - phase, end - phase
        spread: list[tuple[int, int, _Piece]] = []
        for piece in group:
            self.looked_at += 1
            if self.looked_at > MOST_PIECES:
                return False
            cut = _cut(_Piece(piece.offset - phase, piece.loops), block)
            if cut is None:
                return False
            spread += cut
        ends = (low // block, low // block + 1, (high - 1) // block, (high - 1) // block + 1)
        borders = sorted({*ends, *(border for first, stop, _ in spread for border in (first, stop))})
        seen: set[tuple[int, int, frozenset[_Piece]]] = set()
        for first, stop in zip(borders, borders[1:], strict=False):
            inside = [piece for begin, finish, piece in spread if begin <= first and stop <= finish]
            self.looked_at += len(spread)
            if self.looked_at > MOST_PIECES or len({*inside}) != len(inside):
                return False
            part = (max(0, low - first * block), min(block, high - first * block))
            key = (*part, frozenset(inside))
            if key not in seen and not self.is_tiled(*part, inside):
                return False
            seen.add(key)
        return True


def _group(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """Groups pieces whose ranges overlap, in order."""
    group: list[_Piece] = []
    end = 0
    for piece in sorted(pieces, key=lambda piece: (piece.offset, piece.end)):
        if group and piece.offset >= end:
            yield group
            group = []
        group.append(piece)
        end = piece.end if len(group) == 1 else max(end, piece.end)
    if group:
        yield group


def _cut(piece: _Piece, block: int) -> list[tuple[int, int, _Piece]] | None:
    """Returns (first block, block after the last, pieces in each), or None if a step of the outer loop
    crosses from block to block."""
    first, inner = divmod(piece.offset, block)
    if inner + piece.end - piece.offset <= block:
        return [(first, first + 1, _Piece(inner, piece.loops))]
    (size, stride), *rest = piece.loops
    reach = _Piece(inner % stride, tuple(rest)).end
    return list(_cut_loop(piece, block)) if block % stride == 0 and reach <= stride else None


def _cut_loop(piece: _Piece, block: int) -> Iterator[tuple[int, int, _Piece]]:
    """Returns head, whole blocks and tail of an outer loop that runs through blocks step by step."""
    (left, stride), *rest = piece.loops
    place = piece.offset
    while left:
        number, inner = divmod(place, block)
        steps = (block - inner - 1) // stride + 1
        blocks = left // steps if inner < stride else 0
        steps = steps if blocks else min(left, steps)
        loops = (((steps, stride),) if steps > 1 else ()) + tuple(rest)
        yield number, number + max(1, blocks), _Piece(inner, loops)
        done = steps * max(1, blocks)
        left, place = left - done, place + done * stride
