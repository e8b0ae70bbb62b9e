"""Whose move it is at each stage of a dispute, and what silence leads to."""

from dataclasses import replace

import pytest

from touchstone.protocol.spec.game.dispute_moves import (
    Move,
    compute_last_end,
    find_outcome,
    is_answerable,
    is_pursued,
    list_moves,
)
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerDispute, InnerQuery, QueryEnding
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import Vote, VoteWord

CLAIMANT, OPENER, STRANGER = "claimant", "opener", "stranger"
OPENED = InnerDispute(b"d" * 32, 1 << 16, StatementRef(0, 0), 0, OPENER, clock=20)
TURNS = {
    DisputeStage.ROOTS: (CLAIMANT, (Move.POST_ROOTS,)),
    DisputeStage.NAME: (OPENER, (Move.NAME_STEP,)),
    DisputeStage.TRACE: (CLAIMANT, (Move.POST_TRACE,)),
    DisputeStage.PROVE: (OPENER, (Move.PROVE, Move.DEMAND)),
    DisputeStage.LEAVES: (CLAIMANT, (Move.SHOW_LEAVES,)),
    DisputeStage.LAST: (OPENER, (Move.PROVE,)),
}


@pytest.mark.parametrize("stage", TURNS)
def test_only_who_is_on_turn_moves(stage: DisputeStage) -> None:
    dispute, (who, moves) = replace(OPENED, stage=stage), TURNS[stage]
    assert list_moves(dispute, who, CLAIMANT, 20) == moves
    assert list_moves(dispute, STRANGER, CLAIMANT, 20) == ()
    other = OPENER if who == CLAIMANT else CLAIMANT
    # A proof needs no leaves, so it need not wait for them.
    assert list_moves(dispute, other, CLAIMANT, 20) == ((Move.PROVE,) if stage == DisputeStage.LEAVES else ())


@pytest.mark.parametrize("stage", TURNS)
def test_silence_of_who_is_on_turn_loses(stage: DisputeStage) -> None:
    dispute, (who, _) = replace(OPENED, stage=stage), TURNS[stage]
    expected = DisputeStage.CONVICTED if who == CLAIMANT else DisputeStage.CLEARED
    assert find_outcome(dispute) == expected
    for account in (CLAIMANT, OPENER, STRANGER):
        assert list_moves(dispute, account, CLAIMANT, 21) == (Move.END,)


def test_a_seat_that_was_convicted_elsewhere_leaves_nothing_but_the_end() -> None:
    assert list_moves(OPENED, CLAIMANT, CLAIMANT, 5, is_closed=True) == (Move.END,)
    assert find_outcome(OPENED, is_closed=True) == DisputeStage.MOOT


@pytest.mark.parametrize("stage", [DisputeStage.CLEARED, DisputeStage.CONVICTED, DisputeStage.MOOT])
def test_nothing_moves_after_the_end(stage: DisputeStage) -> None:
    assert list_moves(replace(OPENED, stage=stage), OPENER, CLAIMANT, 99) == ()


def test_each_turn_brings_the_last_end_nearer() -> None:
    ends = [compute_last_end(replace(OPENED, stage=stage), respond=10) for stage in TURNS]
    assert ends == [71, 61, 51, 41, 31, 21]


def test_only_the_same_step_in_time_counts_as_pursued() -> None:
    dispute = replace(OPENED, stage=DisputeStage.TRACE, step=1)
    end = compute_last_end(dispute, 10)
    assert is_pursued(dispute, own_step=1, until_block=end + 5, margin=5, respond=10)
    assert not is_pursued(dispute, own_step=0, until_block=end + 5, margin=5, respond=10)
    assert not is_pursued(dispute, own_step=None, until_block=end + 5, margin=5, respond=10)
    assert not is_pursued(dispute, own_step=1, until_block=end + 4, margin=5, respond=10)
    assert not is_pursued(replace(dispute, stage=DisputeStage.CLEARED), 1, end + 500, 5, 10)
    unnamed = replace(dispute, step=None)
    assert not is_pursued(unnamed, own_step=None, until_block=end + 500, margin=5, respond=10)


def test_a_query_is_answerable_up_to_its_clock() -> None:
    word = bytes(32)
    vote = Vote(word, 0, word, word, 0, word, 0, 0, 0, word, word, word, VoteWord.ACCEPT, 0)
    query = InnerQuery(b"a" * 32, 1 << 17, vote, 3, "asker", clock=30)
    assert is_answerable(query, 30) and not is_answerable(query, 31)
    assert not is_answerable(replace(query, ending=QueryEnding.CLEARED), 30)
