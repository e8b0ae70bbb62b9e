"""Calls: what a sender says, and facts that the contract finds. No fact is without effect."""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass, replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import (
    Simulation,
    commit,
    make_quiet_world,
    make_vote,
    make_word,
    make_world,
    post,
    solver,
)
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_posting import A, make_judged
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall, HandedOpening, SignedVote
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind, SeatStatus
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import VoteWord

KINDS = [one for one in vars(calls).values() if is_dataclass(one) and one.__module__ == calls.__name__]
KINDS.remove(GameCall)
CLAIM, VOTE, DIGEST = StatementRef(0, 1), StatementRef(0, 0, 0, 0), make_word("digest")
RANDOM = make_word("randomness")


def list_facts(kind: Any) -> list[Field[Any]]:
    return [one for one in fields(kind) if one.kw_only]


def make_call(kind: Any) -> Any:
    """With a 0 for all that has to be said."""
    return kind(*[0 for one in fields(kind) if not one.kw_only])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_call_is_a_value(kind: Any) -> None:
    """Nodes compare and collect calls: equal ones are one, and none changes once it was checked."""
    call, same = make_call(kind), make_call(kind)
    others = [make_call(other) for other in KINDS if other is not kind]
    assert call == same and hash(call) == hash(same) and call not in others
    for one in fields(kind):
        assert replace(call, **{one.name: "another"}) != call
        with pytest.raises(FrozenInstanceError):
            setattr(call, one.name, "another")


# Facts
def make_open() -> Simulation:
    """Round 0 is posted. Contest 0 waits for an answer, 1 for its leaf; ask 2 and dispute 3 are open; "x" has
    sealed a proof."""
    world = make_judged(rounds=2)
    assert post(world, (0, 1), (0, 1, 2)) is None
    opening = (calls.OpenContest(0, 300), calls.OpenContest(0, 600))
    moves = (calls.AnswerContest(1), calls.NameChild(1, 3)) * 2
    for call in (*opening, *moves, calls.QueryVote(VOTE, A, 7, 40), calls.DisputeStatement(CLAIM, 80)):
        world.send(call, "watcher")
    world.send(calls.CommitProof(DIGEST), "x")
    world.jump(world.block + 1)
    return world


def make_starting() -> Simulation:
    world = make_world()
    world.send(calls.StartRounds(), "x")
    world.jump(103)
    return world


def make_undealt() -> Simulation:
    """Round 0 waits for a beacon of its own."""
    world = make_quiet_world()
    waiting = replace(world.state.rounds[0], beacon=None, beacon_block=104, trained_from=None)
    world.state = replace(world.state, rounds={0: waiting})
    world.jump(105)
    return world


def make_closed() -> Simulation:
    world = make_quiet_world()
    for number in range(3):
        assert commit(world, f"solver{number}") is None
    world.jump(105)
    return world


def make_last() -> Simulation:
    """The only round is posted; its late audits are still to be drawn."""
    world = make_judged(rounds=1)
    assert post(world, (0, 1), (0, 1, 2)) is None
    world.jump(135)
    return world


def make_votes() -> calls.JudgeVotes:
    world = make_drawn()
    votes = tuple(make_vote(world, world.state, (0, slot, 0, 0), A) for slot in range(3))
    return calls.JudgeVotes(0, votes, (HandedOpening(0, 0, 0),))


PROOF = calls.ConvictSeat(CLAIM, ProofKind.DELTA_LEAF, DIGEST)
ASK, DISPUTE = calls.QueryVote(VOTE, A, 8, 80), calls.DisputeStatement(VOTE, 80)
Facts = list[tuple[Callable[[], Simulation], GameCall, str, Any, str | None]]
FACTS: Facts = [
    (make_starting, calls.DrawStart(randomness=RANDOM), "randomness", DIGEST, None),
    (make_undealt, calls.DrawRound(0, randomness=RANDOM), "randomness", DIGEST, None),
    (make_closed, calls.DrawAudits(0, randomness=RANDOM), "randomness", DIGEST, None),
    (make_last, calls.DrawClosing(randomness=RANDOM), "randomness", DIGEST, None),
    (make_open, calls.AnswerContest(0), "is_hashing", False, "ProofInvalid"),
    (make_open, calls.BringLeaf(1), "is_right", False, "ProofInvalid"),
    (make_open, ASK, "is_signed", False, "StatementUnknown"),
    (make_open, ASK, "signer", solver(0), "StatementUnknown"),
    (make_open, ASK, "is_leaf", False, "LeafNotQueried"),
    (make_open, ASK, "is_new", False, "AlreadyQueried"),
    (make_open, calls.AnswerQuery(2), "is_fitting", False, "ProofInvalid"),
    (make_open, calls.AnswerQuery(2), "exceeds_limits", True, None),
    (make_open, DISPUTE, "is_signed", False, "StatementUnknown"),
    (make_open, DISPUTE, "signer", solver(0), "StatementUnknown"),
    (make_open, DISPUTE, "word", VoteWord.UNSERVED, "StatementUnknown"),
    (make_open, calls.EndDispute(3), "outcome", GameOutcome.CONVICTED, None),
    (make_open, PROOF, "is_valid", False, "ProofInvalid"),
    (
        make_open,
        replace(PROOF, statement=VOTE, proof=ProofKind.VOTE_LEAF),
        "signer",
        solver(0),
        "StatementUnknown",
    ),
]


@pytest.mark.parametrize(
    ("make", "call", "fact", "value", "name"),
    FACTS,
    ids=[f"{type(row[1]).__name__} {row[2]}" for row in FACTS],
)
def test_a_fact_that_is_otherwise_is_refused_by_name_or_does_another_thing(
    make: Callable[[], Simulation], call: GameCall, fact: str, value: Any, name: str | None
) -> None:
    """A call that leaves its facts out is what an honest sender's is found to be: it passes."""
    honest, other = make(), make()
    assert honest.state == other.state and honest.try_send(call, "x") is None
    assert other.try_send(replace(call, **{fact: value}), "x") == name
    assert other.state != honest.state


def test_every_fact_of_every_call_is_looked_at_above_or_skips_its_vote() -> None:
    """What a sender says is said in full, in its place: no fact can slip into it."""
    facts = {(kind, one.name) for kind in KINDS for one in list_facts(kind)}
    tested = {(type(call), fact) for _, call, fact, *_ in FACTS}
    assert facts - tested == {(SignedVote, "is_complete"), (HandedOpening, "is_fitting")} and tested <= facts
    optional = {
        (kind, one.name)
        for kind in KINDS
        for one in fields(kind)
        if not one.kw_only and one.default is not MISSING
    }
    assert optional == {(calls.JudgeVotes, "votes"), (calls.JudgeVotes, "openings")}


@pytest.mark.parametrize(
    ("is_complete", "is_fitting", "counted"), [(True, True, 3), (True, False, 3), (False, True, 2)]
)
def test_a_vote_or_an_opening_that_is_not_good_is_skipped_alone(
    is_complete: bool, is_fitting: bool, counted: int
) -> None:
    """The others of its call count: one bad vote does not cost the rest its block."""
    world, call = make_drawn(), make_votes()
    votes = (*call.votes[:2], replace(call.votes[2], is_complete=is_complete))
    world.send(replace(call, votes=votes, openings=(replace(call.openings[0], is_fitting=is_fitting),)), "x")
    held = world.state.rounds[0].votes
    assert sorted(held) == [(slot, 0) for slot in range(counted)]
    assert held[0, 0][0].is_opened == is_fitting


@pytest.mark.parametrize("call", [calls.AnswerQuery(2), calls.EndDispute(3), calls.BringLeaf(1)], ids=repr)
def test_no_call_convicts_unless_a_fact_says_so(call: GameCall) -> None:
    world = make_open()
    world.send(call, "x")
    assert {seat.status for seat in world.state.seats.values()} == {SeatStatus.ACTIVE}
