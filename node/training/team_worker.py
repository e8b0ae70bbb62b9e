"""Runs each worker of a solver's team, in a process of its own."""

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor, distributed

from touchstone.node.kit.stored_step import open_step
from touchstone.node.training.replay_worker import ReplayJob, begin_worker, view_job
from touchstone.protocol.adapters.files.mapped_files import map_shared
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.program.cut_step import CutStep, Workers
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_zeros
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training

log = logging.getLogger(__name__)


STEPS = 10
"""A step counts as hung after this many seconds, or after this multiple of a single worker's step, if that is
longer."""


DONE = ""


Message = float | str
"""A step's loss in nats; DONE at the start and after a segment; or an error's text."""


@dataclass(frozen=True)
class Place:
    """A worker's settings. `training` is the task's training in canonical bytes, `elements` the size of W,
    `store` the folder of the node's store with the task's step. `meeting` is a file by which the workers find
    each other; only this account can read it."""

    training: bytes
    store: str
    elements: int
    count: int
    own: int
    threads: int
    scratch: str
    memory_mb: int
    meeting: str


def run_worker(place: Place, node: Connection) -> None:
    """Trains what the node asks for, until the node is gone. Reports an error to the node, then ends."""
    begin_worker(place.threads, "cpu", place.scratch, place.memory_mb)
    try:
        spec = decode_training(place.training)
        open_step(BlobStore(Path(place.store), is_durable=False), spec, place.elements)
        step = CutStep(spec, meet(place))
        warm_up(step, spec)
        node.send(DONE)
        while True:
            job, path = node.recv()
            train_part(step, place.own, job, path, node.send)
            node.send(DONE)
    except EOFError:
        return
    except Exception as error:
        log.exception("worker %d failed", place.own)
        node.send(f"worker {place.own}: {type(error).__name__}: {error}")


def meet(place: Place) -> Workers:
    """Connects all workers by Gloo on this machine's loopback address, which no other machine can reach.
    Returns the group."""
    os.environ["GLOO_SOCKET_IFNAME"] = next(n for _, n in socket.if_nameindex() if n.startswith("lo"))
    store = distributed.FileStore(place.meeting, place.count)  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store, rank=place.own, world_size=place.count)

    def gather(own: Tensor) -> Sequence[Tensor]:
        """Does what `Workers.gather` says."""
        found = [allocate(own.numel()).view_as(own) for _ in range(place.count)]
        distributed.all_gather(found, own)
        return found

    return Workers(place.count, place.own, gather)


def warm_up(step: CutStep, spec: TrainingSpec) -> None:
    """Runs one step on zeros, so that kernels are compiled and loaded before the first round."""
    state = step.own(begin_round(allocate_zeros(get_step(spec).parameters), 0))
    tokens = torch.zeros((spec.sequences_per_step, spec.sequence_tokens), dtype=torch.int64)
    step.advance(state, Batch(tokens, tokens))


def train_part(
    step: CutStep, own: int, job: ReplayJob, path: str, report_loss: Callable[[float], None]
) -> None:
    """Trains this worker's part of a segment. The file at `path` holds the start. At the end it holds W,
    written by worker 0, and m and v, of which each worker writes its own leaves. Worker 0 reports each
    loss."""
    tensors = view_job(job, map_shared(Path(path)))
    state = step.own(TrainingState(*tensors.vectors, job.local_step, job.global_step))
    for number in range(job.steps):
        batch = Batch(tensors.tokens[number].to(torch.int64), tensors.labels[number].to(torch.int64))
        state, loss = step.advance(state, batch)
        if own == 0:
            report_loss(loss)
    # A worker writes only its own leaves of m and v. It has the last W, so it does not need the first one any
    # more; worker 0 writes W after all others have sent their parts.
    for target, source in zip(tensors.vectors[1:], state.vectors[1:], strict=True):
        target[step.leaves.start : step.leaves.stop].copy_(source)
    if own == 0:
        tensors.vectors[0].copy_(state.weights)
