"""What the benchmark of strangers sees and holds for shown; how long anything takes is not asked."""

import asyncio
import json
import os
import socket
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from lab.benchmarks.strangers import (
    MOST_GROWTH_BYTES,
    MOST_LOG_BYTES,
    MOST_SOCKETS,
    Course,
    Seen,
    count_sockets,
    judge,
    read_memory_bytes,
    wait_for_round,
)

USUAL_S = [10.0, 11.0, 12.0]


def make_seen(**changes: object) -> Seen:
    return Seen(answers=Counter({"206": 30}), **changes)  # type: ignore[arg-type]


def test_what_holds() -> None:
    assert all(judge(make_seen(), make_seen(), USUAL_S, USUAL_S, Counter({"ACCEPT": 9})).values())


@pytest.mark.parametrize(
    ("name", "disturbed", "words", "disturbed_s"),
    [
        ("no auditor says UNSERVED", make_seen(), Counter({"UNSERVED": 1}), USUAL_S),
        ("sockets", make_seen(sockets=MOST_SOCKETS + 1), Counter(), USUAL_S),
        ("memory", make_seen(memory_bytes=MOST_GROWTH_BYTES + 1), Counter(), USUAL_S),
        ("log", make_seen(log_bytes=MOST_LOG_BYTES + 1), Counter(), USUAL_S),
        ("round time", make_seen(), Counter(), [17.0]),
        ("every member's request is answered", Seen(answers=Counter({"TimeoutError": 1})), Counter(), [1.0]),
    ],
)
def test_what_does_not(name: str, disturbed: Seen, words: Counter[str], disturbed_s: list[float]) -> None:
    held = judge(make_seen(), disturbed, USUAL_S, disturbed_s, words)
    assert [one for one, holds in held.items() if not holds] == [name]


def test_what_was_seen_can_be_written() -> None:
    assert json.loads(json.dumps(make_seen().to_json()))["answers"] == {"206": 30}


def test_a_refused_member_is_seen() -> None:
    held = judge(make_seen(), Seen(answers=Counter({"429": 1})), USUAL_S, USUAL_S, Counter())
    assert not held["no 429 for a member"] and not held["every member's request is answered"]


def test_a_process_is_looked_at_from_outside() -> None:
    before = count_sockets(os.getpid())
    with socket.socket(), socket.socket():
        assert count_sockets(os.getpid()) == before + 2
    assert read_memory_bytes(os.getpid()) > 2**20
    assert count_sockets(2**22 + 1) == read_memory_bytes(2**22 + 1) == 0


def test_a_round_lasts_until_the_next_opens() -> None:
    course = Course(opened={0: 0.0, 1: 5.0, 2: 7.0, 4: 20.0})
    assert course.list_times(0, 3) == [5.0, 2.0]


def test_a_task_that_closes_early_ends_the_run() -> None:
    """The run once waited for ever for a round that could not open any more."""
    game = SimpleNamespace(is_closed=True)
    show: Any = SimpleNamespace(
        watch=SimpleNamespace(state=SimpleNamespace(games={b"task": game}), game=game)
    )
    course = Course(opened={0: 0.0})
    asyncio.run(wait_for_round(show, course, 0))
    with pytest.raises(RuntimeError, match="closed before round 1 opened: expected 28 rounds, got 1"):
        asyncio.run(wait_for_round(show, course, 1))
