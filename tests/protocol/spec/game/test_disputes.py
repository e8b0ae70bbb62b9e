"""Asks, disputes and proofs from outside: who may, until when, for how much, and what the outcome does."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    Simulation,
    get_burned,
    get_credit,
    make_vote,
    make_word,
    post,
    solver,
)
from tests.protocol.spec.game.test_posting import A, R, make_judged
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import GameOutcome, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import SeatSettled
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.state import StatementRef, compute_seat_id
from touchstone.protocol.spec.game.vault import HELD
from touchstone.protocol.spec.statements import VoteWord

CLAIM, VOTE = StatementRef(0, 0), StatementRef(0, 0, 0, 0)
DIGEST = make_word("digest")
CONVICTED = GameOutcome.CONVICTED


def verifier(number: int) -> int:
    return compute_seat_id(SeatRole.VERIFIER, number)


def whistleblower(number: int) -> int:
    return compute_seat_id(SeatRole.WHISTLEBLOWER, number)


def get_signer(world: Simulation, ref: StatementRef = VOTE) -> int:
    account = make_vote(world, world.state, (ref.round, ref.slot, ref.draw or 0, ref.rank), A).signer
    return world.get_seat(account).number


def ask(
    world: Simulation, bond: int = 40, word: VoteWord = A, by: str = "asker", **facts: bool
) -> str | None:
    return world.try_send(calls.QueryVote(VOTE, word, 7, bond, **facts), by)


def dispute(
    world: Simulation, ref: StatementRef = CLAIM, bond: int = 80, sender: str = "whistle0", **facts: Any
) -> str | None:
    return world.try_send(calls.DisputeStatement(ref, bond, **facts), sender)


# ASK


def answer_reject(world: Simulation, ask_number: int = 0) -> None:
    """The asked REJECT was false."""
    world.send(calls.AnswerQuery(ask_number, exceeds_limits=False), "x")


def test_a_slash_pays_no_more_than_it_has() -> None:
    world = make_judged((R, A, A), amounts=replace(AMOUNTS, solver_pay=1_000))
    ask(world, word=R)
    answer_reject(world)
    assert get_credit(world, "solver0") == 500 - 125 - 125
    assert get_burned(world) == 1_000, "its pay, of the escrow"
    world.send(calls.QueryVote(StatementRef(0, 0, 0, 1), R, 7, 40), "asker")
    answer_reject(world, 1)
    assert get_credit(world, "solver0") == 250, "once, even if it was not all"


def make_left() -> Simulation:
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
    assert world.state.rounds[0].restored == frozenset() and world.state.vault.get_wei(HELD) == 250
    assert dispute(world) == "StatementUnknown", "nor does the stranger answer for the claim"


# DISPUTE


def test_a_dispute_lasts_three_answers_and_three_moves_between_at_most() -> None:
    world = make_judged()
    assert dispute(world) is None
    clock = world.state.disputes[0].clock
    assert clock == world.block + 6 * 10
    world.jump(clock + 1)
    world.send(calls.EndDispute(0), "x")
    assert world.get_seat("solver0").status == SeatStatus.ACTIVE, "what nobody proved is no fault"


def list_undrawn(world: Simulation) -> list[int]:
    """Verifiers that are not drawn for VOTE, in any rank."""
    drawn = {get_signer(world, replace(VOTE, rank=rank)) for rank in range(3)}
    return [n for n, seat in world.state.seats.items() if seat.role == SeatRole.VERIFIER and n not in drawn]


def test_who_signed_a_vote_is_answerable_drawn_or_not() -> None:
    world = make_judged((R, A, A))
    number, drawn = list_undrawn(world)[0], get_signer(world)
    assert ask(world, signer=number, word=R) is None  # type: ignore[arg-type]
    assert dispute(world, VOTE, signer=number) is None
    assert [world.state.queries[0].seat, world.state.disputes[1].seat] == [number, number]
    answer_reject(world)
    assert world.state.seats[number].status == SeatStatus.CONVICTED
    assert world.state.seats[drawn].status == SeatStatus.ACTIVE
    assert get_credit(world, "solver0") == 0, "its word did not count, so it made nothing void"
    assert dispute(world, VOTE, signer=number) == "SeatIsConvicted"


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


def test_a_convicted_claim_that_was_merged_stays_merged() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    dispute(world)
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    assert world.state.rounds[0].merged == (0, 1, 2) and 1 in world.state.rounds
