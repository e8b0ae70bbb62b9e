"""Large tensors in files: no bit of a step depends on where its tensors lie."""

from collections.abc import Callable, Iterator
from errno import EINVAL
from functools import partial
from mmap import MADV_HUGEPAGE, mmap
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.protocol.compute.program.hand_written import HandWritten, M, V, W
from tests.protocol.compute.program.test_interpreter import TINY_CONFIG, make_inputs
from tests.task_models import build_program
from touchstone.protocol.adapters.files.mapped_files import PageLimit, make_mapped, measure_resident_bytes
from touchstone.protocol.compute.program import tensor_allocator
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.planning import node_parts
from touchstone.protocol.compute.program.planning.arena import ALIGNMENT, list_internal, plan_memory
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.compute.program.tensor_allocator import (
    HUGE_PAGE_BYTES,
    LARGE_BYTES,
    Room,
    allocate,
    allocate_vector,
    allocate_zeros,
    forget_spare,
    relax,
    use_room,
)
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_operations import Operation


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Room]:
    """A room that lets go of everything each time."""
    use_room(found := Room(partial(make_mapped, tmp_path), PageLimit(0, 0).keep))
    yield found
    use_room(None)


def run_step(is_traced: bool) -> dict[int, torch.Tensor]:
    """All tensors of a step as they are shown, or its results."""
    built, seen = build_program(TINY_CONFIG), {}

    def keep(number: int, tensor: torch.Tensor) -> None:
        seen[number] = tensor.clone()

    made = Interpreter(built.program, built.constants, is_traced=is_traced)
    result = made.run(*make_inputs(TINY_CONFIG), keep=keep if is_traced else None)
    return {**seen, **{-1 - place: tensor.clone() for place, tensor in enumerate(result)}}


def count(room: Room, made: list[int]) -> Room:
    """The same room, that notes what is taken."""

    def make(size_bytes: int) -> memoryview:
        made.append(size_bytes)
        return room.make(size_bytes)

    return Room(make, room.relax)


def is_equal(found: dict[int, torch.Tensor], expected: dict[int, torch.Tensor]) -> bool:
    return found.keys() == expected.keys() and all(torch.equal(found[n], expected[n]) for n in expected)


def test_allocate_takes_memory_unless_told_otherwise() -> None:
    assert allocate(LARGE_BYTES).shape == (LARGE_BYTES,)
    relax()


class NoHugePages(mmap):
    """Memory of a system that knows none."""

    def madvise(self, *_: int) -> None:
        raise OSError(EINVAL, "Invalid argument")


@pytest.mark.parametrize("kind", [mmap, NoHugePages])
@pytest.mark.parametrize("pages", [1, 1.5, 5])
def test_what_fills_a_huge_page_begins_at_one(
    monkeypatch: pytest.MonkeyPatch, kind: type[mmap], pages: float
) -> None:
    """All of it is there, it lives as long as a view of it, and then it goes."""
    monkeypatch.setattr(tensor_allocator, "mmap", kind)
    elements = int(pages * HUGE_PAGE_BYTES) // 4
    tensor = allocate(elements)
    assert tensor.data_ptr() % HUGE_PAGE_BYTES == 0 and tensor.storage_offset() == 0
    assert tensor.shape == (elements,) and not tensor.any()
    tensor.fill_(3)
    view = tensor.view(-1)[1:]
    del tensor
    assert view.min() == view.max() == 3 and len(view) == elements - 1
    held = measure_resident_bytes()
    del view
    assert measure_resident_bytes() < held - 2 * elements


def test_advice_is_asked_for_whole_huge_pages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a tensor takes as many small pages as it needs."""
    asked: list[tuple[int, ...]] = []

    class Noting(mmap):
        """Notes what is asked for."""

        def madvise(self, *words: int) -> None:
            asked.append(words)
            super().madvise(*words)

    monkeypatch.setattr(tensor_allocator, "mmap", Noting)
    allocate(3 * HUGE_PAGE_BYTES // 8)
    allocate(HUGE_PAGE_BYTES // 4 - 1)
    ((option, _, length),) = asked
    assert (option, length) == (MADV_HUGEPAGE, HUGE_PAGE_BYTES)


@pytest.mark.parametrize("make", [allocate, allocate_vector])
def test_what_does_not_fit_into_memory_is_told(make: Callable[[int], torch.Tensor]) -> None:
    """No OSError, which is what a full disk raises."""
    with pytest.raises(EnvironmentFault, match=r"does not fit into memory.*memory_mb"):
        make(1 << 46)


VECTOR = HUGE_PAGE_BYTES // 4 + 3


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes of each piece of new memory; nothing is spare before and after."""
    made: list[int] = []

    def note(size_bytes: int) -> memoryview:
        made.append(size_bytes)
        return take(size_bytes)

    take = tensor_allocator._take_huge_pages
    monkeypatch.setattr(tensor_allocator, "_take_huge_pages", note)
    forget_spare()
    yield made
    forget_spare()


def test_a_vector_takes_the_memory_of_one_that_nobody_uses(taken: list[int]) -> None:
    """A view of a part, an array and a buffer of it are uses."""
    first = allocate_vector(VECTOR).fill_(1)
    uses: list[Any] = [first[5:9], first.numpy()[:3], first.numpy().data[:3]]
    place = first.data_ptr()
    del first
    while uses:
        assert allocate_vector(VECTOR).fill_(2).data_ptr() != place
        assert uses.pop()[0] == 1
    assert place in seen(2) and len(taken) == 2


def seen(count: int) -> set[int]:
    """Where that many vectors lie that live at once."""
    return {vector.data_ptr() for vector in [allocate_vector(VECTOR) for _ in range(count)]}


def test_no_more_than_a_state_is_spare_and_none_of_another_size(taken: list[int]) -> None:
    places = seen(4)
    assert len(places) == len(taken) == 4
    assert len(seen(4) & places) >= 3 and len(taken) == 5
    allocate_vector(VECTOR + 1)
    assert len(seen(3)) == 3 and len(taken) == 9  # Each change of the size gives the others back.
    forget_spare()
    assert len(seen(1)) == 1 and len(taken) == 10


def test_a_small_vector_and_one_in_files_are_not_spare(taken: list[int], files: Room) -> None:
    allocate_vector(5)
    allocate_vector(VECTOR)
    assert not taken and not tensor_allocator._spare


def test_allocate_puts_what_is_large_into_files(files: Room) -> None:
    made: list[int] = []
    use_room(count(files, made))
    assert allocate(LARGE_BYTES // 4 - 1).dtype == torch.float32
    assert allocate(LARGE_BYTES // 8, torch.float64).shape == (LARGE_BYTES // 8,)
    assert made == [LARGE_BYTES]


def test_allocate_zeros_is_zeros_wherever_it_lies(files: Room) -> None:
    made: list[int] = []
    use_room(count(files, made))
    assert not allocate_zeros(LARGE_BYTES // 4).any() and made == [LARGE_BYTES]
    assert not allocate_zeros(5).any() and len(made) == 1


@pytest.mark.parametrize("is_traced", [False, True])
def test_a_step_has_the_same_bits_in_files(
    files: Room, is_traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_files: list[int] = []
    monkeypatch.setattr(tensor_allocator, "LARGE_BYTES", 64)
    use_room(count(files, in_files))
    found = run_step(is_traced)
    use_room(None)
    assert in_files and is_equal(found, run_step(is_traced))


def test_a_step_in_parts_has_the_same_bits_trained_and_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_parts, "PART_ELEMENTS", 100)
    trained, traced = run_step(False), run_step(True)
    assert is_equal(trained, {place: tensor for place, tensor in traced.items() if place < 0})


# The arena
def write_gaps(count: int) -> tuple[Program, list[int], list[int]]:
    """A program with a gap behind each of `count` small tensors, then as many large ones, then a small one:
    the first tensors, and those that come later."""
    written = HandWritten(8)
    small = [written.flat(Operation.SQUARE_ROOT, (W, 0), size=ALIGNMENT) for _ in range(2 * count)]
    for buffer in small[1::2]:
        written.flat(Operation.SQUARE_ROOT, (buffer, 0), size=1)
    later = [written.flat(Operation.SQUARE_ROOT, (W, 0), size=2 * ALIGNMENT) for _ in range(count)]
    later.append(written.flat(Operation.SQUARE_ROOT, (W, 0), size=ALIGNMENT))
    for buffer in small[::2]:
        written.flat(Operation.SQUARE_ROOT, (buffer, 0), size=1)
    return written.finish(*written.copies(W, M, V)), small, later


def test_a_tensor_lies_in_the_first_gap_that_has_room() -> None:
    """Gaps between small tensors are too short for large ones: they lie behind the last that is read."""
    count = 300
    program, small, (*large, last) = write_gaps(count)
    offsets, total = plan_memory(program, list_internal(program, compute_lifetimes(program)))
    assert [offsets[buffer] for buffer in small] == [ALIGNMENT * n for n in range(1, 2 * count + 1)]
    assert {offsets[buffer] for buffer in large} == {offsets[small[-1]]}, "nobody reads them"
    assert offsets[last] == offsets[small[1]]
    assert total == offsets[small[-1]] + 2 * ALIGNMENT


def test_tensors_of_a_block_share_no_memory() -> None:
    """They live from the first node of the block to its last."""
    program, _, later = write_gaps(20)
    lifetimes = compute_lifetimes(program)
    internal, start = list_internal(program, lifetimes), lifetimes[later[0]].first
    offsets, _ = plan_memory(
        program, internal, blocks=[range(start, start + 10), range(start + 10, start + 20)]
    )
    assert [len({offsets[buffer] for buffer in part}) for part in (later[:10], later[10:20])] == [10, 10]
    assert {offsets[buffer] for buffer in later[:10]} == {offsets[buffer] for buffer in later[10:20]}
