"""The state of a dispute: clocks, demands, the end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.spec.clock import NEVER
from protocol.spec.dispute import Demand, PostedTrace, count_queue, process_dispute_event
from protocol.spec.dispute_moves import (
    NameStep,
    PostStepRoots,
    PostTrace,
    Timeout,
    get_next_dispute_deadline,
)
from protocol.spec.game_events import DisputeClosed
from protocol.spec.statuses import Stage
from tests.protocol.spec.dispute_play import (
    CLAIMANT,
    FIRST_BLOCK,
    OTHER,
    SENDERS,
    A,
    B,
    DisputeScript,
    DisputeSimulator,
    Seal,
    Turn,
    make_step_header,
)
from tests.protocol.spec.dispute_scripts import (
    NAMED,
    OPENED,
    ROOTED,
    SCRIPTS,
    TRACED,
    answer,
    demand,
    opening,
    operation,
    scalar,
    token,
)
from tests.protocol.spec.simulator import make_word


def play(turns: tuple[Turn, ...]) -> DisputeSimulator:
    sim = DisputeSimulator()
    for block, sender, action in turns:
        assert sim.send(action, SENDERS[sender], FIRST_BLOCK + block) is None
    return sim


def test_clocks_of_the_stages() -> None:
    opened = play(OPENED).book.disputes[A]
    assert (opened.stage, opened.clock_block) == (Stage.ROOTS, FIRST_BLOCK + 6)
    rooted = play(ROOTED).book.disputes[A]
    assert (rooted.stage, rooted.clock_block) == (Stage.NAME, FIRST_BLOCK + 7)
    named = play(NAMED).book.disputes[A]
    assert (named.stage, named.clock_block, named.step) == (Stage.TRACE, FIRST_BLOCK + 8, 1)
    traced = play(TRACED).book.disputes[A]
    assert (traced.stage, traced.clock_block) == (Stage.PROVE, FIRST_BLOCK + 12)


def test_a_trace_is_kept_with_the_states_around_its_step() -> None:
    trace = play(TRACED).book.disputes[A].trace
    assert trace == PostedTrace(make_word("trace"), make_step_header(1), make_step_header(2))
    assert play(NAMED).book.disputes[A].trace is None


def test_demands_are_on_their_turn_one_by_one() -> None:
    turns: tuple[Turn, ...] = (*TRACED, (5, "opener", demand()), (6, "other", demand(1, 2, 3)))
    state = play(turns).book.disputes[A]
    assert state.demands[1] == Demand(OTHER, 1, 2, 3)
    assert (state.demand_clock, state.timeout_block) == (FIRST_BLOCK + 10, FIRST_BLOCK + 10)
    state = play((*turns, (7, "claimant", answer(0)))).book.disputes[A]
    assert (state.answered, state.demand_clock, state.clock_block) == (1, FIRST_BLOCK + 12, FIRST_BLOCK + 17)
    state = play((*turns, (7, "claimant", answer(0)), (8, "claimant", answer(1, 1, 2, 3)))).book.disputes[A]
    assert not state.has_open_demand and state.timeout_block == FIRST_BLOCK + 22


def test_bonds_double_along_the_queue_and_the_next_one_gets_its_turn() -> None:
    sim = play((*OPENED, (1, "other", Seal(B)), (2, "other", opening(B))))
    first, second = sim.book.disputes[A], sim.book.disputes[B]
    assert (second.bond_wei, second.stage) == (2 * first.bond_wei, Stage.QUEUED)
    assert count_queue(sim.book, CLAIMANT) == 2 and count_queue(sim.book, OTHER) == 0
    assert sim.send(Timeout(A), OTHER, FIRST_BLOCK + 6) is None
    assert sim.book.disputes[B].clock_block == FIRST_BLOCK + 11


def test_the_first_seal_of_a_hash_counts() -> None:
    sim = play(((0, "opener", Seal(A)), (3, "other", Seal(A))))
    assert sim.book.seals[A] == FIRST_BLOCK


def test_foreign_events_change_nothing() -> None:
    state = play(NAMED).book.disputes[A]
    assert process_dispute_event(state, DisputeClosed(block_number=1, dispute=B)) is state


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_stages_never_go_back(script: DisputeScript) -> None:
    sim = DisputeSimulator()
    for block, sender, action in script.turns:
        before = {name: one.stage for name, one in sim.book.disputes.items()}
        sim.send(action, SENDERS[sender], FIRST_BLOCK + block)
        assert all(sim.book.disputes[name].stage >= stage for name, stage in before.items())


MOVES = st.sampled_from(
    [
        PostStepRoots(A, 3), NameStep(A, 0), NameStep(A, 1), PostTrace(A), demand(), demand(1, 1, 1),
        answer(0), answer(1, 1, 1, 1), operation(), operation(is_fault=False), token(), scalar(), Timeout(A),
    ]
)  # fmt: skip


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(sorted(SENDERS)), MOVES), max_size=30))
def test_any_play_ends_by_timeouts_and_nothing_moves_after_a_conviction(
    turns: list[tuple[int, str, PostStepRoots]],
) -> None:
    sim, block = play(OPENED), FIRST_BLOCK + 1
    for wait, sender, move in turns:
        block += wait
        before = sim.book.disputes[A]
        sim.send(move, SENDERS[sender], block)
        assert before.stage != Stage.CONVICTED or sim.book.disputes[A] == before
    while sim.book.disputes[A].stage not in (Stage.CLOSED, Stage.CONVICTED):
        block = max(block, sim.book.disputes[A].timeout_block)
        assert sim.send(Timeout(A), OTHER, block) is None
    assert get_next_dispute_deadline(sim.book.disputes[A], block) == NEVER
