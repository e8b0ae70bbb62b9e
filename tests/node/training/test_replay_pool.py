"""Replays in other processes: the same bits, and what a worker that dies or lies costs: never a vote."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier, Timer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.protocol.adapters.parties import make_key
from tests.task_models import draw_first, respecify
from tests.verifier.stage import Node, Stage, get_task, make_solver, make_stage
from touchstone.node.kit.config import STORE_FOLDER, NodeConfig
from touchstone.node.kit.stored_step import keep_step
from touchstone.node.serving.audit_opening import open_pool
from touchstone.node.training import ray_replays, replay_pool
from touchstone.node.training.ray_replays import load_ray
from touchstone.node.training.replay_pool import PREFIX, ProcessWorker, ReplayPool
from touchstone.node.training.replay_worker import (
    ReplayDone,
    ReplayJob,
    ReplayWorker,
    WorkerDied,
    replay,
    replay_file,
)
from touchstone.protocol.adapters.files.mapped_files import map_shared
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.verifier.replaying import audit

STEPS = 2
Ends = tuple[bytes, list[float]]


def run_training(train: Any, numeric_format: str = "float32") -> Ends:
    """The root after a segment of the tiny task, and its losses."""
    about = get_task()
    spec = respecify(about.training, numeric_format=numeric_format)
    start = begin_round(draw_first(spec, 3), 0)
    state, _ = train_segment(start, spec, partial(get_batch, about.corpus, spec, bytes(32), 0), 0, 1)
    batches = partial(get_batch, about.corpus, spec, bytes(32), 0)
    end, losses = train(state, spec, batches, 1, STEPS)
    assert (end.local_step, end.global_step) == (1 + STEPS, 1 + STEPS)
    return compute_state_root(state_header(end)), losses


def keep(folder: Path, spec: TrainingSpec) -> None:
    """Have the step of a spec in a store."""
    keep_step(BlobStore(folder, is_durable=False), spec, get_step(spec))


class StandIn:
    """A worker in this process, with a fault."""

    def __init__(self, fail: Callable[[], None] = lambda: None, machine: str = "", code: str = "") -> None:
        self.fail, self.machine, self.code, self.is_closed = fail, machine, code, False

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        self.fail()
        done = replay_file(job, str(path))
        return replace(done, machine=self.machine or done.machine, code=self.code or done.code)

    def close(self) -> None:
        self.is_closed = True


class Mortal(ProcessWorker):
    """A worker process that is killed while it replays."""

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        pid = self._executor.submit(os.getpid).result()
        os.kill(pid, signal.SIGSTOP)
        Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        return super().replay(job, path)


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Callable[..., ReplayPool]]:
    """Makes a pool of workers that are made one after the other by these."""
    made: list[ReplayPool] = []
    for numeric_format in ("float32", "exact15"):
        keep(tmp_path / "store", respecify(get_task().training, numeric_format=numeric_format))

    def make(*makers: Callable[[], ReplayWorker], processes: int = 1) -> ReplayPool:
        queue = list(makers)
        maker = lambda: (queue.pop(0) if len(queue) > 1 else queue[0])()  # noqa: E731
        made.append(ReplayPool(tmp_path, tmp_path / "store", processes, maker))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def make_process(folder: Path) -> ProcessWorker:
    return ProcessWorker(1, "cpu", folder)


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_a_worker_process_comes_to_the_same_bits(
    pools: Callable[..., ReplayPool], tmp_path: Path, numeric_format: str
) -> None:
    made: list[ProcessWorker] = []

    def make() -> ProcessWorker:
        made.append(make_process(tmp_path))
        return made[-1]

    pool, here = pools(make), run_training(train_segment, numeric_format)
    assert [run_training(pool.train, numeric_format) for _ in range(2)] == [here, here]
    assert len(made) == 1, "a process is used again: it has built the program and compiled its loops"
    assert not list(tmp_path.glob(f"{PREFIX}*"))


async def test_an_audit_in_a_worker_process_says_what_it_says_without(tmp_path: Path) -> None:
    stage = make_stage()
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    lines = list[str]()
    named: dict[str, Any] = {"replay_processes": 2, "memory_mb": 3_000, "notify": lines.append}
    keep(auditor.folder / STORE_FOLDER, stage.spec.training)
    pool = open_pool(NodeConfig(auditor.folder, tmp_path, "", make_key(1), **named))
    assert lines == ["replays: 2 at once at most, one process each"]
    auditor.room.train, auditor.room.run_apart, auditor.room.close = pool.train, pool.run_apart, pool.close
    async with make_solver(stage, tmp_path).run(), auditor.run():
        vote = await audit(auditor.room, stage.get_drawn())
    auditor.audits.close()
    drawn = stage.get_drawn()
    assert vote is not None and vote.word == VoteWord.ACCEPT
    assert auditor.room.book.seals[drawn.place].own_end == stage.claim.headers[drawn.segment + 1]


def test_a_process_that_dies_is_replaced_once_and_the_bits_are_the_same(
    pools: Callable[..., ReplayPool], tmp_path: Path
) -> None:
    pool = pools(lambda: Mortal(1, "cpu", tmp_path), partial(make_process, tmp_path))
    assert run_training(pool.train) == run_training(train_segment)


def test_what_a_dying_process_wrote_is_not_trained_on(pools: Callable[..., ReplayPool]) -> None:
    def write_and_die(job: ReplayJob, path: Path) -> ReplayDone:
        path.write_bytes(bytes(path.stat().st_size))
        raise WorkerDied

    first = StandIn()
    first.replay = write_and_die  # type: ignore[method-assign]
    assert run_training(pools(lambda: first, StandIn).train) == run_training(train_segment)
    assert first.is_closed


def test_idle_processes_that_died_meanwhile_cost_one_try(pools: Callable[..., ReplayPool]) -> None:
    """A lack of memory takes several at once. The second try is that of a fresh process."""

    def die() -> None:
        raise WorkerDied

    pool, dead = pools(StandIn), [StandIn(die), StandIn(die)]
    pool._idle += dead
    assert run_training(pool.train) == run_training(train_segment)
    assert all(one.is_closed for one in dead)


def test_the_last_idle_worker_may_go_to_another_thread(pools: Callable[..., ReplayPool]) -> None:
    class Emptied(list[ReplayWorker]):
        """As a thread sees it that looks just before another one takes the worker."""

        def __bool__(self) -> bool:
            return True

    pool = pools(StandIn)
    pool._idle = Emptied()
    assert run_training(pool.train) == run_training(train_segment)


async def test_processes_that_keep_dying_cost_an_abstention_and_nothing_else(
    pools: Callable[..., ReplayPool], tmp_path: Path
) -> None:
    """While there is time the audit is tried again; no word says anything against the solver."""
    stage, deaths = make_stage(), list[int]()

    def die() -> None:
        deaths.append(1)
        raise WorkerDied

    await check_abstention(stage, pools(lambda: StandIn(die)), tmp_path, "died twice")
    assert len(deaths) == 4


async def test_a_fault_in_a_process_is_never_the_solvers(
    pools: Callable[..., ReplayPool], tmp_path: Path
) -> None:
    """Here a ProtocolFault would say that the claim cannot be trained from, and cost its solver a fee."""

    def blame() -> None:
        raise ProtocolFault(what="wrong", expected=1, actual=2, remedy="")

    await check_abstention(make_stage(), pools(lambda: StandIn(blame)), tmp_path, "failed in its process")


async def check_abstention(stage: Stage, pool: ReplayPool, folder: Path, why: str) -> None:
    auditor = Node(stage, stage.find_auditor(), folder / "auditor")
    auditor.room.train, auditor.room.run_apart = pool.train, pool.run_apart
    async with make_solver(stage, folder).run(), auditor.run():
        with pytest.raises(EnvironmentFault, match=why):
            await audit(auditor.room, stage.get_drawn())
        assert not auditor.room.book.votes
        stage.world.jump(stage.audit_end - 1)
        vote = await audit(auditor.room, stage.get_drawn())
    assert vote is not None and vote.word == VoteWord.ABSTAIN


class Stopped(ProcessWorker):
    """A worker process that does nothing more, and does not end."""

    def replay(self, job: ReplayJob, path: Path) -> ReplayDone:
        os.kill(self._executor.submit(os.getpid).result(), signal.SIGSTOP)
        return super().replay(job, path)


def test_a_process_that_hangs_is_killed_and_replaced(
    pools: Callable[..., ReplayPool], tmp_path: Path
) -> None:
    """Else the audit would wait for ever, and the auditor say nothing."""
    pool = pools(lambda: Stopped(1, "cpu", tmp_path, hang_s=0.5), partial(make_process, tmp_path))
    assert run_training(pool.train) == run_training(train_segment)


def test_a_process_that_is_slow_and_goes_on_is_waited_for(
    pools: Callable[..., ReplayPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_slow(job: ReplayJob, path: str) -> ReplayDone:
        def tell() -> None:
            time.sleep(1.5)
            os.utime(path)

        return replay(job, map_shared(Path(path)), tell)

    worker = ProcessWorker(1, "cpu", tmp_path, hang_s=2.0)
    worker._executor = ThreadPoolExecutor(1)  # type: ignore[assignment]
    monkeypatch.setattr(replay_pool, "replay_file", be_slow)
    assert run_training(pools(lambda: worker).train) == run_training(train_segment)


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_ray_that_is_gone_costs_an_abstention(
    pools: Callable[..., ReplayPool], tmp_path: Path, is_made: bool
) -> None:
    """It makes no actor then, and kills none. The audit goes on as after any failure of a worker."""

    def be_gone() -> Any:
        raise RuntimeError("Ray has not been started yet")

    worker = StandIn(be_gone)
    worker.close = be_gone  # type: ignore[method-assign]
    make = (lambda: worker) if is_made else be_gone
    await check_abstention(make_stage(), pools(make), tmp_path, "failed in its process")


def test_a_machine_that_may_compute_other_bits_does_not_count(pools: Callable[..., ReplayPool]) -> None:
    """Ray may have machines of several kinds. In an exact task all of them compute the same."""
    pool = pools(lambda: StandIn(machine="another"))
    with pytest.raises(EnvironmentFault, match="another machine"):
        run_training(pool.train)
    assert run_training(pool.train, "exact15") == run_training(train_segment, "exact15")


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_a_worker_of_another_version_does_not_count(
    pools: Callable[..., ReplayPool], numeric_format: str
) -> None:
    """A process that was started after `git pull`, or a machine of Ray that was not updated. Its bits may be
    others in every format, and a vote that this node cannot compute again costs the stake."""
    with pytest.raises(EnvironmentFault, match="another version"):
        run_training(pools(lambda: StandIn(code="earlier")).train, numeric_format)


def test_a_worker_whose_libraries_choose_other_kernels_does_not_count(
    pools: Callable[..., ReplayPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the same processor: a Ray that was started in another shell has other variables. The node could not
    answer for such a vote."""
    worker = make_process(tmp_path)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    worker._executor.submit(os.getpid).result()
    monkeypatch.delenv("MKL_CBWR")
    with pytest.raises(EnvironmentFault, match="another machine"):
        run_training(pools(lambda: worker).train)


async def test_two_segments_are_replayed_at_once_and_a_third_one_waits(
    pools: Callable[..., ReplayPool],
) -> None:
    meet, running = Barrier(2, timeout=60), list[int]()

    def note() -> None:
        running.append(1)
        meet.wait()

    pool = pools(lambda: StandIn(note), processes=2)
    work = [asyncio.create_task(pool.run_apart(run_training, pool.train)) for _ in range(4)]
    roots = await asyncio.gather(*work)
    assert len(running) == 4 and all(one == roots[0] for one in roots)
    assert len(pool._idle) == 2


def test_files_of_a_killed_node_are_removed_at_its_next_start(
    pools: Callable[..., ReplayPool], tmp_path: Path
) -> None:
    for name in (f"{PREFIX}left", "other"):
        (tmp_path / name).write_bytes(b"x")
    pools(StandIn)
    assert not list(tmp_path.glob(f"{PREFIX}*")) and (tmp_path / "other").exists()


async def test_a_file_that_is_taken_away_costs_an_abstention(
    pools: Callable[..., ReplayPool], tmp_path: Path
) -> None:
    def take_away(job: ReplayJob, path: Path) -> ReplayDone:
        path.unlink()
        return replay_file(job, str(path))

    worker = StandIn()
    worker.replay = take_away  # type: ignore[method-assign]
    await check_abstention(make_stage(), pools(lambda: worker), tmp_path, "failed in its process")


def test_a_worker_that_is_at_work_goes_when_it_is_done(pools: Callable[..., ReplayPool]) -> None:
    """Its process holds gigabytes, and this one may live on."""
    worker = StandIn()
    pool = pools(lambda: worker)
    worker.fail = pool.close
    run_training(pool.train)
    assert worker.is_closed and not pool._idle


LEFT_BEHIND = """
import os, sys
from pathlib import Path
from touchstone.node.training.replay_pool import ProcessWorker

if __name__ == "__main__":
    worker = ProcessWorker(1, "cpu", Path(sys.argv[1]))
    Path(sys.argv[1], "pid").write_text(str(worker._executor.submit(os.getpid).result()))
    os.kill(os.getpid(), 9)
"""


def test_a_worker_ends_with_its_node_however_that_ended(tmp_path: Path) -> None:
    """It holds gigabytes, and the next start of the node makes others."""
    script = tmp_path / "node.py"
    script.write_text(LEFT_BEHIND)
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    run = subprocess.run([sys.executable, script, tmp_path], env=environment, check=False)
    assert run.returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    for _ in range(200):
        if not Path("/proc", str(pid)).exists():
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("it is still there")


@pytest.mark.parametrize("address", ["", "auto"])
def test_a_ray_that_refuses_is_no_bug_and_one_of_the_nodes_own_joins_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Seen with Ray 2.60 beside a `ray start`: it joined that one, and raised its own kind of error."""

    class NoToken(Exception):
        """As AuthenticationError of Ray."""

    asked = dict[str, Any]()

    def init(**named: Any) -> None:
        asked.update(named)
        raise NoToken("no authentication token")

    ray = SimpleNamespace(
        init=init, is_initialized=lambda: False, exceptions=SimpleNamespace(RayError=NoToken)
    )
    monkeypatch.setattr(ray_replays, "load_ray", lambda address: ray)
    named: dict[str, Any] = {"executor": "ray", "ray_address": address, "notify": [].append}
    with pytest.raises(EnvironmentFault, match=r"no authentication token.*RAY_AUTH_TOKEN"):
        open_pool(NodeConfig(tmp_path, tmp_path, "", make_key(1), **named))
    assert asked["address"] == (address or "local")


def test_ray_comes_to_the_same_bits_and_a_killed_actor_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replay dies with its process; strangers without the secret are not let in. A Ray of the node's own
    is started in a private folder, whatever other one the environment names."""
    if find_spec("ray") is None:
        pytest.skip("the extra [ray] is not installed: pip install -e '.[ray]'")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    lines = list[str]()
    config = NodeConfig(tmp_path, tmp_path, "", make_key(1), executor="ray", notify=lines.append)
    pool, ray = open_pool(config), load_ray("")
    try:
        here = run_training(train_segment)
        assert lines == ["replays: 1 at once at most, by a Ray that this node starts"]
        assert run_training(pool.train) == here
        session = Path(ray._private.worker._global_node.get_session_dir_path())
        assert session.parents[1].stat().st_mode & 0o777 == 0o700, "its sockets lie in folders of mode 0777"
        (worker,) = pool._idle
        worker.close()  # Kills the actor, as a lack of memory does.
        assert run_training(pool.train) == here and pool._idle != [worker]
        address = ray.get_runtime_context().gcs_address
        stranger = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        ask = [sys.executable, "-c", f"import ray; ray.init({address!r})"]
        refused = subprocess.run(ask, env=stranger, capture_output=True, text=True, check=False)
        assert refused.returncode and "Failed to connect" in refused.stderr, refused.stderr
        pool.close()
    finally:
        ray.shutdown()
