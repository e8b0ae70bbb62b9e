"""Which model an account may export, and what it is told where it may have none."""

from dataclasses import replace

import pytest

from node.export import choose, choose_newest, explain_refusal
from protocol.spec import events
from protocol.spec.containers import OuterHeader
from protocol.spec.events import Event
from protocol.spec.round import get_merge_by
from protocol.spec.task import TaskState, process_task_event, start_task
from tests.protocol.actions.facts import ALICE, BOB, MALLORY, TASK, create_task, start_round
from tests.protocol.spec.simulator import make_word

SUBMITTER = create_task().submitter
FIRST = create_task().terms.initial_weights_root
NEXT, LAST = (make_word("W", index) for index in (1, 2))
EMPTY = bytes(32)


def start(index: int, weights: bytes, block: int = 2) -> events.RoundStarted:
    return replace(start_round(block, index), weights_root=weights, momentum_root=EMPTY)


def post(index: int, weights: bytes, block: int = 50) -> list[Event]:
    where = {"block_number": block, "task": TASK, "round": index, "weights_root": weights}
    return [
        events.OuterPosted(**where, momentum_root=EMPTY, poster=ALICE, included=1),  # type: ignore[arg-type]
        events.RoundMerged(**where, momentum_root=EMPTY, ready_block=block + 7),  # type: ignore[arg-type]
    ]


def settle(index: int) -> events.MergeSettled:
    return events.MergeSettled(block_number=60, task=TASK, round=index, poster=ALICE)


def fold(*found: Event) -> TaskState:
    state = start_task(bytes(32), create_task())
    for event in found:
        state = process_task_event(state, event)
    return state


POSTED = (start(0, FIRST), *post(0, NEXT))
RUNNING = (*POSTED, start(1, NEXT, block=70))
CASES: list[tuple[tuple[Event, ...], bytes, bytes | None]] = [
    ((start(0, FIRST),), FIRST, None),
    (POSTED, NEXT, None),
    ((*POSTED, settle(0)), NEXT, NEXT),
    (RUNNING, NEXT, NEXT),
    ((*RUNNING, *post(1, LAST, block=90)), LAST, NEXT),
    ((*RUNNING, *post(1, LAST, block=90), settle(1)), LAST, LAST),
    # A round in which nobody trained.
    ((start(0, FIRST), start(1, FIRST, block=70)), FIRST, None),
]


@pytest.mark.parametrize(("found", "newest", "settled"), CASES)
def test_who_has_a_stake_or_pays_exports_the_newest_model_and_anybody_the_settled_one(
    found: tuple[Event, ...], newest: bytes, settled: bytes | None
) -> None:
    state = fold(*found)
    for account, is_staked in ((BOB, True), (SUBMITTER, False)):
        choice = choose(state, account, is_staked)
        assert choice is not None and choice.header == OuterHeader(newest, EMPTY)
    choice = choose(state, MALLORY, is_staked=False)
    assert (None if choice is None else choice.header) == (settled and OuterHeader(settled, EMPTY))


def test_a_model_says_after_which_round_it_is() -> None:
    assert str(choose_newest(fold(start(0, FIRST)))) == "the model before any training"
    assert str(choose_newest(fold(*RUNNING))) == "the model after round 0"


def test_a_stranger_is_told_what_to_do() -> None:
    state = fold(start(0, FIRST))
    due = get_merge_by(state.rounds[0]) + state.terms.windows.merge
    refusal = explain_refusal(state, 10)
    assert f"until round 0 is settled, at about block {due} (it is 10 now)" in refusal.remedy
    assert "stake" in refusal.remedy and "submitter" in refusal.remedy
    assert "at about block 57 " in explain_refusal(fold(*POSTED), 10).remedy, "its root is posted"
    assert "at about block 101 " in explain_refusal(fold(*POSTED), 100).remedy, "it waits for a transaction"


def test_nothing_is_promised_of_a_closed_task() -> None:
    closed = events.TaskClosed(block_number=99, task=TASK, refund_wei=0)
    refusal = explain_refusal(fold(start(0, FIRST), closed), 100)
    assert "closed" in str(refusal.actual) and "until" not in refusal.remedy
