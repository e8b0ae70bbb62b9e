"""Workers of a solver: a claim's roots are those of one, and what fails in a worker costs no claim."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread, Timer
from time import sleep
from typing import Any, cast

import pytest
import torch

from tests.kit.nodes import change_spec, change_tools, get_corpus
from tests.node.merging.stage import open_stage
from tests.node.specs import get_spec
from tests.protocol.adapters.parties import make_key
from tests.task_models import draw_first, respecify
from touchstone.node.kit.config import STORE_FOLDER, NodeConfig, make_scratch, share_memory_mb
from touchstone.node.kit.stored_step import keep_step
from touchstone.node.training.claims import read_origin
from touchstone.node.training.replay_worker import ReplayJob, replay_file
from touchstone.node.training.team_worker import DONE, Place
from touchstone.node.training.worker_team import PREFIX, Team, open_team
from touchstone.node.training.worker_team import Member as Worker
from touchstone.protocol.adapters.files.mapped_files import map_shared
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.tensor_allocator import view_mapped
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import encode_training
from touchstone.scripts.roles.role_nodes import Member

Claim = tuple[Any, ...]


def make_training(numeric_format: str = "exact15") -> TrainingSpec:
    """The tiny task, with a chunk of 128 positions for each of four rows, which workers share."""
    shape = {"sequences_per_step": 4, "sequence_tokens": 128, "chunk_terms": 128}
    return respecify(get_spec().training, numeric_format=numeric_format, **shape)


def make_place(folder: Path, count: int) -> Place:
    training = make_training()
    named = (encode_training(training), str(folder / "store"), get_step(training).parameters)
    return Place(*named, count, 0, 1, str(folder), 0, str(folder / "meeting"))


def make_config(home: Path, workers: int = 2, **named: Any) -> NodeConfig:
    return NodeConfig(home, home, "", make_key(1), workers=workers, **named)


async def train_claim(
    node: Member, training: TrainingSpec, team: Team | None, require: Callable[[], object] = lambda: None
) -> Claim:
    """All roots of the claim of round 0 but those that salts are in."""
    spec = replace(node.task.spec, training=training)
    change_spec(node, spec)
    change_tools(node, team=team)
    game_round = node.game.rounds[0]
    made = await node.rooms.training.finish_claim(
        read_origin(node.get_view(), node.game, game_round), require
    )
    change_tools(node, team=None)
    return node.rooms.tools.claims.find(game_round).boundaries, made.delta_root, made.carried_root


def list_listening(pid: int) -> list[str]:
    """Addresses, as the system writes them, at which a process can be reached."""
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    kinds = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for lines in kinds for line in lines]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]


async def test_a_claim_by_two_workers_has_the_roots_of_one_also_if_a_worker_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real processes, which no other machine reaches, whatever the operator's environment says. The worker is
    stopped first, so that it dies in the middle of a segment."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    training, lines, calls = make_training(), list[str](), list[int]()
    keep_step(BlobStore(tmp_path / STORE_FOLDER, is_durable=False), training, get_step(training))
    team = open_team(make_config(tmp_path, memory_mb=3_000), training, lines.append)
    assert team is not None
    team.least_s = 1e6  # The first claim waits until both have started.
    stopped = team._members[1].process.pid
    assert stopped is not None

    def stop() -> None:
        calls.append(1)
        if len(calls) == 3:
            os.kill(stopped, signal.SIGSTOP)
            Timer(0.3, os.kill, (stopped, signal.SIGKILL)).start()

    with closing(team):
        async with open_stage(tmp_path / "one", 1) as stage:
            alone = await train_claim(stage.nodes[1], training, None)
        async with open_stage(tmp_path / "two", 1) as stage:
            assert await train_claim(stage.nodes[1], training, team) == alone
        assert len(team._members) == 2
        assert lines == ["2 workers train together: their first step gave the same bits as one"]
        assert [list_listening(member.process.pid or 0) for member in team._members] == [["0100007F"]] * 2
        async with open_stage(tmp_path / "killed", 1) as stage:
            assert await train_claim(stage.nodes[1], training, team, stop) == alone
    assert len(calls) == 4 and not team.is_working
    assert len(lines) == 2 and lines[1].startswith("WARNING: the workers no longer train together")
    assert not list(tmp_path.glob(f"scratch/{PREFIX}*"))


async def test_a_task_with_limits_is_trained_by_one_worker_and_the_node_says_so(tmp_path: Path) -> None:
    """A library may sum fewer rows in another order: bits other than those of a trace cost the stake."""
    training, lines = make_training("float32"), list[str]()
    team = open_team(make_config(tmp_path), training, lines.append)
    assert team is None and "works only for exact tasks" in lines[0]
    async with open_stage(tmp_path / "one", 1) as stage:
        alone = await train_claim(stage.nodes[1], training, None)
    async with open_stage(tmp_path / "two", 1) as stage:
        assert await train_claim(stage.nodes[1], training, team) == alone


# Workers that stand in
class NoProcess:
    """Of a worker that is a thread."""

    def kill(self) -> None:
        """Nothing: the end of its connection ends it."""

    def join(self) -> None:
        """Nothing."""


Answer = Callable[[Connection, ReplayJob, str], None]


def work(there: Connection, job: ReplayJob, path: str) -> None:
    for loss in replay_file(job, path).losses:
        there.send(loss)
    there.send(DONE)


def make_team(folder: Path, lines: list[str], *answers: Answer, started: Event | None = None) -> Team:
    """A worker that answers to its first segment by the first of these, and so on. started: when it is
    there."""

    def serve(there: Connection) -> None:
        try:
            if started is not None:
                started.wait()
            there.send(DONE)
            for answer in answers:
                answer(there, *there.recv())
            there.recv()
        except (EOFError, OSError):
            pass

    def start(place: Place) -> Worker:
        here, there = Pipe()
        Thread(target=serve, args=(there,), daemon=True).start()
        return Worker(cast(Any, NoProcess()), here)

    place = make_place(folder, 1)
    return Team([place], lines.append, start, start_s=5, least_s=0.2)


def train_twice(train: Any) -> Any:
    """The states after two segments of two steps, and the losses."""
    training = make_training()
    batches = partial(get_batch, get_corpus(), training, bytes(32), 0)
    middle, losses = train(begin_round(draw_first(training, 3), 0), training, batches, 0, 2)
    end, more = train(middle, training, batches, 2, 2)
    return state_header(middle), state_header(end), losses + more


def flip_a_bit(there: Connection, job: ReplayJob, path: str) -> None:
    """The last bit of the last number of v."""
    done = replay_file(job, path)
    view_mapped(map_shared(Path(path)), torch.int32)[3 * job.elements - 1] ^= 1
    for loss in (*done.losses, DONE):
        there.send(loss)


def hang(there: Connection, job: ReplayJob, path: str) -> None:
    there.recv()


def err(there: Connection, job: ReplayJob, path: str) -> None:
    there.send("worker 0: out of memory")


def err_in_the_end(there: Connection, job: ReplayJob, path: str) -> None:
    """The file is as it was."""
    for message in (*[1.0] * job.steps, "worker 0: the disk is full"):
        there.send(message)


def end(there: Connection, job: ReplayJob, path: str) -> None:
    Path(path).write_bytes(bytes(Path(path).stat().st_size))
    there.close()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((flip_a_bit,), "other bits"),
        ((hang,), "said nothing"),
        ((work, work, hang), "said nothing"),
        ((work, err), "out of memory"),
        ((work, work, err_in_the_end), "disk is full"),
        ((work, work, end), "has ended"),
    ],
)
def test_what_workers_fail_at_one_worker_trains_from_its_boundary(
    tmp_path: Path, answers: tuple[Answer, ...], why: str
) -> None:
    lines: list[str] = []
    team = make_team(tmp_path, lines, *answers)
    assert train_twice(team.train) == train_twice(train_segment)
    *before, last = lines
    assert not team.is_working and why in last
    assert len(before) == (answers[0] is work), (
        "it says that workers train once they have shown that they can"
    )
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_while_workers_start_one_trains_and_then_they_do(tmp_path: Path) -> None:
    """A claim that waited for workers could come too late, and is not paid then."""
    lines, steps, started = list[str](), list[int](), Event()

    def count(there: Connection, job: ReplayJob, path: str) -> None:
        steps.append(job.steps)
        work(there, job, path)

    team = make_team(tmp_path, lines, *[count] * 3, started=started)

    def train(*arguments: Any) -> Any:
        found = team.train(*arguments)
        started.set()
        return found

    assert train_twice(train) == train_twice(train_segment)
    assert team.is_working and steps == [1, 1] and "train together" in lines.pop()
    team.close()
    late = make_team(tmp_path, lines, started=Event())
    late._begun -= late.start_s
    assert train_twice(late.train) == train_twice(train_segment)
    assert not late.is_working and "has not started within 5 s" in lines.pop() and not lines


def test_workers_that_are_slower_than_one_do_not_make_the_claim_late(tmp_path: Path) -> None:
    """No step of theirs hangs, but together they would cost ten times the segment."""
    lines = list[str]()

    def dawdle(there: Connection, job: ReplayJob, path: str) -> None:
        done = replay_file(job, path)
        for loss in done.losses:
            sleep(0.8)
            there.send(loss)
        there.send(DONE)

    team = make_team(tmp_path, lines, dawdle)
    assert team._have_started(60)
    team.least_s, team._step_s = 1.0, 0.1
    assert train_twice(team.train) == train_twice(train_segment)
    assert not team.is_working and len(lines) == 1 and "slower than one worker" in lines[0]


def test_a_node_starts_though_its_workers_do_not(tmp_path: Path) -> None:
    """It may have a seat, and disputes to answer. A worker that did start ends."""
    made, lines = list[Connection](), list[str]()

    def start(place: Place) -> Worker:
        if made:
            raise BlockingIOError("Resource temporarily unavailable")
        here, there = Pipe()
        made.append(there)
        return Worker(cast(Any, NoProcess()), here)

    place = make_place(tmp_path, 2)
    team = Team([place, replace(place, own=1)], lines.append, start)
    assert not team.is_working and "temporarily unavailable" in lines[0]
    with pytest.raises(EOFError):
        made[0].recv()
    assert train_twice(team.train) == train_twice(train_segment)


def test_workers_that_do_not_fail_are_compared_once_and_train_all_else(tmp_path: Path) -> None:
    lines, counts = list[str](), list[int]()

    def count(there: Connection, job: ReplayJob, path: str) -> None:
        counts.append(job.steps)
        work(there, job, path)

    team = make_team(tmp_path, lines, *[count] * 3)
    assert train_twice(team.train) == train_twice(train_segment)
    assert counts == [1, 1, 2] and team.is_working
    assert lines == ["1 workers train together: their first step gave the same bits as one"]
    team.close()


async def test_a_node_that_ends_does_not_train_on_alone(tmp_path: Path) -> None:
    lines: list[str] = []
    team = make_team(tmp_path, lines, lambda *_: team.close())
    with pytest.raises(EnvironmentFault, match="node ends"):
        await asyncio.to_thread(train_twice, team.train)
    assert not lines


def test_files_of_a_killed_node_are_removed_at_its_next_start(tmp_path: Path) -> None:
    for name in (f"{PREFIX}left", "other"):
        (tmp_path / name).write_bytes(b"x")
    make_team(tmp_path, []).close()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_workers_share_the_memory_with_their_node_and_meet_where_no_other_account_reads(
    tmp_path: Path,
) -> None:
    config = make_config(tmp_path, workers=2, memory_mb=900)
    assert share_memory_mb(config) == 300
    assert open_team(replace(config, workers=1), make_training(), print) is None
    make_scratch(replace(config, memory_mb=0))
    assert (tmp_path / "scratch").stat().st_mode & 0o777 == 0o700
