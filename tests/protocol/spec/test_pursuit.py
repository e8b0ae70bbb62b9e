"""Somebody else's dispute does for one's own only where it must end in time and is about the same step."""

from dataclasses import replace

import pytest

from protocol.spec.clock import NEVER, compute_late_deadlines
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import (
    MAX_DEMANDS_EACH,
    MAX_DEMANDS_OTHERS,
    NameStep,
    PostStepRoots,
    PostTrace,
    Timeout,
)
from protocol.spec.pursuit import (
    OPENING_BLOCKS,
    compute_last_end,
    find_earliest_closing,
    is_in_time,
    is_pursued,
)
from protocol.spec.round import get_merge_by, get_settle_block
from protocol.spec.statuses import Stage
from tests.protocol.spec.dispute_play import (
    CLAIMANT,
    FIRST_BLOCK,
    OPENER,
    OTHER,
    A,
    Action,
    B,
    DisputeSimulator,
    Seal,
)
from tests.protocol.spec.dispute_scripts import answer, demand, opening
from tests.protocol.spec.plots import play_plot
from tests.protocol.spec.simulator import make_account, make_round, make_terms

ME = make_account("honest")
STEP = 1
LATE = FIRST_BLOCK + 10_000
"""Long after all clocks."""


def play_to(stage: Stage) -> DisputeState:
    """An accomplice's dispute, each move in the first block in which it can be made."""
    sim = DisputeSimulator()
    moves: list[tuple[str, Action]] = [
        (OPENER, Seal(A)),
        (OPENER, opening()),
        (CLAIMANT, PostStepRoots(A, 3)),
        (OPENER, NameStep(A, STEP)),
        (CLAIMANT, PostTrace(A)),
    ]
    count = {Stage.ROOTS: 2, Stage.NAME: 3, Stage.TRACE: 4, Stage.PROVE: 5}[stage]
    for number, (sender, move) in enumerate(moves[:count]):
        assert sim.send(move, sender, FIRST_BLOCK + number) is None
    assert sim.book.disputes[A].stage == stage
    return sim.book.disputes[A]


def pursues(dispute: DisputeState, step: int | None = STEP, closes_block: int = LATE) -> bool:
    return is_pursued([dispute], ME, {dispute.dispute: step}, closes_block)


@pytest.mark.parametrize("stage", [Stage.ROOTS, Stage.NAME])
def test_a_dispute_that_names_no_step_yet_is_not_waited_for(stage: Stage) -> None:
    assert not pursues(play_to(stage))


@pytest.mark.parametrize("stage", [Stage.TRACE, Stage.PROVE])
@pytest.mark.parametrize(("step", "expected"), [(STEP, True), (0, False), (None, False)])
def test_only_the_step_that_one_would_name_oneself_counts(
    stage: Stage, step: int | None, expected: bool
) -> None:
    assert pursues(play_to(stage), step) is expected
    assert not is_pursued([play_to(stage)], ME, {B: STEP}, LATE), "it is known of another dispute only"


@pytest.mark.parametrize("stage", [Stage.TRACE, Stage.PROVE])
def test_a_dispute_that_can_outlast_the_last_opening_is_not_waited_for(stage: Stage) -> None:
    dispute = play_to(stage)
    last = compute_last_end(dispute) + OPENING_BLOCKS
    assert pursues(dispute, closes_block=last) and not pursues(dispute, closes_block=last - 1)
    assert is_in_time(dispute, last) and not is_in_time(dispute, last - 1)


def test_own_ones_and_convictions_end_the_matter_and_closed_ones_do_not() -> None:
    theirs, mine = play_to(Stage.PROVE), replace(play_to(Stage.NAME), dispute=B, opener=ME)
    closed, convicted = (replace(theirs, dispute=B, stage=stage) for stage in (Stage.CLOSED, Stage.CONVICTED))
    steps = {A: STEP, B: STEP}
    assert not is_pursued([], ME, steps, LATE)
    assert is_pursued([mine], ME, {}, 0) and is_pursued([replace(mine, stage=Stage.CLOSED)], ME, {}, 0)
    assert is_pursued([convicted], ME, {}, 0)
    assert not is_pursued([closed], ME, steps, LATE)
    assert not is_pursued([closed, theirs], ME, steps, LATE), "an accomplice's next one is not waited for"
    assert is_pursued([closed, replace(theirs, stage=Stage.CONVICTED)], ME, {}, 0)


# --- The last end -------------------------------------------------------------------------------------------
def test_no_play_outlasts_the_last_end() -> None:
    """Each move in the last block in which it can be made, and as many demands as there may be."""
    sim = DisputeSimulator()
    for block, sender, move in ((0, OPENER, Seal(A)), (1, OPENER, opening())):
        assert sim.send(move, sender, FIRST_BLOCK + block) is None
    assert compute_last_end(sim.book.disputes[A]) == NEVER

    def play_late(sender: str, move: PostStepRoots | NameStep | PostTrace) -> None:
        block = sim.book.disputes[A].clock_block - 1
        assert sim.send(move, sender, block) is None

    play_late(CLAIMANT, PostStepRoots(A, 3))
    play_late(OPENER, NameStep(A, STEP))
    promised = [compute_last_end(sim.book.disputes[A])]
    play_late(CLAIMANT, PostTrace(A))
    challengers = [OPENER] * MAX_DEMANDS_EACH
    challengers += [make_account(f"other {number % 4}") for number in range(MAX_DEMANDS_OTHERS)]
    for number, challenger in enumerate(challengers):
        promised.append(compute_last_end(sim.book.disputes[A]))
        assert sim.send(demand(), challenger, sim.book.disputes[A].clock_block - 1) is None
        promised.append(compute_last_end(sim.book.disputes[A]))
        assert sim.send(answer(number), CLAIMANT, sim.book.disputes[A].demand_clock - 1) is None
    state = sim.book.disputes[A]
    assert sim.check(demand(), OPENER, state.clock_block - 1) is not None
    assert sim.check(demand(), OTHER, state.clock_block - 1) is not None
    promised.append(compute_last_end(state))
    assert promised == sorted(promised, reverse=True), "no move puts it off"
    assert sim.send(Timeout(A), OTHER, state.timeout_block) is None
    assert state.timeout_block == promised[-1]


def test_an_open_demand_is_answered_before_the_last_end() -> None:
    dispute, sim = play_to(Stage.PROVE), DisputeSimulator()
    sim.book = replace(sim.book, disputes={A: dispute})
    for _ in range(MAX_DEMANDS_EACH):
        assert sim.send(demand(), OPENER, dispute.clock_block - 1) is None
    assert sim.book.disputes[A].timeout_block <= compute_last_end(sim.book.disputes[A])


# --- The last opening ---------------------------------------------------------------------------------------
def test_before_the_merge_the_last_opening_may_come_early() -> None:
    terms = make_terms()
    state, merge_by = make_round(terms), get_merge_by(make_round(terms))
    for block in (merge_by - 50, merge_by - 1):
        assert find_earliest_closing(state, block) == compute_late_deadlines(block, terms.windows).dispute_end
        assert find_earliest_closing(state, block) < get_settle_block(state, block)
    assert find_earliest_closing(state, merge_by) == get_settle_block(state, merge_by)


def test_once_merged_the_last_opening_is_known() -> None:
    state = play_plot("all honest").sim.state
    assert state.posted_block is not None
    for block in (state.posted_block, state.posted_block + 5):
        assert find_earliest_closing(state, block) == get_settle_block(state, block)
