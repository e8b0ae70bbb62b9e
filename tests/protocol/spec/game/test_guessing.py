"""Which claims are in the guess, and what opens if it holds."""

from typing import Any

import pytest

from protocol.spec.game import calls
from protocol.spec.game.guessing import foresee, list_guessed, list_open
from protocol.spec.game.state import RoundPhase
from protocol.spec.game.timing import get_live_round
from protocol.spec.statements import VoteWord
from tests.protocol.spec.game.world import (
    SUBMITTER,
    World,
    commit,
    make_quiet_world,
    make_right_root,
    make_word,
    post,
    seal_draw,
    vote,
)

A, R, U, N = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.UNSERVED, VoteWord.ABSTAIN


def make_drawn(**changes: Any) -> World:
    """Round 0 is drawn; of its three claims nothing is known."""
    world = make_quiet_world(**{"rounds": 5, **changes})
    draw(world, 0)
    return world


def draw(world: World, index: int) -> None:
    for slot in range(3):
        assert commit(world, f"solver{slot}", index) is None
    seal_draw(world, index)


def make_second(*words: VoteWord, **changes: Any) -> World:
    """Round 1 is drawn. words: of the primaries in round 0, each followed by its first reserve."""
    world = make_drawn(**changes)
    for slot, word in enumerate(words):
        assert vote(world, slot, 0, 0, word)
        assert word == A or vote(world, slot, 0, 1, word)
    merged = tuple(slot for slot, word in enumerate(words) if word == A)
    assert post(world, (0, 1, 2), merged) is None
    draw(world, 1)
    return world


def guess(world: World, own: int | None = None) -> tuple[int, ...]:
    state = world.get_now()
    game_round = get_live_round(state)
    assert game_round is not None
    return list_guessed(state, game_round, own, world.block)


def test_who_never_committed_before_is_in_without_a_vote_until_a_word_is_against_it() -> None:
    """So nobody waits for votes in a task's first round, or starts anew when somebody joins."""
    world = make_drawn()
    assert guess(world) == (0, 1, 2) == list_open(world.get_now(), world.state.rounds[0], world.block)
    assert vote(world, 0, 0, 0, U)
    assert guess(world) == (1, 2) and guess(world, own=0) == (0, 1, 2)


def test_who_was_rejected_last_time_needs_a_vote() -> None:
    """The others were accepted."""
    world = make_second(A, A, R)
    assert guess(world) == (0, 1) and guess(world, own=2) == (0, 1, 2)
    assert vote(world, 2, 0, 0, A, index=1)
    assert guess(world) == (0, 1, 2)


@pytest.mark.parametrize("word", [R, VoteWord.REJECT_DELTA, VoteWord.REJECT_START, U])
def test_the_first_word_against_a_claim_takes_it_out(word: VoteWord) -> None:
    """It can still be accepted, by both reserves; then it is in again. The own one stays till then."""
    world = make_second(A, A, A)
    assert guess(world) == (0, 1, 2)
    assert vote(world, 1, 0, 0, word, index=1)
    assert guess(world) == (0, 2) and guess(world, own=1) == (0, 1, 2)
    assert vote(world, 1, 0, 1, A, index=1)
    assert guess(world) == (0, 2)
    assert vote(world, 1, 0, 2, A, index=1)
    assert guess(world) == (0, 1, 2)


def test_an_abstention_says_nothing_against_a_claim_and_nothing_for_it() -> None:
    known, failed = make_second(A, A, A), make_second(A, A, R)
    assert vote(known, 1, 0, 0, N, index=1) and vote(failed, 2, 0, 0, N, index=1)
    assert guess(known) == (0, 1, 2) and guess(failed) == (0, 1)


def test_what_cannot_be_merged_any_more_is_out_whoever_made_it() -> None:
    """Void by votes, or undecided when the time for merging is over."""
    world = make_second(A, A, A)
    assert vote(world, 1, 0, 0, R, index=1) and vote(world, 1, 0, 1, R, index=1)
    assert vote(world, 0, 0, 0, A, index=1)
    assert guess(world, own=1) == (0, 2)
    world.jump((world.get_now().rounds[1].closed or 0) + world.state.terms.windows.audit_max + 1)
    assert guess(world, own=2) == (0,)
    assert list_open(world.get_now(), world.state.rounds[1], world.block) == (0,)


def test_only_the_last_round_in_which_a_solver_committed_counts() -> None:
    """One was rejected in round 0 and silent in round 1, one accepted in round 0 and rejected in round 1."""
    world = make_drawn()
    for slot, word in enumerate((A, A, R)):
        assert vote(world, slot, 0, 0, word)
    assert vote(world, 2, 0, 1, R)
    assert post(world, (0, 1, 2), (0, 1)) is None
    for slot in (0, 1):
        assert commit(world, f"solver{slot}", 1) is None
    seal_draw(world, 1)
    for slot, word in enumerate((A, R)):
        assert vote(world, slot, 0, 0, word, index=1)
    assert vote(world, 1, 0, 1, R, index=1)
    assert post(world, (0, 1, 2), (0,), index=1) is None
    draw(world, 2)
    assert guess(world) == (0,)


def test_what_is_foreseen_is_what_the_post_makes_of_the_round() -> None:
    world = make_second(A, A, A)
    for slot in range(3):
        assert vote(world, slot, 0, 0, A, index=1)
    root = make_right_root(world.state.rounds[1], (0, 1, 2))
    foreseen = foresee(world.get_now(), world.state.rounds[1], root, (0, 1, 2), world.block)
    assert world.state.rounds[1].phase == RoundPhase.RUNNING and 2 not in world.state.rounds
    assert post(world, (0, 1, 2), (0, 1, 2), index=1) is None
    assert foreseen.rounds[2] == world.state.rounds[2] and foreseen.rounds[2].base_root == root
    assert foreseen.rounds[1].merged == world.state.rounds[1].merged


@pytest.mark.parametrize("rounds", [1, 5])
def test_nothing_opens_after_the_last_round_or_a_halt(rounds: int) -> None:
    world = make_drawn(rounds=rounds)
    if rounds > 1:
        world.send(calls.HaltTask(), SUBMITTER)
    foreseen = foresee(world.get_now(), world.state.rounds[0], make_word("root"), (0,), world.block)
    assert list(foreseen.rounds) == [0]
