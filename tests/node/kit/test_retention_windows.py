"""The windows of states: the last block of each, what holds one open, and that no end is slept through."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.protocol.spec.game.simulation import make_world
from touchstone.node.kit.retention_windows import (
    PruningMemory,
    find_settled,
    find_shown_until,
    find_supported_until,
    is_answerable,
    is_askable,
    is_contestable,
    is_disputable,
    is_just_assigned,
    is_vote_wanted,
    is_whole,
    list_asked_segments,
    list_shown_segments,
    list_stages,
)
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.audit_deadlines import compute_serving_until
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import ContestTurn, RoundPhase
from touchstone.protocol.spec.game.state import GameState, RootContest, RunningDispute, StatementRef
from touchstone.protocol.spec.game.timing import get_duty_until

CLAIM, VOTE, LATE = StatementRef(0, 0), StatementRef(0, 0, 0), StatementRef(0, 0, 1)
"""Of round 0: a claim, a vote on it, and one of its late audit, since a claim has one early draw."""
IsOpen = Callable[[GameState, int], bool]


@cache
def play() -> GameState:
    """Round 2 runs, rounds 0 and 1 are posted, and the late audits of round 0 are drawn."""
    world = make_world(rounds=8, late_chance=1 << 16)
    return world.play(until=lambda w: w.state.next_round == 3 and 2 in w.state.rounds).get_now()


def exact(state: GameState) -> GameState:
    return replace(state, terms=replace(state.terms, is_exact=True))


def dispute(state: GameState) -> GameState:
    """With a dispute on another claim of round 0."""
    running = RunningDispute(7, StatementRef(0, 1), state.rounds[0].claims[1].seat, "opener", 1 << 30)
    return replace(state, disputes={7: running})


def contest(state: GameState) -> GameState:
    """With a contest of the root of round 0."""
    one = state.rounds[0]
    opened = RootContest(9, 0, one.root or b"", one.root_until, "contester", ContestTurn.ANSWER, 1 << 30)
    return replace(state, contests={9: opened})


WINDOWS: dict[str, tuple[IsOpen, Callable[[GameState], int], Callable[[GameState], GameState] | None]] = {
    "votes": (lambda s, b: is_vote_wanted(s, VOTE, b), lambda s: count_from(s, VOTE, audits=2), None),
    "late votes": (lambda s, b: is_vote_wanted(s, LATE, b), lambda s: count_from(s, LATE, audits=2), None),
    "queries": (
        lambda s, b: is_askable(s, VOTE, b),
        lambda s: count_from(s, VOTE, audits=2) + s.terms.windows.query,
        dispute,
    ),
    "asks in an exact task": (
        lambda s, b: is_askable(exact(s), VOTE, b),
        lambda s: count_from(s, VOTE, audits=2),
        dispute,
    ),
    "disputes": (
        lambda s, b: is_disputable(s, CLAIM, b),
        lambda s: count_from(s, VOTE) + s.terms.windows.dispute,
        dispute,
    ),
    "disputes of late votes": (
        lambda s, b: is_disputable(s, LATE, b),
        lambda s: count_from(s, LATE) + s.terms.windows.dispute,
        dispute,
    ),
    "contests": (
        lambda s, b: is_contestable(s, s.rounds[0], b),
        lambda s: s.rounds[0].root_until,
        contest,
    ),
    "duties": (
        lambda s, b: is_answerable(s, s.rounds[0], b),
        lambda s: get_duty_until(s, s.rounds[0]) or 0,
        dispute,
    ),
}
"""What is open, until which block, and what holds it open longer."""


def count_from(state: GameState, ref: StatementRef, audits: int = 0) -> int:
    """So many `audit_max` after the close from which the windows of a draw count."""
    start = state.rounds[0].late_from if ref == LATE else state.rounds[0].closed
    assert start is not None
    return start + audits * state.terms.windows.audit_max


@pytest.mark.parametrize("name", WINDOWS)
def test_the_last_block_of_a_window_is_inside_and_the_next_one_only_while_something_is_open(
    name: str,
) -> None:
    state, (is_open, get_until, hold) = play(), WINDOWS[name]
    until = get_until(state)
    assert [is_open(state, block) for block in (until - 1, until, until + 1)] == [True, True, False]
    assert hold is None or is_open(hold(state), until + 1)


def test_a_draw_that_the_chain_does_not_know_takes_no_votes_but_keeps_its_ends() -> None:
    """A reorg took its seed. It may be back, and the auditor that replayed it is asked then."""
    state = play()
    forgotten = replace(state.rounds[0], late_seed=None, late_from=None)
    before = replace(state, rounds={**state.rounds, 0: forgotten})
    far = count_from(state, LATE, audits=99)
    assert is_askable(before, LATE, far) and not is_vote_wanted(before, LATE, count_from(state, LATE))


def test_a_solver_shows_drawn_segments_while_votes_count_and_their_steps_one_audit_longer() -> None:
    state = play()
    one, audit_max = state.rounds[0], state.terms.windows.audit_max
    late = get_drawn_segment(state, one, 0, LATE.draw or 0)
    until = count_from(state, LATE, audits=2)
    assert list_shown_segments(state, one, 0, until) == (late,) == list_asked_segments(state, one, 0, until)
    assert find_shown_until(state, one, 0, until) == until
    assert list_shown_segments(state, one, 0, until + 1) == ()
    assert find_shown_until(state, one, 0, until + 1) is None
    assert list_asked_segments(state, one, 0, until + audit_max) == (late,)
    assert list_asked_segments(state, one, 0, until + audit_max + 1) == ()
    early = one.closed or 0
    first = find_shown_until(state, one, 0, early)
    drawn = [get_drawn(state, 0, 0, draw, rank) for draw in range(3) for rank in range(3)]
    waits = [compute_serving_until(state, audit.place, early) for audit in drawn if audit]
    assert first == min(waits) < count_from(state, VOTE, audits=2), "the auditor that gives up first"


def convict(state: GameState) -> GameState:
    """The claim of slot 0 of round 0 is convicted."""
    one = state.rounds[0]
    claims = {**one.claims, 0: replace(one.claims[0], is_convicted=True)}
    return replace(state, rounds={**state.rounds, 0: replace(one, claims=claims)})


@pytest.mark.parametrize("ref", [VOTE, LATE])
def test_whistleblowers_ask_about_a_vote_for_a_convicted_claim_until_it_can_be_disputed_no_more(
    ref: StatementRef,
) -> None:
    state, fallen = play(), convict(play())
    early, late = (get_drawn_segment(state, state.rounds[0], 0, one.draw or 0) for one in (VOTE, LATE))
    segment = early if ref == VOTE else late
    assert segment is not None and find_supported_until(state, state.rounds[0], 0, segment) is None
    until = count_from(state, ref) + state.terms.windows.dispute
    assert find_supported_until(fallen, fallen.rounds[0], 0, segment) == until
    undrawn = next(one for one in range(3) if one not in (early, late))
    assert find_supported_until(fallen, fallen.rounds[0], 0, undrawn) is None


def test_the_settled_model_is_the_newest_that_no_fall_can_take_back() -> None:
    """A root that falls takes all later ones with it: while the first is contested none is settled."""
    state = play()
    assert state.rounds[1].phase == RoundPhase.POSTED
    ends = [state.rounds[index].root_until for index in (0, 1)]
    found = [find_settled(state, block) for block in (ends[0], ends[0] + 1, ends[1] + 1)]
    assert [one and one.index for one in found] == [None, 0, 1]
    assert find_settled(contest(state), ends[1] + 1) is None


def test_whenever_a_window_ends_the_stages_are_others() -> None:
    """A node prunes only where they are: an end that they do not tell of would keep its blobs for ever. Here
    no window ends with another one."""
    shifted = replace(play().rounds[0], late_from=count_from(play(), LATE) + 3, root_until=400)
    state, said = replace(play(), rounds={**play().rounds, 0: shifted}), 0
    rounds = state.rounds.values()
    claims = [(one, slot) for one in rounds for slot in one.claims]
    refs = [StatementRef(one.index, slot, draw) for one, slot in claims for draw in (0, 1)]

    def look(block: int) -> tuple[object, ...]:
        return (
            [[is_whole(state, one, block), is_just_assigned(one, block)] for one in rounds],
            [[is_contestable(state, one, block), is_answerable(state, one, block)] for one in rounds],
            [list_shown_segments(state, *claim, block) for claim in claims],
            [list_asked_segments(state, *claim, block) for claim in claims],
            [[is_askable(state, ref, block), is_disputable(state, ref, block)] for ref in refs],
            find_settled(state, block),
        )

    last = max((get_duty_until(state, one) or 0) for one in rounds) + 9
    for block in range(min(one.opened for one in rounds), last):
        if look(block) != look(block + 1):
            assert list_stages(state, block) != list_stages(state, block + 1), block
            said += 1
    assert said > 10 and list_stages(state, last) == list_stages(state, last + 9)


def test_guesses_are_remembered_in_the_order_in_which_they_were_trained_last() -> None:
    """Of this round and the one before: older ones are no guesses any more."""
    memory = PruningMemory()
    for place in ((1, b"a"), (2, b"b"), (2, b"c"), (2, b"b"), (3, b"d")):
        memory.note_work(*place)
    assert memory.begun == ((2, b"c"), (2, b"b"), (3, b"d"))
