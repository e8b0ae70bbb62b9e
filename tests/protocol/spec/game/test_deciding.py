"""JUDGE: which votes count, and what they decide. The round closes in 103 here: reserves count from 113, the
merge waits until 133, votes count until 163, openings until 193."""

from dataclasses import replace

import pytest

from tests.protocol.spec.game.simulation import (
    Simulation,
    commit,
    make_quiet_world,
    make_vote,
    seal_draw,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import (
    compute_draw_status,
    get_claim_status,
    is_rejected_late,
    is_unserved,
)
from touchstone.protocol.spec.game.enums import ClaimStatus, DrawStatus
from touchstone.protocol.spec.game.state import CountedVote
from touchstone.protocol.spec.game.vote_judging import get_vote_flaw
from touchstone.protocol.spec.statements import VoteWord

A, R, D, S = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START
U, X = VoteWord.UNSERVED, VoteWord.ABSTAIN


def make_drawn(**changes: int) -> Simulation:
    world = make_quiet_world(**changes)
    for i in range(3):
        commit(world, f"solver{i}")
    seal_draw(world)
    assert world.block == 105
    return world


def status_of(world: Simulation, slot: int = 0) -> ClaimStatus:
    return get_claim_status(world.get_now(), world.get_now().rounds[0], slot, world.block)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ({}, DrawStatus.UNDECIDED),
        ({0: A}, DrawStatus.ACCEPTED),
        ({0: R}, DrawStatus.UNDECIDED),
        ({0: X}, DrawStatus.UNDECIDED),
        ({0: R, 1: A}, DrawStatus.UNDECIDED),
        ({0: R, 1: A, 2: A}, DrawStatus.ACCEPTED),
        ({0: R, 1: A, 2: R}, DrawStatus.FAILED),
        ({0: R, 2: D}, DrawStatus.FAILED),
        ({0: U, 1: X}, DrawStatus.FAILED),
        ({1: A}, DrawStatus.UNDECIDED),
        ({1: A, 2: A}, DrawStatus.ACCEPTED),
        ({1: R, 2: R}, DrawStatus.UNDECIDED),
        ({1: R, 2: S, 0: A}, DrawStatus.ACCEPTED),
        ({1: R, 2: S, 0: R}, DrawStatus.FAILED),
    ],
)
def test_a_draw_is_decided_by_its_primary_or_both_reserves(
    words: dict[int, VoteWord], status: DrawStatus
) -> None:
    assert compute_draw_status({rank: CountedVote(word, 1) for rank, word in words.items()}) == status


def test_two_of_three_say_unserved() -> None:
    def has(*words: VoteWord) -> bool:
        return is_unserved({rank: CountedVote(word, 1) for rank, word in enumerate(words)})

    assert has(U, U) and has(X, U, U) and not has(U, X, A)


@pytest.mark.parametrize(
    ("words", "is_rejected"),
    [
        ({0: R, 1: D}, True), ({0: S, 2: U}, True), ({0: U, 1: U}, True), ({0: X, 1: R, 2: U}, True),
        ({0: R, 1: X}, False), ({0: X, 2: X}, False), ({1: R, 2: R}, False), ({0: A}, False), ({}, False),
    ],
)  # fmt: skip
def test_a_late_audit_rejects_by_two_words_against_the_claim(
    words: dict[int, VoteWord], is_rejected: bool
) -> None:
    assert is_rejected_late({rank: CountedVote(word, 1) for rank, word in words.items()}) == is_rejected


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"signer": "verifier9"}, "WrongSigner"),
        ({"claim_root": b"other"}, "OtherStatement"),
        ({"seed": b"other"}, "OtherStatement"),
        ({"segment": 99}, "OtherStatement"),
        ({"draw": 5}, "NotDrawn"),
        ({"rank": 3}, "NotDrawn"),
        ({"slot": 9}, "NotDrawn"),
        ({"is_complete": False}, "NotComplete"),
        ({}, None),
    ],
)
def test_a_vote_names_its_claim_seed_and_segment(changes: dict[str, object], flaw: str | None) -> None:
    world = make_drawn()
    one = replace(make_vote(world, world.state, (0, 0, 0, 0), A), **changes)  # type: ignore[arg-type]
    assert get_vote_flaw(world.state, world.state.rounds[0], one, world.block) == flaw
    world.send(calls.JudgeVotes(0, (one,)), "x")
    assert (status_of(world) == ClaimStatus.ACCEPTED) == (flaw is None)
