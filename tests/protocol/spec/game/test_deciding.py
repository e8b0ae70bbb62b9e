"""JUDGE: which votes count, and what they decide. The round closes in 103 here: reserves count from 113, the
merge waits until 133, votes count until 163, openings until 193."""

from dataclasses import replace

import pytest

from tests.protocol.spec.game.world import (
    World,
    commit,
    make_quiet_world,
    make_vote,
    seal_draw,
    solver,
    vote,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import HandedOpening
from touchstone.protocol.spec.game.claim_status import (
    compute_draw_status,
    get_claim_status,
    get_votes,
    is_rejected_late,
    is_unserved,
)
from touchstone.protocol.spec.game.enums import ClaimStatus, DrawStatus, RoundPhase
from touchstone.protocol.spec.game.state import CountedVote
from touchstone.protocol.spec.game.vote_judging import get_opening_flaw, get_vote_flaw
from touchstone.protocol.spec.statements import VoteWord

A, R, D, S = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START
U, X = VoteWord.UNSERVED, VoteWord.ABSTAIN


def make_drawn(**changes: int) -> World:
    world = make_quiet_world(**changes)
    for i in range(3):
        commit(world, f"solver{i}")
    seal_draw(world)
    assert world.block == 105
    return world


def status_of(world: World, slot: int = 0) -> ClaimStatus:
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


def test_an_unserved_counts_in_a_failed_draw_until_its_time_is_over() -> None:
    world = make_drawn()
    for slot in range(2):
        assert vote(world, slot, 0, 0, U) and vote(world, slot, 0, 1, X)
        assert (
            not vote(world, slot, 0, 2, A)
            and not vote(world, slot, 0, 2, R)
            and not vote(world, slot, 0, 2, X)
        )
    assert vote(world, 2, 0, 0, A) and not vote(world, 2, 0, 1, U), "a draw that is accepted takes no word"
    world.jump(163)
    assert vote(world, 0, 0, 2, U) and not vote(world, 0, 0, 2, U), "once"
    assert status_of(world) == ClaimStatus.VOID and is_unserved(get_votes(world.state.rounds[0], 0, 0))
    world.jump(164)
    assert not vote(world, 1, 0, 2, U)


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


def test_an_opening_comes_with_or_after_the_decision() -> None:
    world = make_drawn()
    opening = HandedOpening(0, 0, 0)
    for word, flaw in ((None, "NotCounted"), (R, "DrawUndecided")):
        if word:
            vote(world, 0, 0, 0, word)
        assert get_opening_flaw(world.state, world.state.rounds[0], opening, world.block) == flaw
    deciding = make_vote(world, world.state, (0, 0, 0, 1), R)
    world.send(calls.JudgeVotes(0, (deciding,), (opening, HandedOpening(0, 0, 1, is_fitting=False))), "x")
    votes = get_votes(world.state.rounds[0], 0, 0)
    assert votes[0].is_opened and not votes[1].is_opened, "in the deciding call; only what fits"
    assert get_opening_flaw(world.state, world.state.rounds[0], opening, world.block) == "AlreadyOpened"


def test_unserved_and_abstain_have_nothing_to_open() -> None:
    world = make_drawn()
    vote(world, 0, 0, 0, U), vote(world, 0, 0, 1, X)
    for rank in (0, 1):
        opening = HandedOpening(0, 0, rank)
        assert get_opening_flaw(world.state, world.state.rounds[0], opening, world.block) == "NothingToOpen"


def test_late_audits_come_with_the_next_rounds_seed() -> None:
    world = make_quiet_world(late_chance=1 << 16)
    for i in range(3):
        commit(world, f"solver{i}")
    seal_draw(world)
    for slot in range(2):
        vote(world, slot, 0, 0, A)
    vote(world, 2, 0, 0, R), vote(world, 2, 0, 1, R)
    assert world.try_send(calls.PostRoot(0, (0, 1), b"root", (solver(0), solver(1))), "x") is None
    for i in range(3):
        commit(world, f"solver{i}", 1)
    seal_draw(world, 1)
    first = world.state.rounds[0]
    assert first.late_slots == {0, 1}, "a void claim gets none"
    assert first.late_from == world.state.rounds[1].closed == 105
    late = world.state.terms.draws
    assert vote(world, 0, late, 0, R) and vote(world, 0, late, 1, A) and vote(world, 0, late, 2, R)
    assert compute_draw_status(get_votes(world.state.rounds[0], 0, late)) == DrawStatus.FAILED
    assert status_of(world) == ClaimStatus.ACCEPTED, "it decides pay only"
    assert world.state.rounds[0].phase == RoundPhase.POSTED
    world.jump(165)
    assert vote(world, 1, late, 0, A)
    world.jump(166)
    assert not vote(world, 1, late, 1, A)
