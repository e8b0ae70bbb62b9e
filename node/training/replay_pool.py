"""Replays in processes of their own, or in actors of Ray; each tried again once where it dies.

    thread of the audit --> a file: W, m, v, tokens, labels --> worker: pins its kernels, trains in that file
                        <-- the same file: W, m, v of the end

A worker is told numbers, the canonical bytes of the task's training, and a path. It answers with losses and
with what its machine is. One that would compute other bits than this process does not count. What is wrong
with a worker is never the solver's fault: the audit is tried again, and its vote is ABSTAIN in the end.

Ray is an extra, and is imported when it is used. Whoever reaches its ports can have it run code, and it
listens on all interfaces. So a node's own Ray takes only who knows a fresh secret; one that is there already
has to be protected by its operator in the same way (`RAY_AUTH_MODE=token`).
"""

import asyncio
import atexit
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from touchstone.node.kit.config import describe_code, describe_machine, keep_to_memory
from touchstone.node.kit.stored_step import open_step
from touchstone.protocol.adapters.files.mapped_files import make_shared, map_shared
from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step, learn_step
from touchstone.protocol.compute.program.step import Batch, GetBatch, TrainingState, replay_segment
from touchstone.protocol.compute.program.tensor_allocator import view_mapped
from touchstone.protocol.spec.codec import decode_training, encode_training
from touchstone.protocol.spec.containers import TrainingSpec
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program_codec import decode_program, encode_program
from touchstone.protocol.spec.weights_layout import decode_layout, encode_layout

PREFIX = "replay-"
"""Of files in the scratch folder. A killed node leaves some, and its next start removes them."""
ATTEMPTS = 2
HANG_S = 900.0
"""A process that begins no step for so long hangs, and is killed: its audit would wait and say nothing."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class ReplayJob:
    """What a worker is told. training: canonical bytes of the task's training; store: the folder of the
    node's store, which has the task's step; elements: of W; the counters of the start state; first_step:
    0-based in the round."""

    training: bytes
    store: str
    elements: int
    local_step: int
    global_step: int
    first_step: int
    steps: int


@dataclass(frozen=True)
class ReplayDone:
    """The loss of each step (nats), and what computed them (`describe_machine`, `describe_code`)."""

    losses: tuple[float, ...]
    machine: str
    code: str


class ReplayTensors(NamedTuple):
    """A replay's memory: flat float32 W, m, v; int32 [steps, rows, tokens] tokens and labels."""

    vectors: tuple[Tensor, Tensor, Tensor]
    tokens: Tensor
    labels: Tensor


class WorkerDied(Exception):
    """The process is gone: killed, or out of memory; or it hung."""


class ReplayWorker(Protocol):
    """One process that replays one segment at a time."""

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """Train in the file at `path`, which holds the end state then. Raises WorkerDied, and what else goes
        wrong in the process."""

    def close(self) -> None:
        """Let the process go; what it replays is of no use any more."""


# --- In the worker ------------------------------------------------------------------------------------------
def measure_job(job: ReplayJob) -> int:
    """Bytes of a job's memory."""
    spec = decode_training(job.training)
    return 12 * job.elements + 8 * job.steps * spec.sequences_per_step * spec.sequence_tokens


def view_job(job: ReplayJob, memory: memoryview) -> ReplayTensors:
    """The tensors of a job, as they lie in its memory."""
    spec, count = decode_training(job.training), job.elements
    words = view_mapped(memory)
    first, second, third, rest = torch.split(words, [count, count, count, words.numel() - 3 * count])
    shape = (2, job.steps, spec.sequences_per_step, spec.sequence_tokens)
    tokens, labels = rest.view(torch.int32).view(shape)
    return ReplayTensors((first, second, third), tokens, labels)


def replay(job: ReplayJob, memory: memoryview, tell: Callable[[], object] = lambda: None) -> ReplayDone:
    """Replay a segment in its memory: W, m, v are the start, and the end afterwards. tell: called at each
    step."""
    tensors, spec = view_job(job, memory), decode_training(job.training)

    def get_batch(step: int) -> Batch:
        """As `GetBatch`."""
        tell()
        number = step - job.first_step
        return Batch(tensors.tokens[number].to(torch.int64), tensors.labels[number].to(torch.int64))

    state = TrainingState(*tensors.vectors, job.local_step, job.global_step)
    end, losses = replay_segment(state, spec, get_batch, job.first_step, job.steps)
    for target, source in zip(tensors.vectors, end.vectors, strict=True):
        target.copy_(source)
    return ReplayDone(tuple(losses), describe_machine(), describe_code())


def replay_file(job: ReplayJob, path: str) -> ReplayDone:
    """The same in a file of `make_shared`, whose time of change tells the node that a step began."""
    open_step(BlobStore(Path(job.store), is_durable=False), decode_training(job.training), job.elements)
    return replay(job, map_shared(Path(path)), partial(os.utime, path))


def begin_worker(threads: int, device: str, scratch: str, memory_mb: int) -> None:
    """What a worker process does first, before its first tensor. It ends with its parent, whose key press
    (Ctrl-C) is no business of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    pin_kernels(threads, device=device)
    keep_to_memory(Path(scratch), memory_mb)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


# --- In the node --------------------------------------------------------------------------------------------
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
        """End the process; its work is broken then."""
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
        """The result of `work`, which may call `train`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    def train(
        self, state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        """As `compute.program.step.replay_segment`, by a worker. Raises EnvironmentFault where workers died
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
        """One try, in a fresh file: what died may have written to the last one."""
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
        """Let threads and workers go; one that is at work goes when it is done."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._let_go()

    def _let_go(self) -> None:
        while (worker := self._take_idle()) is not None:
            _close(worker)

    def _take_idle(self) -> ReplayWorker | None:
        """One of the idle workers, None where there is none: another thread may take the last one."""
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _close(worker: ReplayWorker | None) -> None:
    """Let a worker go, whatever is wrong with it: what it did is what counts."""
    with suppress(Exception):
        if worker is not None:
            worker.close()


def _require_same_machine(spec: TrainingSpec, done: ReplayDone) -> None:
    """Raises EnvironmentFault for a worker whose bits may be others than this process's: it runs other code,
    or is of another kind where the task's format lets bits differ. A vote is answered for by computing it
    again here."""
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
            remedy='Set executor = "process" in config.toml, or give Ray machines of this kind alone.',
            retryable=False,
        )


# --- Actors of Ray ------------------------------------------------------------------------------------------
class RayReplayer:
    """What runs in a process of Ray."""

    def __init__(self, threads: int) -> None:
        pin_kernels(threads)

    def learn(
        self, program: bytes, layout: bytes, constants: Mapping[int, np.ndarray[Any, np.dtype[np.float32]]]
    ) -> None:
        """Have a step known here."""
        values = {number: torch.from_numpy(one.copy()) for number, one in constants.items()}
        learn_step(TaskStep(BuiltProgram(decode_program(program), values), decode_layout(layout)))

    def replay(self, job: ReplayJob, data: np.ndarray[Any, Any]) -> tuple[ReplayDone, np.ndarray[Any, Any]]:
        """The job's memory before and after, as bytes: this process may be on another machine."""
        memory = data.copy()
        return replay(job, memory.data), memory[: 12 * job.elements]


@dataclass
class RayWorker:
    """An actor. ray: the library; actor: a handle of `RayReplayer`."""

    ray: Any
    actor: Any
    _taught: bytes = b""
    """Training whose step the actor knows."""

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        """As `ReplayWorker.replay`."""
        data, known = np.fromfile(path, dtype=np.uint8), self.ray.exceptions
        try:
            self._teach(job.training)
            most_s = HANG_S * (1 + job.steps)
            done, end = self.ray.get(self.actor.replay.remote(job, data), timeout=most_s)
        except (known.RayActorError, known.OutOfMemoryError, known.GetTimeoutError) as error:
            raise WorkerDied from error
        with path.open("r+b") as file:
            end.tofile(file)
        return cast(ReplayDone, done)

    def _teach(self, training: bytes) -> None:
        if training != self._taught:
            step = get_step(decode_training(training))
            constants = {number: values.numpy() for number, values in step.built.constants.items()}
            told = (encode_program(step.built.program), encode_layout(step.layout), constants)
            self.ray.get(self.actor.learn.remote(*told), timeout=HANG_S)
            self._taught = training

    def close(self) -> None:
        """As `ReplayWorker.close`."""
        self.ray.kill(self.actor)


def load_ray(address: str) -> Any:
    """Ray itself, for `open_ray`. Raises InvalidInput where it is not installed."""
    if "ray" not in sys.modules:  # It reads these once, when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if not address:
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    return load_extra("ray", 'executor "ray"', "ray")


def open_ray(address: str, threads: int, processes: int) -> Callable[[], RayWorker]:
    """What makes a worker. address: of a running Ray, or "auto"; empty: Ray is started here, for as many
    workers of so many threads. Raises InvalidInput without Ray, EnvironmentFault where it does not start."""
    ray = load_ray(address)
    try:
        if not ray.is_initialized():
            where = {"address": address} if address else _begin_own_ray(threads, processes)
            ray.init(**where, log_to_driver=False, configure_logging=False)
    except (ConnectionError, OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise EnvironmentFault(
            what="Ray does not start" if not address else "Ray does not answer",
            expected=f"a running Ray at {address}" if address else "a Ray of its own",
            actual=f"{type(error).__name__}: {error}",
            remedy=(
                "Look at `ray status`; a Ray that was there before wants its token (RAY_AUTH_TOKEN, or "
                '~/.ray/auth_token). Or set executor = "process" in config.toml.'
            ),
            retryable=False,
        ) from error
    actor = ray.remote(num_cpus=threads, max_restarts=0)(RayReplayer)
    return lambda: RayWorker(ray, actor.remote(threads))


def _begin_own_ray(threads: int, processes: int) -> dict[str, Any]:
    """How a Ray of the node's own is started. Its sockets lie in folders that it opens to every account. Who
    puts another socket there has its processes unpickle what that says: so these lie in a private folder."""
    folder = tempfile.mkdtemp(prefix="touchstone-ray-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # After Ray itself, which registers later.
    # No address would mean the Ray which RAY_ADDRESS or a file below /tmp names.
    own = {"address": "local", "_temp_dir": f"{folder}/ray", "include_dashboard": False}
    return {**own, "num_cpus": processes * threads}
