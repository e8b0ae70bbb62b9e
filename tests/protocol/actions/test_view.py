"""The fold of all events, and its refold where a reorg voids some of them."""

from dataclasses import replace
from typing import Any

from protocol.actions.view import View
from protocol.adapters.blobs import BlobKind
from protocol.spec import game_events
from protocol.spec.contest import Turn
from protocol.spec.statuses import AuditRef, ClaimRef, Stage
from tests.protocol.actions.facts import (
    ALICE,
    BOB,
    END,
    START,
    TASK,
    announce,
    commit,
    create_task,
    deposit,
    enrol,
    make_batch,
    open_end,
    open_start,
    start_round,
)
from tests.protocol.spec.simulator import make_word


def make_view() -> View:
    return View(ALICE, 31337, "0x" + 40 * "5")


BEGINNING = (announce(BOB), deposit(BOB), create_task(), start_round(), enrol(ALICE))


def test_a_task_is_folded_with_its_rounds() -> None:
    view = make_view()
    view.take(make_batch(3, *BEGINNING))
    [state] = view.tasks[TASK].rounds
    assert state.solvers == (ALICE,) and view.head_block == 3
    assert view.network.is_staked(BOB) and view.disputes[TASK].task == TASK


def test_batches_fold_as_one_batch_does() -> None:
    at_once, piecemeal = make_view(), make_view()
    at_once.take(make_batch(3, *BEGINNING))
    for event in BEGINNING:
        piecemeal.take(make_batch(event.block_number, event))
    assert (at_once.tasks, at_once.network, at_once.events) == (
        piecemeal.tasks,
        piecemeal.network,
        piecemeal.events,
    )


def test_a_reorg_leaves_what_a_fresh_node_sees() -> None:
    view, fresh = make_view(), make_view()
    view.take(make_batch(7, *BEGINNING, commit(ALICE), open_start(), open_end(), deposit(BOB, block=7)))
    again = enrol(BOB, block=6, index=1)
    view.take(make_batch(6, again, forget_from=5))
    fresh.take(make_batch(6, *BEGINNING, again))
    assert view.events == fresh.events and view.tasks == fresh.tasks and view.disputes == fresh.disputes
    assert view.network == fresh.network
    assert not view.shelf.may_read(BOB, BlobKind.TENSOR, END.weights_root)


def test_only_new_events_are_told() -> None:
    view = make_view()
    view.take(make_batch(3, *BEGINNING))
    assert view.take(make_batch(5, commit(ALICE), forget_from=4)) == [commit(ALICE)]


def test_the_shelf_knows_traces_from_the_store_of_the_node() -> None:
    view = View(ALICE, 31337, "0x" + 40 * "5", lambda trace_root: (b"b" * 32,))
    view.take(make_batch(3, *BEGINNING))
    view.shelf.show_trace(b"t" * 32, START, END)
    assert view.shelf.may_read(BOB, BlobKind.TRACE_4096, b"b" * 32)
    view.take(make_batch(3, forget_from=3))
    assert not view.shelf.may_read(BOB, BlobKind.TRACE_4096, b"b" * 32)


def test_an_event_moves_its_own_task_alone() -> None:
    """Anybody posts tasks; were each event compared with all of them, a few thousand would stop all nodes."""
    view, other = make_view(), make_word("another task")
    view.take(
        make_batch(2, *BEGINNING, replace(create_task(), task=other), replace(start_round(), task=other))
    )
    before, book = view.tasks[other], view.disputes[other]
    claim = ClaimRef(AuditRef(TASK, 0, 0, 0, 0), segment=0, by_solver=True)
    opened = game_events.DisputeOpened(
        block_number=8, dispute=make_word("dispute"), claim=claim, claimant=ALICE, opener=BOB, bond_wei=1
    )
    active = game_events.DisputeActivated(block_number=9, dispute=opened.dispute, clock_block=30)
    view.take(make_batch(9, commit(ALICE), deposit(BOB, block=7), opened, active))
    assert view.tasks[other] is before and view.disputes[other] is book
    assert view.disputes[TASK].disputes[opened.dispute].stage == Stage.ROOTS
    assert view.tasks[TASK].rounds[0].open_disputes == {opened.dispute: 0}
    closed = game_events.DisputeClosed(block_number=10, dispute=opened.dispute)
    view.take(make_batch(10, closed))
    assert view.tasks[TASK].rounds[0].open_disputes == {}
    view.take(make_batch(10, forget_from=10))
    assert view.tasks[TASK].rounds[0].open_disputes == {opened.dispute: 0}


def test_a_contest_is_followed_to_its_end() -> None:
    view = make_view()
    where: dict[str, Any] = {"task": TASK, "round": 0, "rival": BOB}
    roots: dict[str, Any] = {"weights_root": bytes(32), "momentum_root": bytes(32)}
    opened = game_events.Contested(block_number=8, **where, **roots, tensor=0, clock_block=20)
    view.take(make_batch(8, *BEGINNING, opened))
    assert view.contests[TASK, 0, BOB].turn == Turn.POSTER
    ended = game_events.ContestEnded(block_number=9, **where, loser=ALICE, reason=bytes(32))
    view.take(make_batch(9, ended))
    assert view.contests[TASK, 0, BOB].turn == Turn.NONE
