"""What a seat takes of its machine, at which priority, and what its node is told of who else uses it."""

import asyncio
import os
from contextlib import nullcontext
from dataclasses import dataclass
from dataclasses import replace as replace_terms
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.e2e.world import AMOUNTS, TINY_PLAN, make_dataset
from tests.protocol.adapters.made_machine import Machine
from tests.scripts.money import Operators
from tests.scripts.network import edit_config, fail
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.joining.task_reading import compute_task_bytes
from touchstone.node.kit.config import JOURNAL_FILE, STORE_FOLDER, NodeConfig
from touchstone.node.records.claim_records import OuterShown
from touchstone.node.records.record_kinds import RECORDS
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.machine import machine_use
from touchstone.protocol.adapters.machine.machine_use import MachineUse
from touchstone.protocol.adapters.machine.process_limits import measure_memory_bytes
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step_runners import STATES_BYTES
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.program import Program
from touchstone.scripts.home import node_config
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.seats import seat_agreement, seat_needs, seat_session
from touchstone.scripts.seats.least_needs import PROCESS_BYTES
from touchstone.scripts.seats.seat_needs import (
    Need,
    compute_audit_bytes,
    compute_need,
    find_room,
)
from touchstone.scripts.tasks.task_file import sketch_terms
from touchstone.scripts.tasks.task_sizes import compute_disk_bytes
from touchstone.scripts.touchstone import main


# What a seat takes of the machine
@dataclass(frozen=True)
class Posted:
    """A task that a submitter's node serves."""

    task: str
    operators: Operators

    def refuse(self, *changes: tuple[str, object], command: str = "solve") -> list[str]:
        """The four lines by which a home with these keys does not stake."""
        home = self.operators.home_of("alice")
        path = home / "config.toml"
        before = path.read_text()
        for key, value in changes:
            edit_config(home, key, value)
        try:
            return self.operators.fail("alice", command, self.task[:8], "--yes")
        finally:
            path.write_text(before)


def test_a_seat_that_takes_more_than_the_home_allows_or_the_machine_has_is_refused(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a question, and before a token is moved."""
    posted = Posted(operators.post_task("submitter"), operators)
    for command, who in (("solve", "solver"), ("verify", "verifier"), ("watch", "whistleblower")):
        lines = posted.refuse(("memory_mb", 100), command=command)
        assert f"a {who} of this task takes more memory than this home allows" in lines[0]
        assert lines[1].endswith("memory_mb = 650 or more; 0: no limit") and "memory_mb = 100" in lines[2]
        lines = posted.refuse(("disk_mb", 1), ("memory_mb", 900), command=command)
        assert f"a {who} of this task takes more disk than this home allows" in lines[0]
        assert "disk_mb = " in lines[1] and lines[2].endswith("disk_mb = 1")
    has_mb = measure_memory_bytes() / 1e6
    lines = posted.refuse(("memory_mb", int(has_mb) + 10))
    assert "more memory than this machine has" in lines[0] and f"{has_mb:,.0f} MB" in lines[2]
    monkeypatch.setattr(seat_needs, "measure_memory_bytes", lambda: 100_000_000)
    lines = posted.refuse()
    assert "more memory than this machine has" in lines[0] and lines[2].endswith("100 MB")
    assert "Set memory_mb" in lines[3]
    monkeypatch.setattr(seat_needs, "measure_memory_bytes", measure_memory_bytes)
    monkeypatch.setattr(
        "touchstone.scripts.seats.seat_needs.shutil.disk_usage", lambda path: SimpleNamespace(free=0)
    )
    monkeypatch.setattr(seat_needs, "measure_kept_bytes", lambda home: 0)
    assert "the disk has too little room for a solver of this task" in posted.refuse()[0]


HOME = HomeConfig("", "")
POSTED, TRAINING = build_task(TINY_PLAN, make_dataset(), "0x" + 40 * "1", bytes(32))
SPEC, TERMS = make_spec(POSTED, TRAINING), sketch_terms(TINY_PLAN)
COSTS = measure_costs(get_program(TRAINING).program)


def need(role: SeatRole, **keys: Any) -> Need:
    return compute_need(role, TERMS, SPEC, replace(HOME, **keys), COSTS)


TASK, OTHER = b"t" * 32, b"o" * 32


@pytest.mark.parametrize("task", [TASK, OTHER])
@pytest.mark.parametrize("kind", ["tensor", "dataset", "step"])
async def test_what_other_tasks_keep_in_a_home_is_no_room_for_a_new_seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: bytes, kind: str
) -> None:
    """No pruning deletes it. The seat was taken, and the disk was full in the middle of a round. What the
    same task left there does go."""
    store, is_own = BlobStore(tmp_path / STORE_FOLDER), task == TASK
    with Journal(tmp_path / JOURNAL_FILE, RECORDS) as journal:
        journal.append(OuterShown(task, b"w" * 32, b"m" * 32))
    keys = {
        "tensor": BlobKey(BlobKind.TENSOR, b"w" * 32),
        "dataset": BlobKey(BlobKind.DATASET, TRAINING.dataset_root if is_own else b"r" * 32),
        "step": BlobKey(BlobKind.STEP, TRAINING.layout.root if is_own else b"r" * 32),
    }
    key = keys[kind]
    with store.get_path(key).open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(
        "touchstone.scripts.seats.seat_needs.shutil.disk_usage", lambda path: SimpleNamespace(free=0)
    )
    monkeypatch.setattr(seat_needs, "read_checked_spec", lambda state, task: SPEC)
    state: Any = SimpleNamespace(games={TASK: SimpleNamespace(terms=TERMS)})
    config: Any = SimpleNamespace(home=tmp_path, notify=print)

    async def fetch(*_: object) -> Program:
        return get_program(TRAINING).program

    monkeypatch.setattr(seat_needs, "open_reader", lambda _: nullcontext())
    monkeypatch.setattr(seat_needs, "as_reader", lambda *_: None)
    monkeypatch.setattr(seat_needs, "fetch_program", fetch)
    words = (config, HOME, SeatRole.SOLVER, state, TASK)
    if is_own:
        await find_room(*words)
        return
    with pytest.raises(EnvironmentFault, match="the disk has too little room for a solver"):
        await find_room(*words)
    monkeypatch.setattr(
        "touchstone.scripts.seats.seat_needs.shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 40)
    )
    await find_room(*words)
    with pytest.raises(InvalidInput, match="more disk than this home allows"):
        await find_room(config, replace(HOME, disk_mb=1_000_000), *words[2:])


def test_files_that_go_while_a_home_is_measured_are_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of the home runs, and `touchstone doctor` looks: it said that the disk refuses a file."""
    (tmp_path / "folder").mkdir()
    for name in ("stays", "goes", "also goes"):
        (tmp_path / "folder" / name).write_bytes(bytes(1_000))
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    get_view, gone = os.lstat, list[str]()

    def look_and_delete(path: Any, **options: Any) -> os.stat_result:
        """One goes after the first look at it, the other before."""
        name = Path(str(path)).name
        if name == "also goes" and name not in gone:
            gone.append(name)
            os.unlink(path)
        found = get_view(path, **options)
        if name == "goes" and name not in gone:
            gone.append(name)
            os.unlink(path)
        return found

    monkeypatch.setattr(os, "lstat", look_and_delete)
    monkeypatch.setattr(os, "stat", look_and_delete)
    assert 2_000 <= seat_needs.measure_kept_bytes(tmp_path) < 2_200 and len(gone) == 2


def test_a_solver_is_told_the_same_figure_of_disk_as_the_submitter() -> None:
    """With the dataset and the step."""
    count, task_bytes = POSTED.parameter_count, compute_task_bytes(TRAINING, COSTS)
    step = (TRAINING.program, TRAINING.layout)
    assert task_bytes == len(make_dataset()) + COSTS.constant_bytes + sum(one.size_bytes for one in step)
    assert need(SeatRole.SOLVER).disk_bytes == compute_disk_bytes(TERMS, count, task_bytes)


def test_each_process_of_a_node_takes_memory_and_a_limit_moves_its_tensors_to_the_disk() -> None:
    step_bytes = COSTS.step_bytes + STATES_BYTES * COSTS.parameters
    assert step_bytes > STATES_BYTES * POSTED.parameter_count
    solver, verifier = need(SeatRole.SOLVER), need(SeatRole.VERIFIER)
    assert solver.memory_bytes == verifier.memory_bytes == PROCESS_BYTES + step_bytes
    assert need(SeatRole.SOLVER, workers=2, replay_processes=5).memory_bytes == 3 * solver.memory_bytes
    assert need(SeatRole.VERIFIER, workers=2, replay_processes=5).memory_bytes == 6 * solver.memory_bytes
    assert need(SeatRole.VERIFIER, replay_processes=5, executor="ray").memory_bytes == solver.memory_bytes
    limited = need(SeatRole.SOLVER, workers=2, memory_mb=9_000)
    assert limited.memory_bytes == 3 * PROCESS_BYTES
    assert limited.disk_bytes == solver.disk_bytes + 3 * step_bytes
    on_a_card = need(SeatRole.SOLVER, device="cuda").memory_bytes
    assert on_a_card == PROCESS_BYTES + STATES_BYTES * POSTED.parameter_count


def test_an_auditor_keeps_more_where_fewer_audit_and_longer_where_it_may_be_asked_longer() -> None:
    """A task without late audits asks its whistleblowers for none: they keep what roots are made of."""
    plain = compute_audit_bytes(TERMS, 64_000, SeatRole.VERIFIER)
    more = replace_terms(TERMS, least_verifiers=1)
    assert compute_audit_bytes(more, 64_000, SeatRole.VERIFIER) == 2 * plain, "four audits instead of two"
    many = replace_terms(TERMS, rounds=1_000)
    long = replace_terms(many, windows=replace_terms(TERMS.windows, query=9_000))
    kept = [compute_audit_bytes(one, 64_000, SeatRole.VERIFIER) for one in (TERMS, many, long)]
    assert kept == sorted(kept) and kept[0] < kept[1] < kept[2]
    late = compute_audit_bytes(TERMS, 64_000, SeatRole.WHISTLEBLOWER)
    none = compute_audit_bytes(replace_terms(TERMS, late_chance=0), 64_000, SeatRole.WHISTLEBLOWER)
    assert 0 < none < late


def test_who_has_a_seat_is_not_kept_from_its_work_by_a_limit(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence would cost more than a full disk."""
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    edit_config(operators.home_of("alice"), "disk_mb", 1)
    monkeypatch.setattr(seat_session, "RUN_ROLE", "tests.scripts.test_role_commands:play_left")
    assert "going on as verifier 0" in operators.run("alice", "verify", task[:8])


def test_a_nice_level_that_is_none_is_refused(operators: Operators) -> None:
    assert main(["solve", "0x00", "--nice", "20"]) == 2
    assert "'--nice': expected a whole number from 0 to 19, got '20'" in operators.capsys.readouterr().err
    home = operators.home_of("alice")
    edit_config(home, "nice", -1)
    assert "config.toml, nice" in fail(operators.capsys, "solve", "0x00", "--home", str(home))[0]


@pytest.mark.parametrize(
    ("words", "keys", "nice"),
    [
        ((), {}, 0),
        (("--nice", "4"), {"nice": 9}, 4),
        ((), {"nice": 9}, 9),
        (("--when-idle",), {}, 19),
        ((), {"when_idle": True}, 19),
        (("--when-idle", "--nice", "3"), {"nice": 9}, 3),
    ],
)
def test_a_node_takes_its_nice_level_and_its_machine_from_options_then_from_its_home(
    operators: Operators,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    keys: dict[str, object],
    nice: int,
) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    for key, value in keys.items():
        edit_config(operators.home_of("alice"), key, value)
    made, levels, uses = Machine(tmp_path / "machine"), list[int](), list[MachineUse | None]()
    made.add_process(os.getpid())
    monkeypatch.setattr(machine_use, "PLACES", made.places)
    monkeypatch.setattr(seat_session, "lower_priority", levels.append)

    async def note(role: SeatRole, config: NodeConfig, task: bytes, request: SeatRequest) -> bool:
        assert role is SeatRole.VERIFIER and request.is_held, "no other seat is agreed on"
        uses.append(config.use)
        return True

    monkeypatch.setattr(seat_session, "resolve_name", lambda name: note)
    operators.run("alice", "verify", task[:8], *words)
    is_pausing = nice == 19 or "--when-idle" in words
    assert levels == [nice] and [one is not None for one in uses] == [is_pausing]
    if uses[0] is not None:
        assert (uses[0].idle_s, uses[0].cores) == (900, 0.5)


# While somebody uses the machine
def test_a_node_is_told_what_is_seen_of_its_machine_and_its_operator_what_that_costs(
    operators: Operators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, reasons = Machine(tmp_path / "machine"), list[str]()
    made.add_process(os.getpid())
    monkeypatch.setattr(machine_use, "PLACES", made.places)
    monkeypatch.setattr(machine_use, "LOOK_S", 0.0)
    monkeypatch.setattr(seat_session, "lower_priority", lambda nice: None)

    async def type_until_it_is_seen(
        role: SeatRole, config: NodeConfig, task: bytes, request: SeatRequest
    ) -> bool:
        assert config.use is not None and not request.is_held
        at_s = 1_000.0
        while not config.use.is_used:
            made.type_in("pts/1", at_s := at_s + 1)
            await asyncio.sleep(0.01)
        reasons.append(config.use.reason)
        return False

    monkeypatch.setattr(seat_session, "resolve_name", lambda name: type_until_it_is_seen)
    monkeypatch.setattr(seat_agreement, "refuse_bad_money", lambda *_: None)
    task = operators.post_task("submitter")
    said = operators.run("alice", "verify", task[:8], "--yes", "--when-idle")
    assert reasons == ["somebody types in a terminal"]
    assert "while somebody uses the machine the node pauses: a claim that is too late costs a fee" in said


def test_a_machine_that_does_not_tell_how_it_is_used_is_refused(
    operators: Operators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a password is asked for. The work of a Ray looks like that of somebody else."""
    made = Machine(tmp_path / "machine")
    made.add_process(os.getpid())
    monkeypatch.setattr(machine_use, "PLACES", made.places)
    made.place("pid:[4026532300]")
    lines = operators.fail("alice", "solve", "0x00", "--when-idle")
    assert "does not show whether somebody uses the machine" in lines[0] and "container" in lines[2]
    monkeypatch.setattr(node_config, "load_ray", lambda address: None)
    lines = operators.fail("alice", "verify", "0x00", "--when-idle", "--executor", "ray")
    assert "look like the use of the machine by somebody else" in lines[0]
