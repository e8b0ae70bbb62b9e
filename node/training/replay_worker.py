"""Defines a replay process: its job, its work, its result."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from touchstone.node.kit.config import describe_code, describe_machine, keep_to_memory
from touchstone.node.kit.stored_step import open_step
from touchstone.protocol.adapters.files.mapped_files import map_shared
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.tensor_allocator import view_mapped
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.training_codec import decode_training

Result = TypeVar("Result")


@dataclass(frozen=True)
class ReplayJob:
    """A job of a worker. `training` is the task's training in canonical bytes. `store` is the folder of the
    node's store, which has the task's step. `elements` is the size of W. The counters are those of the start
    state; `first_step` counts from 0 in the round."""

    training: bytes
    store: str
    elements: int
    local_step: int
    global_step: int
    first_step: int
    steps: int


@dataclass(frozen=True)
class ReplayDone:
    """The result of a job: the loss of each step (nats), and the machine and code that computed it
    (`describe_machine`, `describe_code`)."""

    losses: tuple[float, ...]
    machine: str
    code: str


class ReplayTensors(NamedTuple):
    """The memory of a replay: flat float32 W, m, v; int32 [steps, rows, tokens] tokens and labels."""

    vectors: tuple[Tensor, Tensor, Tensor]
    tokens: Tensor
    labels: Tensor


class WorkerDied(Exception):
    """The worker's process was killed, ran out of memory, or hangs."""


class ReplayWorker(Protocol):
    """One process that replays one segment at a time."""

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """Trains in the file at `path`, which holds the start state before and the end state after. Raises
        WorkerDied, and any other error of the process."""

    def close(self) -> None:
        """Ends the process, and drops the replay that it runs."""


def measure_job(job: ReplayJob) -> int:
    """Returns the size of a job's memory in bytes."""
    spec = decode_training(job.training)
    return 12 * job.elements + 8 * job.steps * spec.sequences_per_step * spec.sequence_tokens


def view_job(job: ReplayJob, memory: memoryview) -> ReplayTensors:
    """Returns the tensors of a job as views of its memory."""
    spec, count = decode_training(job.training), job.elements
    words = view_mapped(memory)
    first, second, third, rest = torch.split(words, [count, count, count, words.numel() - 3 * count])
    shape = (2, job.steps, spec.sequences_per_step, spec.sequence_tokens)
    tokens, labels = rest.view(torch.int32).view(shape)
    return ReplayTensors((first, second, third), tokens, labels)


def replay(
    job: ReplayJob, memory: memoryview, report_step: Callable[[], object] = lambda: None
) -> ReplayDone:
    """Replays a segment in its memory: W, m, v hold the start before and the end after. `report_step` is
    called at each step."""
    tensors, spec = view_job(job, memory), decode_training(job.training)

    def get_batch(step: int) -> Batch:
        """Returns the batch of a step, as `GetBatch`."""
        report_step()
        number = step - job.first_step
        return Batch(tensors.tokens[number].to(torch.int64), tensors.labels[number].to(torch.int64))

    state = TrainingState(*tensors.vectors, job.local_step, job.global_step)
    end, losses = replay_segment(state, spec, get_batch, job.first_step, job.steps)
    for target, source in zip(tensors.vectors, end.vectors, strict=True):
        target.copy_(source)
    return ReplayDone(tuple(losses), describe_machine(), describe_code())


def replay_file(job: ReplayJob, path: str) -> ReplayDone:
    """Replays in a file of `make_shared`. Its modification time tells the node that a step began."""
    open_step(BlobStore(Path(job.store), is_durable=False), decode_training(job.training), job.elements)
    return replay(job, map_shared(Path(path)), partial(os.utime, path))


def begin_worker(threads: int, device: str, scratch: str, memory_mb: int) -> None:
    """Prepares a worker process, before its first tensor. The process ends with its parent, and ignores
    Ctrl-C, which is meant for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    pin_kernels(threads, device=device)
    keep_to_memory(Path(scratch), memory_mb)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
