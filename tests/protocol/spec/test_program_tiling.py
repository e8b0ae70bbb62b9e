"""Writers of a tensor: what is accepted writes each element once, and what recorders write is accepted."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec import program_tiling
from touchstone.protocol.spec.program import Access
from touchstone.protocol.spec.program_addressing import locate
from touchstone.protocol.spec.program_tiling import MOST_PIECES, is_tiled

Writer = tuple[Access, tuple[int, ...]]


def write(offset: int, *loops: tuple[int, int]) -> Writer:
    """A writer by its loops: (size, stride)."""
    return Access(0, offset, tuple(stride for _, stride in loops)), tuple(size for size, _ in loops)


def count(writers: Sequence[Writer]) -> Counter[int]:
    """How often each element is written."""
    return Counter(
        locate(access, indices) for access, sizes in writers for indices in product(*map(range, sizes))
    )


def is_once(size: int, writers: Sequence[Writer]) -> bool:
    return count(writers) == Counter(range(size))


TILED: dict[str, tuple[int, list[Writer]]] = {
    "one run": (12, [write(0, (12, 1))]),
    "one element": (1, [write(0)]),
    "rows in any order of loops": (12, [write(0, (3, 1), (4, 3))]),
    "backwards": (12, [write(11, (12, -1))]),
    "loops of one": (6, [write(0, (1, 99), (6, 1), (1, -5))]),
    "one after the other": (12, [write(7, (5, 1)), write(0, (7, 1))]),
    "columns": (48, [write(0, (6, 8), (4, 1)), write(4, (6, 8), (4, 1))]),
    "columns, one of them in two": (48, [
        write(0, (6, 8), (4, 1)), write(4, (3, 8), (4, 1)), write(28, (3, 8), (4, 1)),
    ]),
    "columns of columns": (24, [
        write(0, (2, 12), (3, 4), (2, 1)), write(2, (2, 12), (3, 4)), write(3, (6, 4)),
    ]),
    "even and odd": (8, [write(0, (4, 2)), write(1, (4, 2))]),
    "a run over many rows": (20, [write(2, (14, 1)), write(0, (2, 1)), write(16, (2, 2)), write(17, (2, 2))]),
    "columns after a run": (20, [write(4, (4, 4), (2, 1)), write(0, (4, 1)), write(6, (4, 4), (2, 1))]),
    "a vast tensor": (1 << 40, [
        write(0, (1 << 20, 1 << 20), (1 << 19, 1)), write(1 << 19, (1 << 20, 1 << 20), (1 << 19, 1)),
    ]),
}  # fmt: skip
BROKEN: dict[str, tuple[int, list[Writer]]] = {
    "nobody": (3, []),
    "too short": (12, [write(0, (11, 1))]),
    "not from the start": (12, [write(1, (11, 1))]),
    "too long": (11, [write(0, (12, 1))]),
    "twice": (12, [write(0, (12, 1)), write(0, (12, 1))]),
    "one element twice": (12, [write(0, (7, 1)), write(6, (6, 1))]),
    "again and again": (1, [write(0, (2, 0))]),
    "a gap": (12, [write(0, (5, 1)), write(6, (6, 1))]),
    "every second": (8, [write(0, (4, 2))]),
    "rows that overlap": (9, [write(0, (3, 2), (4, 1))]),
    "columns with a gap": (16, [write(0, (2, 8), (4, 1)), write(5, (2, 8), (3, 1))]),
    "columns that overlap": (16, [write(0, (2, 8), (5, 1)), write(4, (2, 8), (4, 1))]),
    "columns twice and a gap": (16, [write(0, (2, 8), (4, 1)), write(0, (2, 8), (4, 1))]),
    "columns of other rows": (16, [write(0, (2, 8), (4, 1)), write(4, (2, 6), (4, 1))]),
}  # fmt: skip


@pytest.mark.parametrize("name", TILED)
def test_what_writes_each_element_once_is_accepted(name: str) -> None:
    size, writers = TILED[name]
    assert is_tiled(size, writers) and is_tiled(size, writers[::-1])
    assert size > 1000 or is_once(size, writers)


@pytest.mark.parametrize("name", BROKEN)
def test_gaps_and_overlaps_are_refused(name: str) -> None:
    size, writers = BROKEN[name]
    assert not is_tiled(size, writers) and not is_once(size, writers)


@st.composite
def draw_writers(draw: st.DrawFn) -> tuple[int, list[Writer]]:
    loop = st.tuples(st.integers(1, 4), st.sampled_from([-4, -1, 0, 1, 2, 3, 4, 6, 8]))
    writers = draw(st.lists(st.builds(write, st.integers(0, 9), loop, loop), min_size=1, max_size=4))
    writers += draw(st.lists(st.builds(write, st.integers(0, 20), loop), max_size=3))
    return draw(st.integers(1, 24)), writers


@given(draw_writers())
def test_nothing_is_accepted_that_does_not_write_each_element_once(case: tuple[int, list[Writer]]) -> None:
    size, writers = case
    assert not is_tiled(size, writers) or is_once(size, writers)


Box = tuple[tuple[int, int], ...]
"""Of each dimension: start and stop."""


@st.composite
def draw_cuts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Box]]:
    """A tensor, cut in two again and again along any dimension."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    boxes: list[Box] = [tuple((0, size) for size in shape)]
    for _ in range(draw(st.integers(0, 6))):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        dimension = draw(st.integers(0, len(shape) - 1))
        start, stop = box[dimension]
        if stop - start < 2:
            boxes.append(box)
            continue
        middle = draw(st.integers(start + 1, stop - 1))
        for part in ((start, middle), (middle, stop)):
            boxes.append((*box[:dimension], part, *box[dimension + 1 :]))
    return shape, boxes


@given(draw_cuts(), st.randoms(use_true_random=False))
def test_a_tensor_that_is_put_together_of_pieces_is_accepted(
    case: tuple[tuple[int, ...], list[Box]], chance: object
) -> None:
    """Whatever the dimensions that it is cut along."""
    shape, boxes = case
    steps = [1]
    for size in shape[:0:-1]:
        steps.insert(0, steps[0] * size)
    writers = [
        write(
            sum(start * step for (start, _), step in zip(box, steps, strict=True)),
            *((stop - start, step) for (start, stop), step in zip(box, steps, strict=True)),
        )
        for box in boxes
    ]
    chance.shuffle(writers)  # type: ignore[attr-defined]
    assert is_once(steps[0] * shape[0], writers) and is_tiled(steps[0] * shape[0], writers)


def test_writers_that_would_take_long_to_follow_are_refused() -> None:
    """Each row has a writer of its own, and so has each column of the last block."""
    rows = 1 << 11
    writers = [write(0, (rows, 4)), *(write(4 * row + 1, (3, 1)) for row in range(rows))]
    assert rows**2 > MOST_PIECES and not is_tiled(4 * rows, writers)
    few = [write(0, (16, 4)), *(write(4 * row + 1, (3, 1)) for row in range(16))]
    assert is_tiled(64, few)


def test_blocks_that_could_begin_anywhere_are_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last writer crosses a border of blocks, whichever of the others begins one."""
    count, cuts = 500, list[int]()

    def note(piece: Any, block: int) -> Any:
        cuts.append(block)
        return cut(piece, block)

    cut = program_tiling._cut
    monkeypatch.setattr(program_tiling, "_cut", note)
    monkeypatch.setattr(program_tiling, "MOST_PIECES", 10 * count)
    block = 4 * count
    starts = [write(place, (2, block)) for place in range(count)]
    assert not is_tiled(8 * block, [*starts, write(count, (4, block), (2, 7 * count // 4))])
    assert count < len(cuts) <= 10 * count
    cuts.clear()
    assert not is_tiled(8 * block, [*starts, write(count, (4, 3 * count - 1))])
    assert not cuts, "no border does"
