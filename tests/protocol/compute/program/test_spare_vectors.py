"""Attacks on memory that is used again: whoever still reads a state, in whatever way, reads its numbers."""

import asyncio
import errno
import gc
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from mmap import mmap
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from tests.protocol.compute.conftest import build_tiny_training
from tests.task_models import init_parameters, parameter_count
from touchstone.protocol.adapters.files.mapped_files import measure_resident_bytes
from touchstone.protocol.compute.digest import build_state_trees, tensor_bytes
from touchstone.protocol.compute.outer.nesterov_step import OuterState, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program import tensor_allocator
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.step_runners import forget_steps
from touchstone.protocol.compute.program.tensor_allocator import (
    HUGE_PAGE_BYTES,
    SPARE_VECTORS,
    allocate,
    allocate_vector,
    allocate_zeros,
    forget_spare,
)
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.float32 import float_to_bits
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig

VECTOR = HUGE_PAGE_BYTES // 4 + 3
MODEL = DecoderConfig(257, 224, 600, 1, 4, 2, 48)
"""Its vectors fill a huge page."""
NAN = 0xFF
"""Four such bytes are one."""


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Memory that is given back holds NaN at once; the bytes of what was."""
    give_back, given = tensor_allocator._give_back, list[int]()

    def note(memory: memoryview) -> None:
        given.append(len(memory))
        np.frombuffer(memory, np.uint8)[:] = NAN
        give_back(memory)

    forget_steps()
    monkeypatch.setattr(tensor_allocator, "_give_back", note)
    yield given
    forget_steps()


def get_batch(spec: TrainingSpec, step: int) -> Batch:
    random = torch.Generator().manual_seed(step)
    shape = (spec.sequences_per_step, spec.sequence_tokens)
    tokens, labels = (torch.randint(0, 64, shape, generator=random) for _ in range(2))
    return Batch(tokens, labels)


def hash_bytes(data: Any) -> str:
    return sha256(bytes(memoryview(data).cast("B"))).hexdigest()


Reader = Callable[[], Any]
"""The bytes of a vector, whenever it is asked."""


def fail_with(vector: Tensor) -> Reader:
    """The vector lives in the frame of an error alone."""

    def fail(inner: Tensor) -> None:
        raise ValueError(inner.numel())

    try:
        fail(vector)
    except ValueError as error:
        trace = error.__traceback__
    assert trace is not None and trace.tb_next is not None
    frame = trace.tb_next.tb_frame
    return lambda: tensor_bytes(frame.f_locals["inner"])


def hold_in_loop(vector: Tensor) -> Reader:
    """Of a tensor that can be reached from itself alone."""
    kept: dict[str, Any] = {"vector": vector}
    kept["self"] = kept
    return lambda: tensor_bytes(kept["vector"])


def hold_storage(vector: Tensor) -> Reader:
    storage = vector.untyped_storage()
    return lambda: tensor_bytes(torch.empty(0, dtype=torch.uint8).set_(storage))


WAYS: dict[str, Callable[[Tensor], Reader]] = {
    "tensor": lambda vector: lambda: tensor_bytes(vector),
    "bytes to be hashed": lambda vector: partial(lambda view: view, tensor_bytes(vector)),
    "array": lambda vector: partial(lambda array: array, vector.numpy()),
    "array of another type": lambda vector: partial(lambda array: array, vector.numpy().view(np.uint32)),
    "buffer": lambda vector: partial(lambda view: view, vector.numpy().data),
    "integers": lambda vector: partial(tensor_bytes, vector.view(torch.int32)),
    "parts": lambda vector: partial(b"".join, [tensor_bytes(part) for part in torch.split(vector, 1 << 18)]),
    "without history": lambda vector: partial(tensor_bytes, vector.detach()),
    "dlpack": lambda vector: partial(lambda array: array, np.from_dlpack(vector)),
    "capsule": lambda vector: partial(tensor_bytes, from_dlpack(vector)),
    "storage": hold_storage,
    "an error's frame": fail_with,
    "loop": hold_in_loop,
}


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_no_state_of_a_claim_changes_while_something_reads_it(
    spoiled: list[int], monkeypatch: pytest.MonkeyPatch, numeric_format: str
) -> None:
    """Each state is read in another way, until the claim is trained. In between another thread merges and
    trains, and forgets what is spare."""
    spec = build_tiny_training(model=MODEL, numeric_format=numeric_format)
    count, batches = parameter_count(MODEL), partial(get_batch, spec)
    assert 4 * count > HUGE_PAGE_BYTES
    first = init_parameters(MODEL, 1)

    def train_alone() -> list[str]:
        """The roots of a claim's states, each in memory of its own."""
        with monkeypatch.context() as patch:
            patch.setattr(tensor_allocator, "_take_spare", lambda size_bytes: None)
            state, roots = begin_round(first, 0), []
            for segment in range(len(WAYS)):
                state, _ = train_segment(state, spec, batches, 2 * segment, 2)
                roots.append(hash_bytes(tensor_bytes(state.weights)))
        return roots

    expected = train_alone()
    forget_steps()
    spoiled.clear()

    def disturb(state: TrainingState) -> None:
        """What a node does beside training, in another thread."""
        build_state_trees(state)
        delta = encode_delta(first, state.weights)
        rates = (float_to_bits(0.5), float_to_bits(0.75))
        after = merge(OuterState(state.weights, torch.zeros(count)), [delta], *rates)
        assert after.weights.isfinite().all() and after.momentum.isfinite().all()
        ended, _ = train_segment(begin_round(after.weights, 0), spec, batches, 0, 2)
        assert ended.weights.isfinite().all()

    state, found = begin_round(first, 0), list[Reader]()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(disturb, state)
        for segment, hold in enumerate(WAYS.values()):
            state, _ = train_segment(state, spec, batches, 2 * segment, 2)
            found.append(hold(state.weights))
            beside.result()
            beside = pool.submit(disturb, state)
            if segment % 4 == 3:
                forget_spare()
        beside.result()
    del beside, state
    gc.collect()
    assert dict(zip(WAYS, (hash_bytes(read()) for read in found), strict=True)) == dict(
        zip(WAYS, expected, strict=True)
    )
    assert len(spoiled) > 4 * len(WAYS)  # Much was given back meanwhile.


def test_a_thread_whose_task_was_cancelled_goes_on_reading(spoiled: list[int]) -> None:
    """`asyncio.to_thread` cannot end its thread."""
    cancelled, done, seen = threading.Event(), threading.Event(), list[bool]()

    def read(vector: Tensor) -> None:
        cancelled.wait()
        for _ in range(4):
            allocate_vector(VECTOR)
        seen.append(bool((vector == 5).all()))
        del vector
        done.set()

    async def begin() -> None:
        task = asyncio.create_task(asyncio.to_thread(read, allocate_vector(VECTOR).fill_(5)))
        await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        cancelled.set()

    asyncio.run(begin())
    assert done.wait(60) and seen == [True]


def test_a_forked_process_writes_into_memory_of_its_own(spoiled: list[int]) -> None:
    """What is spare, and what is used, belongs to both processes then. PyTorch's threads are in one alone:
    the other writes without them."""
    used, spare = allocate_vector(VECTOR).fill_(7), allocate_vector(VECTOR)
    del spare
    child = os.fork()
    if not child:
        try:
            allocate_vector(VECTOR).numpy()[:] = 1
            used.numpy()[:] = 2
        finally:
            os._exit(0)
    taken = allocate_vector(VECTOR).fill_(3)
    os.waitpid(child, 0)
    assert (used == 7).all() and (taken == 3).all()


def test_many_threads_never_get_the_same_memory(spoiled: list[int]) -> None:
    """Each writes its number, lets others work, and finds it again."""

    def use(number: int) -> bool:
        kept = [allocate_vector(VECTOR + 64 * (number % 2)).fill_(number) for _ in range(2)]
        view = kept.pop()[1:].numpy()
        return bool((kept[0] == number).all()) and bool((view == number).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(200)))
    assert len(tensor_allocator._spare) <= SPARE_VECTORS + 8


@pytest.mark.parametrize("elements", [0, 1, VECTOR - 5, VECTOR - 4, VECTOR - 3, VECTOR])
def test_vectors_of_any_size_are_whole(spoiled: list[int], elements: int) -> None:
    """Below 2 MiB they lie where PyTorch puts them."""
    for _ in range(3):
        vector = allocate_vector(elements)
        assert vector.shape == (elements,) and vector.dtype is torch.float32 and vector.is_contiguous()
        assert (vector.fill_(9) == 9).all()
    del vector
    assert bool(spoiled) == (4 * elements >= HUGE_PAGE_BYTES)


def test_memory_of_many_sizes_and_steps_comes_back(spoiled: list[int]) -> None:
    """Two tasks of one process, in turn."""
    held = 0
    for turn in range(300):
        for size in (VECTOR, 2 * VECTOR, 3 * VECTOR):
            state = [allocate_vector(size) for _ in range(3)]
            del state
        if turn == 5:
            held = measure_resident_bytes()
    assert measure_resident_bytes() < held + 2 * HUGE_PAGE_BYTES
    forget_spare()
    assert measure_resident_bytes() < held - 6 * 4 * VECTOR


def test_memory_that_malloc_keeps_goes_back_with_what_is_spare() -> None:
    """The last tensor lies above all others: malloc itself gives back only what is free at its end."""
    tensors = [torch.ones(25_000) for _ in range(1_000)]
    last, held = tensors.pop(), measure_resident_bytes()
    del tensors
    forget_steps()
    assert last.sum() == 25_000 and measure_resident_bytes() < held - (64 << 20)


def test_zeros_that_do_not_fit_into_memory_are_told() -> None:
    """Both moments of a claim begin as such."""
    with pytest.raises(EnvironmentFault, match=r"does not fit into memory.*memory_mb"):
        allocate_zeros(1 << 46)


@pytest.mark.parametrize("elements", [1, VECTOR])
def test_zeros_are_zeros_beside_spare_memory(elements: int) -> None:
    forget_spare()
    allocate_vector(VECTOR).fill_(1)
    assert tensor_allocator._spare
    assert not allocate_zeros(elements).any()
    forget_spare()


def test_spare_memory_goes_before_something_else_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process may have so much memory and no more, what is spare is in the way of a step's arena."""
    forget_spare()
    vectors = [allocate_vector(VECTOR) for _ in range(SPARE_VECTORS)]
    del vectors

    class Short(mmap):
        """As long as anything is spare, there is no more."""

        def __new__(cls, *words: Any, **options: Any) -> "Short":
            if tensor_allocator._spare:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            return super().__new__(cls, *words, **options)

    monkeypatch.setattr(tensor_allocator, "mmap", Short)
    assert allocate(2 * VECTOR).shape == (2 * VECTOR,)
    assert not tensor_allocator._spare
