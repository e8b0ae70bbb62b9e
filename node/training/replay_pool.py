"""Replays in processes of their own; each tried again once if it dies."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from torch import Tensor

from touchstone.node.kit.config import describe_code, describe_machine
from touchstone.node.training.replay_worker import (
    ReplayDone,
    ReplayJob,
    ReplayWorker,
    Result,
    WorkerDied,
    begin_worker,
    measure_job,
    replay_file,
    view_job,
)
from touchstone.protocol.adapters.files.mapped_files import make_shared
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import encode_training

PREFIX = "replay-"
"""Of files in the scratch folder. A killed node leaves some, and its next start removes them."""


ATTEMPTS = 2


HANG_S = 900.0
"""A process that begins no step for so long hangs, and is killed: its audit would wait and say nothing."""


class ProcessWorker:
    """A process of this machine. Each has an executor of its own: one that dies takes no other with it."""

    def __init__(
        self, threads: int, device: str, scratch: Path, memory_mb: int = 0, hang_s: float = HANG_S
    ) -> None:
        arguments = (threads, device, str(scratch), memory_mb)
        self._hang_s = hang_s
        self._executor = ProcessPoolExecutor(1, get_context("spawn"), begin_worker, arguments)

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """As `ReplayWorker.replay`."""
        try:
            future, before = self._executor.submit(replay_file, job, str(path)), None
            while not wait_for((future,), self._hang_s).done:
                touched = path.stat().st_mtime_ns
                if touched == before:
                    self._kill()
                before = touched
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerDied from error

    def _kill(self) -> None:
        """Ends the process; its work is lost then."""
        for process in list(self._executor._processes.values()):
            process.kill()

    def close(self) -> None:
        """As `ReplayWorker.close`."""
        self._executor.shutdown(wait=False, cancel_futures=True)


@dataclass
class ReplayPool:
    """At most `processes` replays at once; others wait. scratch: the folder for their files; store: of the
    node's blobs, which has the task's step."""

    scratch: Path
    store: Path
    processes: int
    make_worker: Callable[[], ReplayWorker]
    _threads: ThreadPoolExecutor = field(init=False)
    _idle: list[ReplayWorker] = field(default_factory=list)
    _is_closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        # Not asyncio's threads, in which the server reads its files: each of these waits for one worker.
        self._threads = ThreadPoolExecutor(self.processes, "replay")
        for left in self.scratch.glob(f"{PREFIX}*"):
            left.unlink(missing_ok=True)

    async def run_apart(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Runs `work`, which may call `train`, and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    def train(
        self, state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        """As `compute.program.step.replay_segment`, by a worker. Raises EnvironmentFault if workers died
        twice, or one cannot compute what this process would."""
        counters = (state.local_step, state.global_step)
        job = ReplayJob(encode_training(spec), str(self.store), state.elements, *counters, inner_step, steps)
        for _ in range(ATTEMPTS):
            try:
                done, vectors = self._attempt(job, state, get_batch)
            except WorkerDied:
                continue
            _require_same_machine(spec, done)
            end = TrainingState(*vectors, state.local_step + steps, state.global_step + steps)
            return end, list(done.losses)
        raise EnvironmentFault(
            what="the process of a replay died twice",
            expected=f"{steps} steps from step {inner_step} on",
            actual="a process that was killed, or ran out of memory",
            remedy="The audit is tried again. If it stays so, set fewer replay_processes in config.toml.",
        )

    def _attempt(
        self, job: ReplayJob, state: TrainingState, get_batch: GetBatch
    ) -> tuple[ReplayDone, tuple[Tensor, Tensor, Tensor]]:
        """Makes one try, in a fresh file: what died may have written to the last one."""
        path, memory = make_shared(self.scratch, measure_job(job), PREFIX)
        try:
            tensors = view_job(job, memory)
            for target, source in zip(tensors.vectors, state.vectors, strict=True):
                target.copy_(source)
            for number in range(job.steps):
                batch = get_batch(job.first_step + number)
                tensors.tokens[number].copy_(batch.tokens_BT)
                tensors.labels[number].copy_(batch.labels_BT)
            return self._replay(job, path), tensors.vectors
        finally:
            path.unlink(missing_ok=True)  # Else its absence would hide what went wrong.

    def _replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        worker = self._take_idle()
        try:
            worker = worker or self.make_worker()
            done = worker.replay(job, path)
        except WorkerDied:
            _close(worker)
            self._let_go()  # Those may be dead as well; and where memory was short, they hold some.
            raise
        except Exception as error:
            _close(worker)
            raise EnvironmentFault(
                what="a replay failed in its process",
                expected=f"{job.steps} steps from step {job.first_step} on",
                actual=f"{type(error).__name__}: {error}",
                remedy="The audit is tried again. If it stays so, set replay_processes to 1 in config.toml.",
            ) from error
        self._idle.append(worker)
        if self._is_closed:
            self._let_go()
        return done

    def close(self) -> None:
        """Releases threads and workers; one that is at work goes when it is done."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._let_go()

    def _let_go(self) -> None:
        while (worker := self._take_idle()) is not None:
            _close(worker)

    def _take_idle(self) -> ReplayWorker | None:
        """Returns one of the idle workers, None if there is none: another thread may take the last one."""
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _close(worker: ReplayWorker | None) -> None:
    """Lets a worker go, whatever is wrong with it: what it did is what counts."""
    with suppress(Exception):
        if worker is not None:
            worker.close()


def _require_same_machine(spec: TrainingSpec, done: ReplayDone) -> None:
    """Raises EnvironmentFault for a worker whose bits may be others than this process's: it runs other code,
    or is of another kind if the task's format lets bits differ. A vote is answered for by computing it again
    here."""
    own, code = describe_machine(), describe_code()
    if done.code != code:
        raise EnvironmentFault(
            what="a replay was computed by another version than this node's",
            expected=code,
            actual=done.code,
            remedy="Start the node again after an update; update all machines of Ray with it.",
            retryable=False,
        )
    if spec.numeric_format not in PRODUCT_BITS and done.machine != own:
        raise EnvironmentFault(
            what="a replay was computed on another machine than this node's",
            expected=own,
            actual=done.machine,
            remedy='Set executor = "process" in config.toml, or give Ray only machines of this kind.',
            retryable=False,
        )
