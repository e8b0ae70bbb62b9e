"""A task from its creation on."""

from protocol.spec.events import Enrolled, RoundStarted, TaskClosed, TaskCreated
from protocol.spec.statuses import Role
from protocol.spec.task import process_task_event, start_task
from tests.protocol.spec.simulator import make_terms, make_word

TASK = make_word("task")


def start(number: int, block: int) -> RoundStarted:
    return RoundStarted(
        block_number=block, task=TASK, round=number, start_block=block, weights_root=b"w", momentum_root=b"m"
    )


def test_rounds_follow_each_other_and_keep_their_events() -> None:
    created = TaskCreated(block_number=1, task=TASK, submitter="0xa", terms=make_terms(), training=b"t")
    state = start_task(make_word("domain"), created)
    assert state.current is None
    state = process_task_event(state, start(0, 1))
    enrolled = Enrolled(block_number=2, task=TASK, round=0, role=Role.SOLVER, account="0xb", index=0)
    state = process_task_event(process_task_event(state, enrolled), start(1, 50))
    first, second = state.rounds
    assert first.is_advanced and first.solvers == ("0xb",)
    assert (second.index, second.start_block, second.solvers) == (1, 50, ())
    assert state.current is second


def test_a_round_out_of_order_is_not_taken() -> None:
    created = TaskCreated(block_number=1, task=TASK, submitter="0xa", terms=make_terms(), training=b"t")
    state = start_task(make_word("domain"), created)
    assert process_task_event(state, start(1, 9)).rounds == ()


def test_closing_is_for_the_own_task() -> None:
    created = TaskCreated(block_number=1, task=TASK, submitter="0xa", terms=make_terms(), training=b"t")
    state = start_task(make_word("domain"), created)
    other = TaskClosed(block_number=2, task=make_word("other"), refund_wei=1)
    assert not process_task_event(state, other).is_closed
    assert process_task_event(state, TaskClosed(block_number=2, task=TASK, refund_wei=1)).is_closed
