"""Replays segments in separate processes, and tries each once more if its process dies."""

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
"""The prefix of files in the scratch folder. A killed node leaves some, and its next start removes them."""


ATTEMPTS = 2


HANG_S = 900.0
"""Seconds without a new step after which a process counts as hung and is killed, because its audit would wait
for ever."""


class ProcessWorker:
    """A process of this machine. Each has its own executor, so that the others go on if one dies."""

    def __init__(
        self, threads: int, device: str, scratch: Path, memory_mb: int = 0, hang_s: float = HANG_S
    ) -> None:
        arguments = (threads, device, str(scratch), memory_mb)
        self._hang_s = hang_s
        self._executor = ProcessPoolExecutor(1, get_context("spawn"), begin_worker, arguments)

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """Does what `ReplayWorker.replay` says."""
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
        """Kills the process; its work is lost."""
        for process in list(self._executor._processes.values()):
            process.kill()

    def close(self) -> None:
        """Does what `ReplayWorker.close` says."""
        self._executor.shutdown(wait=False, cancel_futures=True)


@dataclass
class ReplayPool:
    """Runs at most `processes` replays at once; others wait. `scratch` is the folder for their files. `store`
    has the node's blobs, the task's step among them."""

    scratch: Path
    store: Path
    processes: int
    make_worker: Callable[[], ReplayWorker]
    _threads: ThreadPoolExecutor = field(init=False)
    _idle: list[ReplayWorker] = field(default_factory=list)
    _is_closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        # Own threads, because each waits for a worker, and the server reads files in asyncio's threads.
        self._threads = ThreadPoolExecutor(self.processes, "replay")
        for left in self.scratch.glob(f"{PREFIX}*"):
            left.unlink(missing_ok=True)

    async def run_apart(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Runs `work`, which may call `train`, in a thread, and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    def train(
        self, state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        """Trains as `compute.program.step.replay_segment`, in a worker. Raises EnvironmentFault if workers
        died twice, or one cannot compute what this process would."""
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
        """Tries once, in a fresh file, because a worker that died may have written to the last one."""
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
            path.unlink(missing_ok=True)  # Without this, an absent file would hide the real error.

    def _replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        worker = self._take_idle()
        try:
            worker = worker or self.make_worker()
            done = worker.replay(job, path)
        except WorkerDied:
            _close(worker)
            self._let_go()  # The idle workers may be dead too, and they hold memory if that was short.
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
        """Ends threads and workers. A busy worker ends when its job is done."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._let_go()

    def _let_go(self) -> None:
        while (worker := self._take_idle()) is not None:
            _close(worker)

    def _take_idle(self) -> ReplayWorker | None:
        """Takes an idle worker; None if there is none, because another thread may have taken the last one."""
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _close(worker: ReplayWorker | None) -> None:
    """Closes a worker and ignores its errors, because its result is already here."""
    with suppress(Exception):
        if worker is not None:
            worker.close()


def _require_same_machine(spec: TrainingSpec, done: ReplayDone) -> None:
    """Raises EnvironmentFault if a worker may compute other bits than this process: it runs other code, or is
    another kind of machine where the task's format lets bits differ. This process must be able to defend the
    vote."""
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
