"""What is said of a task and of its seats, by the machine's own states."""

import pytest

from explorer.task_documents import count_sitting, tell_phase
from protocol.spec.errors import InvalidInput
from protocol.spec.game import calls
from protocol.spec.game.state import SeatRole
from scripts.tasks import is_task_closable, list_open, pick_task, tell_missing
from tests.protocol.spec.game.test_posting import make_judged
from tests.protocol.spec.game.world import SUBMITTER, World, make_quiet_world, make_world, post

TASKS = [bytes.fromhex("3fa9" + 60 * "0"), bytes.fromhex("3fb0" + 60 * "0")]


def tell(world: World) -> str:
    return tell_phase(world.state, world.block + 1)


def test_a_task_is_named_by_its_first_digits() -> None:
    assert pick_task(TASKS, "0x3fa") == TASKS[0] and pick_task(TASKS, "3FB0") == TASKS[1]
    for name, what in (("3f", "several"), ("", "unknown"), ("0x", "unknown"), ("4", "unknown")):
        with pytest.raises(InvalidInput, match=what) as refusal:
            pick_task(TASKS, name)
        assert "0x3fa900000000" in str(refusal.value.expected)
    with pytest.raises(InvalidInput) as refusal:
        pick_task([], "3fa9")
    assert refusal.value.what == "unknown task: none was ever posted"
    assert "rpc_url" in refusal.value.remedy and "one of" not in str(refusal.value.expected)


def test_a_task_says_what_it_does() -> None:
    world = make_quiet_world(rounds=1)
    assert tell(world) == "training" and "round 0: training" in list_open(world.state, world.block + 1)
    judged = make_judged(rounds=1)
    assert tell(judged) == "audits"
    post(judged, (0, 1), (0, 1, 2))
    assert tell(judged) == "over", "no round is to come"
    assert not is_task_closable(judged.state, judged.block + 1)
    assert list(list_open(judged.state, judged.block + 1)) == [
        f"seats that were not paid out: {len(judged.state.seats)}"
    ]


def test_a_halted_task_is_over_after_its_round() -> None:
    world = make_judged(rounds=2)
    world.send(calls.HaltTask(), SUBMITTER)
    assert tell(world) == "audits"
    post(world, (0, 1), (0, 1, 2))
    assert tell(world) == "halted"


def test_who_is_missing_is_counted_by_role() -> None:
    world = make_world(solvers=0, verifiers=1, whistleblowers=3)
    assert tell(world) == "stands still"
    assert tell_missing(world.state) == "1 more solver, 2 more verifiers"
    assert [count_sitting(world.state, role) for role in SeatRole] == [0, 1, 3]


def test_a_task_that_was_played_to_its_end_is_closed() -> None:
    world = make_world(rounds=1)
    world.play()
    assert world.state.is_closed and tell(world) == "closed"
    assert not list(list_open(world.state, world.block + 1))
