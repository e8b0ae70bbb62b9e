"""Asks, disputes and proofs from outside: who may, until when, for how much, and what the outcome does."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.test_posting import A, R, judge, make_judged
from tests.protocol.spec.game.world import (
    AMOUNTS,
    World,
    get_burned,
    get_credit,
    make_vote,
    make_word,
    post,
    solver,
    vote,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome, ProofKind, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import AskOver, DisputeOver, SeatSettled
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.state import StatementRef, compute_seat_id
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.statements import VoteWord

CLAIM, VOTE = StatementRef(0, 0), StatementRef(0, 0, 0, 0)
DIGEST = make_word("digest")
CONVICTED = GameOutcome.CONVICTED


def verifier(number: int) -> int:
    return compute_seat_id(SeatRole.VERIFIER, number)


def whistleblower(number: int) -> int:
    return compute_seat_id(SeatRole.WHISTLEBLOWER, number)


def get_signer(world: World, ref: StatementRef = VOTE) -> int:
    account = make_vote(world, world.state, (ref.round, ref.slot, ref.draw or 0, ref.rank), A).signer
    return world.get_seat(account).number


def ask(world: World, bond: int = 40, word: VoteWord = A, by: str = "asker", **facts: bool) -> str | None:
    return world.try_send(calls.AskSigner(VOTE, word, 7, bond, **facts), by)


def dispute(
    world: World, ref: StatementRef = CLAIM, bond: int = 80, sender: str = "whistle0", **facts: Any
) -> str | None:
    return world.try_send(calls.DisputeStatement(ref, bond, **facts), sender)


# --- ASK ----------------------------------------------------------------------------------------------------
def test_what_nobody_signed_is_neither_asked_nor_disputed() -> None:
    world = make_judged()
    assert ask(world, is_signed=False) == "StatementUnknown" == dispute(world, VOTE, is_signed=False)


def test_the_signer_is_asked_until_six_rounds_after_its_votes_time() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    for block, name in ((163 + 720, None), (163 + 721, "OutsideWindow")):
        world.jump(block)
        assert ask(world, 40) == name


def answer_reject(world: World, ask_number: int = 0) -> None:
    """The asked REJECT was false."""
    world.send(calls.AnswerAsk(ask_number, exceeds_limits=False), "x")


def test_a_slash_pays_no_more_than_it_has() -> None:
    world = make_judged((R, A, A), amounts=replace(AMOUNTS, solver_pay=1_000))
    ask(world, word=R)
    answer_reject(world)
    assert get_credit(world, "solver0") == 500 - 125 - 125
    assert get_burned(world) == 1_000, "its pay, of the escrow"
    world.send(calls.AskSigner(StatementRef(0, 0, 0, 1), R, 7, 40), "asker")
    answer_reject(world, 1)
    assert get_credit(world, "solver0") == 250, "once, even if it was not all"


def make_left() -> World:
    """The claim of solver0 was rejected; it has left, and its rejection is still asked about."""
    world = make_judged((R, A, A), rounds=2, least_solvers=3)
    world.send(calls.LeaveSeat(solver(0)), "solver0")
    post(world, (0, 1), (1, 2))
    for number in (0, 1, 2):
        world.state = fold(world.state, SeatSettled(solver(number), 1), world.block)
    ask(world, word=R)
    world.send(calls.PayOut(solver(0)), "x")
    return world


def test_who_has_left_is_paid_too() -> None:
    world = make_left()
    assert world.state.former[solver(0)].account == "solver0"
    answer_reject(world)
    assert get_credit(world, "solver0") == 2_000 + 100


def test_nobody_is_paid_once_the_number_is_used_again() -> None:
    world = make_left()
    world.state = replace(world.state, terms=replace(world.state.terms, rounds=5))
    world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000), "stranger")
    assert world.get_seat("stranger").number == solver(0) and not world.state.former
    answer_reject(world)
    assert get_credit(world, "solver0") == 2_000 and get_credit(world, "stranger") == 0
    assert world.state.rounds[0].restored == frozenset() and get_burned(world) == 250
    assert dispute(world) == "StatementUnknown", "nor does the stranger answer for the claim"


# --- DISPUTE ------------------------------------------------------------------------------------------------
def test_other_questions_on_a_convicted_seat_are_moot_and_anybody_ends_them() -> None:
    world = make_judged()
    assert ask(world) is None and dispute(world, VOTE, bond=80) is None
    assert dispute(world, VOTE, bond=160, sender="whistle1") is None
    world.send(calls.EndDispute(1, outcome=CONVICTED), "x")
    assert set(world.state.asks) == {0} and set(world.state.disputes) == {2}
    assert world.try_send(calls.AnswerAsk(0), "x") == "SeatClosed"
    assert world.try_send(calls.PayOut(get_signer(world)), "x") == "SeatBusy"
    upkeep = list_upkeep(world.state, world.block)
    assert {calls.EndAsk(0), calls.EndDispute(2)} <= set(upkeep), "without a clock"
    world.send(calls.EndAsk(0), "x")
    world.send(calls.EndDispute(2, outcome=CONVICTED), "x")
    assert not world.state.asks and not world.state.disputes
    assert get_credit(world, "asker") == 40 and get_credit(world, "whistle1") == 160, "bonds come back"
    outcomes = [event.outcome for _, event in world.log if isinstance(event, AskOver | DisputeOver)]
    assert outcomes == [CONVICTED, GameOutcome.MOOT, GameOutcome.MOOT]


def test_nobody_has_to_show_its_roots_while_a_reserve_could_copy_them() -> None:
    world = make_judged()
    votes_until = (world.state.rounds[0].closed or 0) + 2 * 30
    assert world.block < votes_until
    assert ask(world) is None
    assert world.state.asks[0].clock == votes_until + 10
    world.jump(votes_until + 5)
    assert ask(world, bond=80, by="later") is None
    assert world.state.asks[1].clock == world.block + 10


def test_a_dispute_lasts_three_answers_and_three_moves_between_at_most() -> None:
    world = make_judged()
    assert dispute(world) is None
    clock = world.state.disputes[0].clock
    assert clock == world.block + 6 * 10
    world.jump(clock + 1)
    world.send(calls.EndDispute(0), "x")
    assert world.get_seat("solver0").status == SeatStatus.OPEN, "what nobody proved is no fault"


def test_who_was_silent_in_a_dispute_is_convicted_whenever_it_is_ended() -> None:
    world = make_judged()
    assert dispute(world) is None
    world.jump(world.state.disputes[0].clock + 100)
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    assert world.get_seat("solver0").status == SeatStatus.CLOSED, "a late end is no acquittal"


def list_undrawn(world: World) -> list[int]:
    """Verifiers that are not drawn for VOTE, in any rank."""
    drawn = {get_signer(world, replace(VOTE, rank=rank)) for rank in range(3)}
    return [n for n, seat in world.state.seats.items() if seat.role == SeatRole.VERIFIER and n not in drawn]


def test_who_signed_a_vote_is_answerable_drawn_or_not() -> None:
    world = make_judged((R, A, A))
    number, drawn = list_undrawn(world)[0], get_signer(world)
    assert ask(world, signer=number, word=R) is None  # type: ignore[arg-type]
    assert dispute(world, VOTE, signer=number) is None
    assert [world.state.asks[0].seat, world.state.disputes[1].seat] == [number, number]
    answer_reject(world)
    assert world.state.seats[number].status == SeatStatus.CLOSED
    assert world.state.seats[drawn].status == SeatStatus.OPEN
    assert get_credit(world, "solver0") == 0, "its word did not count, so it made nothing void"
    assert dispute(world, VOTE, signer=number) == "SeatClosed"


@pytest.mark.parametrize(
    ("signer", "ref"),
    [
        (solver(0), VOTE),
        (whistleblower(0), VOTE),
        (verifier(9), VOTE),
        (verifier(0), replace(VOTE, rank=3)),
        (verifier(0), replace(VOTE, draw=2)),
        (whistleblower(0), replace(VOTE, draw=1)),
    ],
)
def test_who_cannot_sign_such_a_vote_answers_for_none(signer: int, ref: StatementRef) -> None:
    """Another role, no such seat, no such rank or draw, a late audit that is not drawn."""
    assert dispute(make_judged(), ref, signer=signer) == "StatementUnknown"


def test_a_proof_is_sealed_before_anything_else_is_looked_at() -> None:
    world = make_judged()
    proof = calls.ConvictSeat(StatementRef(9, 9), ProofKind.DELTA_LEAF, DIGEST, is_valid=False)
    assert world.try_send(proof, "x") == "SealMissing"
    world.send(calls.SealProof(DIGEST), "x")
    world.jump(world.block + 1)
    assert world.try_send(proof, "x") == "RoundUnknown"
    assert world.try_send(replace(proof, statement=StatementRef(0, 9)), "x") == "StatementUnknown"
    assert world.try_send(replace(proof, statement=CLAIM), "x") == "ProofInvalid"


def test_a_conviction_makes_undecided_claims_void_and_decided_ones_stay() -> None:
    world = make_judged((A, None, A))
    for slot in (0, 1):
        ref = StatementRef(0, slot)
        world.send(calls.SealProof(DIGEST), "x")
        world.jump(world.block + 1)
        world.send(calls.ConvictSeat(ref, ProofKind.DELTA_LEAF, DIGEST), "x")
    statuses = [get_claim_status(world.state, world.state.rounds[0], slot, world.block) for slot in range(3)]
    assert statuses == [ClaimStatus.VOID, ClaimStatus.VOID, ClaimStatus.ACCEPTED]
    assert post(world, (2,), (0, 2)) == "NotMergeable", "what is convicted in time is not merged"
    assert post(world, (2,), (2,)) is None


def test_a_conviction_makes_the_seats_undecided_claims_of_other_rounds_void() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    judge(world, (None, None, A), 1)
    dispute(world)
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    later = world.state.rounds[1]
    statuses = [get_claim_status(world.state, later, slot, world.block) for slot in range(3)]
    assert statuses == [ClaimStatus.VOID, ClaimStatus.UNDECIDED, ClaimStatus.ACCEPTED]
    assert vote(world, 0, 0, 0, A, 1), "its auditors have done their work"
    assert get_claim_status(world.state, world.state.rounds[1], 0, world.block) == ClaimStatus.VOID


def test_a_convicted_claim_that_was_merged_stays_merged() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    dispute(world)
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    assert world.state.rounds[0].merged == (0, 1, 2) and 1 in world.state.rounds


# --- Proofs in one transaction ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ref", "proof", "name"),
    [
        (CLAIM, ProofKind.BOUNDARY_ZERO, None), (CLAIM, ProofKind.DELTA_LEAF, None),
        (CLAIM, ProofKind.TWO_STATEMENTS, "ProofInvalid"), (VOTE, ProofKind.VOTE_LEAF, None),
        (VOTE, ProofKind.TWO_STATEMENTS, None), (VOTE, ProofKind.BOUNDARY_ZERO, "ProofInvalid"),
        (VOTE, ProofKind.ASKED, "ProofInvalid"), (CLAIM, ProofKind.CARRIED_ROOT, None),
        (VOTE, ProofKind.CARRIED_ROOT, "ProofInvalid"), (VOTE, ProofKind.FALSE_WORD, None),
        (CLAIM, ProofKind.FALSE_WORD, "ProofInvalid"), (CLAIM, ProofKind.VOTE_LEAF, "ProofInvalid"),
    ],
)  # fmt: skip
def test_a_proof_fits_its_statement(ref: StatementRef, proof: ProofKind, name: str | None) -> None:
    world = make_judged()
    world.send(calls.SealProof(DIGEST), "x")
    world.jump(world.block + 1)
    invalid = calls.ConvictSeat(ref, proof, DIGEST, is_valid=False)
    assert world.try_send(invalid, "x") == "ProofInvalid"
    assert world.try_send(calls.ConvictSeat(ref, proof, DIGEST), "x") == name
