"""What is shown when: an end state before its opening would let an auditor copy it."""

from dataclasses import replace

import pytest

from protocol.actions.shelf import Shelf
from protocol.adapters.blobs import TRACE_KINDS, BlobKey, BlobKind
from protocol.spec import events
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault
from tests.protocol.actions.facts import (
    ALICE,
    BOB,
    END,
    LAST,
    MALLORY,
    START,
    TASK,
    at,
    commit,
    create_task,
    open_end,
    open_start,
    start_round,
)
from tests.protocol.spec.simulator import make_word


def make_shelf(*found: events.Event, account: str = ALICE) -> Shelf:
    shelf = Shelf(account, lambda reader: reader == BOB)
    for event in found:
        shelf.take(event)
    return shelf


def shows(shelf: Shelf, header: StateHeader, reader: str = BOB) -> bool:
    roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
    found = {shelf.may_read(reader, BlobKind.TENSOR, root) for root in roots}
    assert len(found) == 1, "a state is shown as a whole"
    return found.pop()


def test_a_commitment_shows_nothing() -> None:
    shelf = make_shelf(commit(ALICE))
    assert not any(shows(shelf, state) for state in (START, END, LAST))
    assert not shelf.may_read(BOB, BlobKind.DELTA, make_word("delta", 0))


def test_the_end_stays_hidden_until_it_is_opened() -> None:
    shelf = make_shelf(commit(ALICE), open_start())
    assert shows(shelf, START) and not shows(shelf, END) and not shows(shelf, LAST)
    shelf.take(open_end())
    assert shows(shelf, END) and shows(shelf, LAST)


def test_the_pseudo_gradient_is_for_anybody_with_the_end() -> None:
    shelf, root = make_shelf(commit(ALICE), open_start()), make_word("delta", 0)
    assert not shelf.may_read(MALLORY, BlobKind.DELTA, root)
    shelf.take(open_end())
    assert shelf.may_read(MALLORY, BlobKind.DELTA, root)


def test_states_are_for_the_staked_only() -> None:
    shelf = make_shelf(commit(ALICE), open_start())
    assert shows(shelf, START) and not shows(shelf, START, reader=MALLORY)


def test_openings_of_others_oblige_to_nothing() -> None:
    shelf = make_shelf(commit(BOB), commit(ALICE, slot=1), open_start(), open_end())
    assert not any(shows(shelf, state) for state in (START, END, LAST))


def test_an_auditor_shows_its_result_once_revealed() -> None:
    revealed = events.Revealed(**at(8), draw=0, rank=0, auditor=ALICE, end=END)
    assert not shows(make_shelf(), END) and shows(make_shelf(revealed), END)
    assert not shows(make_shelf(revealed, account=MALLORY), END)


@pytest.mark.parametrize(("kind", "is_public"), [(BlobKind.DATASET, True), (BlobKind.TENSOR, False)])
def test_public_kinds_need_no_event(kind: BlobKind, is_public: bool) -> None:
    assert make_shelf().may_read(MALLORY, kind, bytes(32)) is is_public


def test_a_reorg_takes_back_what_events_showed_but_not_the_global_model() -> None:
    shelf = make_shelf(commit(ALICE), open_start(), open_end())
    shelf.join(TASK)
    shelf.show_tensor(TASK, make_word("model"))
    shelf.forget()
    assert not any(shows(shelf, state) for state in (START, END, LAST))
    assert shelf.may_read(BOB, BlobKind.TENSOR, make_word("model"))
    shelf.take(open_start())
    assert not shows(shelf, START), "the claim is forgotten with its event"


# --- the global model -------------------------------------------------------------------------------------
SUBMITTER = create_task().submitter
MODEL = (make_word("W"), make_word("M"))
OTHER = make_word("another task")


def post(*roots: bytes, poster: str = MALLORY, block: int = 21, task: bytes = TASK) -> events.OuterPosted:
    where = {"block_number": block, "task": task, "round": 0, "poster": poster, "included": 1}
    return events.OuterPosted(**where, weights_root=roots[0], momentum_root=roots[1])  # type: ignore[arg-type]


def settle(block: int = 30, task: bytes = TASK) -> events.MergeSettled:
    return events.MergeSettled(block_number=block, task=task, round=0, poster=MALLORY)


def make_joined(*found: events.Event) -> Shelf:
    shelf = make_shelf(create_task(), start_round(), *found)
    shelf.join(TASK)
    return shelf


def list_readers(shelf: Shelf, *roots: bytes) -> set[str]:
    """Which of a stranger, the submitter and a staked account read these tensors."""
    found = {one for one in (MALLORY, SUBMITTER, BOB) for root in roots if shelf.may_read(one, *tensor(root))}
    assert all(shelf.may_read(one, *tensor(root)) for one in found for root in roots), "W and M alike"
    return found


def tensor(root: bytes) -> tuple[BlobKind, bytes]:
    return BlobKind.TENSOR, root


def test_a_settled_model_is_for_anybody() -> None:
    shelf = make_joined(post(*MODEL))
    assert not list_readers(shelf, *MODEL)
    shelf.take(settle())
    assert list_readers(shelf, *MODEL) == {MALLORY, SUBMITTER, BOB}


def test_a_round_starts_from_a_model_that_nothing_replaces() -> None:
    shelf = make_joined()
    started = start_round()
    assert list_readers(shelf, started.weights_root, started.momentum_root) == {MALLORY, SUBMITTER, BOB}


def test_before_it_is_settled_a_model_is_for_the_staked_and_for_whoever_pays_for_it() -> None:
    shelf = make_joined(post(*MODEL))
    for root in MODEL:
        shelf.show_tensor(TASK, root)
    assert list_readers(shelf, *MODEL) == {SUBMITTER, BOB}


def test_a_submitter_reads_the_model_of_its_own_task_only() -> None:
    shelf = make_joined(replace(create_task(), task=OTHER, submitter=MALLORY))
    shelf.join(OTHER)
    shelf.show_tensor(TASK, MODEL[0])
    assert list_readers(shelf, MODEL[0]) == {SUBMITTER, BOB}
    shelf.show_tensor(OTHER, MODEL[1])
    assert list_readers(shelf, MODEL[1]) == {MALLORY, BOB}


def test_what_was_replaced_in_a_contest_is_not_settled() -> None:
    rival = (make_word("rival W"), make_word("rival M"))
    shelf = make_joined(post(*MODEL), post(*rival, block=25), settle())
    assert not list_readers(shelf, *MODEL) and MALLORY in list_readers(shelf, *rival)


def test_a_settled_model_shows_no_other_kind_and_no_other_root() -> None:
    shelf = make_joined(commit(ALICE), open_start(), open_end(), post(*MODEL), settle())
    others = [BlobKey(kind, MODEL[0]) for kind in (BlobKind.DELTA, BlobKind.ROOTS, *TRACE_KINDS)]
    assert not any(shelf.may_read(MALLORY, key.kind, key.root) for key in others)
    assert not any(shows(shelf, state, reader=MALLORY) for state in (START, END, LAST))
    assert not any(shows(shelf, state, reader=SUBMITTER) for state in (START, END, LAST))


def test_a_task_that_this_node_does_not_work_on_opens_nothing() -> None:
    """Whoever posts a task of its own could name the root of a state as its model's."""
    other = replace(create_task(), task=OTHER, submitter=MALLORY)
    shelf = make_joined(other, post(END.weights_root, LAST.weights_root, task=OTHER), settle(task=OTHER))
    assert not list_readers(shelf, END.weights_root, LAST.weights_root)


def test_a_restarted_poster_shows_its_model_to_those_who_saw_it_before() -> None:
    shelf = make_joined(post(*MODEL, poster=ALICE))
    assert list_readers(shelf, *MODEL) == {SUBMITTER, BOB}


def test_a_reorg_takes_back_that_a_model_is_settled() -> None:
    shelf = make_joined(post(*MODEL), settle())
    shelf.forget()
    for event in (create_task(), start_round(), post(*MODEL)):
        shelf.take(event)
    assert not list_readers(shelf, *MODEL)
    shelf.take(settle(block=40))
    assert MALLORY in list_readers(shelf, *MODEL), "the task is still this node's"


# --- the trace of a disputed step -------------------------------------------------------------------------
TRACE, OTHER_TRACE = make_word("trace"), make_word("another trace")
TRACED = (make_word("buffer", 0), make_word("buffer", 1))
TENSORS = [BlobKey(kind, root) for kind in TRACE_KINDS for root in TRACED]
ALL_TRACED = (BlobKey(BlobKind.ROOTS, TRACE), *TENSORS)


def make_tracing_shelf() -> tuple[Shelf, list[bytes]]:
    """A shelf before a store with one trace, and what it has asked the store for."""
    asked: list[bytes] = []

    def get_roots(trace_root: bytes) -> tuple[bytes, ...]:
        asked.append(trace_root)
        return TRACED if trace_root == TRACE else ()

    return Shelf(ALICE, lambda reader: reader == BOB, get_roots), asked


def shows_trace(shelf: Shelf, reader: str = BOB) -> bool:
    found = {shelf.may_read(reader, key.kind, key.root) for key in ALL_TRACED}
    assert len(found) == 1, "a trace is shown as a whole"
    return found.pop()


def test_a_trace_and_its_states_are_shown_from_its_event_on() -> None:
    shelf, asked = make_tracing_shelf()
    assert not shows_trace(shelf) and not shows(shelf, START) and not shows(shelf, END)
    assert not asked, "nothing is read that is not shown"
    shelf.show_trace(TRACE, START, END)
    assert shows_trace(shelf) and shows(shelf, START) and shows(shelf, END) and not shows(shelf, LAST)
    assert asked == [TRACE], "the list is read once"


def test_a_trace_is_for_the_staked_only() -> None:
    shelf, _ = make_tracing_shelf()
    shelf.show_trace(TRACE, START, END)
    assert not shows_trace(shelf, reader=MALLORY) and not shows(shelf, END, reader=MALLORY)


def test_a_trace_shows_nothing_that_is_not_in_it() -> None:
    shelf, _ = make_tracing_shelf()
    shelf.show_trace(TRACE, START, END)
    assert not shelf.may_read(BOB, BlobKind.ROOTS, OTHER_TRACE)
    assert not shelf.may_read(BOB, BlobKind.TRACE_4096, TRACE)
    assert not shelf.may_read(BOB, BlobKind.TRACE_4096, make_word("buffer", 2))
    assert not shelf.may_read(BOB, BlobKind.TENSOR, TRACED[0]), "a root of a trace opens no state"
    assert not shelf.may_read(BOB, BlobKind.TRACE_1024, LAST.weights_root)


def test_a_trace_that_comes_into_the_store_later_is_shown_then() -> None:
    stored: dict[bytes, tuple[bytes, ...]] = {}
    shelf = Shelf(ALICE, lambda reader: True, lambda trace_root: stored.get(trace_root, ()))
    shelf.show_trace(TRACE, START, END)
    assert not shelf.may_read(BOB, BlobKind.TRACE_512, TRACED[0])
    stored[TRACE] = TRACED
    assert shows_trace(shelf)


def test_a_damaged_list_of_roots_hides_the_trace() -> None:
    def get_roots(trace_root: bytes) -> tuple[bytes, ...]:
        raise EnvironmentFault(what="damaged", expected="", actual="", remedy="")

    shelf = Shelf(ALICE, lambda reader: True, get_roots)
    shelf.show_trace(TRACE, START, END)
    assert not shelf.may_read(BOB, BlobKind.TRACE_512, TRACED[0])


def test_a_reorg_takes_a_trace_back() -> None:
    shelf, _ = make_tracing_shelf()
    shelf.show_trace(TRACE, START, END)
    assert shows_trace(shelf)
    shelf.forget()
    assert not shows_trace(shelf) and not shows(shelf, START)
