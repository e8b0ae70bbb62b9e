"""Asks, disputes and proofs from outside: who may, until when, for how much, and what the outcome does."""

import pytest

from protocol.spec.game import calls
from protocol.spec.game.enums import ClaimFate, GameOutcome, ProofKind, SeatRole, SeatStatus
from protocol.spec.game.fates import get_claim_fate
from protocol.spec.game.purse import ESCROW, credit_of
from protocol.spec.game.state import StatementRef
from protocol.spec.statements import VoteWord
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_posting import A, R, judge, make_judged
from tests.protocol.spec.game.world import World, get_burned, make_vote, make_word, post, vote

CLAIM, VOTE = StatementRef(0, 0), StatementRef(0, 0, 0, 0)
DIGEST = make_word("digest")
CONVICTED = GameOutcome.CONVICTED


def get_signer(world: World, ref: StatementRef = VOTE) -> int:
    account = make_vote(world, world.state, (ref.round, ref.slot, ref.draw or 0, ref.rank), A).signer
    return world.get_seat(account).number


def ask(world: World, bond: int = 40, word: VoteWord = A, by: str = "asker", **facts: bool) -> str | None:
    return world.try_send(calls.AskSigner(VOTE, word, 7, bond, **facts), by)


def dispute(
    world: World, ref: StatementRef = CLAIM, bond: int = 80, sender: str = "whistle0", **facts: bool
) -> str | None:
    return world.try_send(calls.DisputeStatement(ref, bond, **facts), sender)


# --- ASK ----------------------------------------------------------------------------------------------------
def test_the_signer_is_asked_until_six_rounds_after_its_votes_time() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    for block, name in ((163 + 720, None), (163 + 721, "OutsideWindow")):
        world.jump(block)
        assert ask(world, 40) == name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"bond": 39}, "WrongBond"),
        ({"word": VoteWord.UNSERVED}, "WordNotAsked"),
        ({"word": VoteWord.REJECT_DELTA}, "WordNotAsked"),
        ({"is_signed": False}, "StatementUnknown"),
        ({"word": R}, None),
        ({}, None),
    ],
)
def test_what_can_be_asked(changes: dict[str, object], name: str | None) -> None:
    assert ask(make_judged(), **changes) == name  # type: ignore[arg-type]


def test_exact_tasks_are_never_asked_and_nobody_asks_itself() -> None:
    assert ask(make_judged(is_exact=True)) == "WordNotAsked"
    world = make_judged()
    assert ask(world, by=world.state.seats[get_signer(world)].account) == "OwnStatement"
    late = calls.AskSigner(StatementRef(0, 0, 1, 0), A, 7, 40)
    assert world.try_send(late, "x") == "StatementUnknown", "no late audit was drawn"


def test_the_kth_open_ask_costs_k_bonds() -> None:
    world = make_judged()
    assert ask(world) is None and ask(world) == "WrongBond" and ask(world, 80) is None
    assert ask(world, 120) is None
    world.send(calls.AnswerAsk(1), "x")
    assert ask(world, 120) is None, "one was answered"


@pytest.mark.parametrize(
    ("word", "is_beyond", "is_convicted"),
    [(A, False, False), (A, True, True), (R, True, False), (R, False, True)],
)
def test_the_contract_compares(word: VoteWord, is_beyond: bool, is_convicted: bool) -> None:
    world = make_judged()
    number = get_signer(world)
    ask(world, word=word)
    assert world.try_send(calls.AnswerAsk(0, is_fitting=False), "x") == "ProofInvalid"
    world.send(calls.AnswerAsk(0, is_beyond=is_beyond), "anybody")
    assert (world.state.seats[number].status == SeatStatus.CLOSED) == is_convicted
    gained = world.state.purse.get_wei(credit_of(world.state.seats[number].account))
    assert gained == (0 if is_convicted else 20), "half of the bond"
    assert world.try_send(calls.AnswerAsk(0), "x") == "NothingOpen"


def test_no_answer_costs_the_seat() -> None:
    world = make_judged()
    ask(world)
    clock = world.state.asks[0].clock
    world.jump(clock)
    assert world.try_send(calls.EndAsk(0), "x") == "NotLate"
    world.jump(clock + 1)
    assert world.try_send(calls.AnswerAsk(0), "x") == "OutsideWindow"
    world.send(calls.EndAsk(0), "x")
    assert world.state.purse.get_wei(credit_of("asker")) == 40 + 125, "the bond, and a quarter of 500"
    assert world.state.purse.get_wei(credit_of("submitter")) == 125 and get_burned(world) == 250


def test_a_solver_is_paid_out_of_the_slash_where_rejections_fall() -> None:
    world = make_judged((R, A, A))
    ask(world, word=R)
    world.send(calls.AnswerAsk(0, is_beyond=False), "x")
    assert world.state.rounds[0].restored == {0: 100}
    assert get_burned(world) == 500 - 125 - 125 - 100
    assert get_claim_fate(world.state, world.state.rounds[0], 0, world.block) == ClaimFate.VOID
    escrow = world.state.purse.get_wei(ESCROW)
    second = calls.AskSigner(StatementRef(0, 0, 0, 1), R, 7, 40)
    world.send(second, "asker")
    world.send(calls.AnswerAsk(1, is_beyond=False), "x")
    assert world.state.purse.get_wei(ESCROW) == escrow, "paid once"
    post(world, (0, 1), (1, 2))
    world.jump(304)
    world.send(calls.SettleSeat(0, 0), "x")
    assert world.state.purse.get_wei(credit_of("solver0")) == 100


def test_a_solver_that_has_settled_is_paid_at_once() -> None:
    world = make_judged((R, A, A))
    post(world, (0, 1), (1, 2))
    world.jump(400)
    world.send(calls.SettleSeat(0, 0), "x")
    assert world.state.purse.get_wei(credit_of("solver0")) == 0
    ask(world, word=R)
    world.send(calls.AnswerAsk(0, is_beyond=False), "x")
    assert world.state.purse.get_wei(credit_of("solver0")) == 100


def test_the_pay_goes_to_who_committed_not_to_who_has_the_number_now() -> None:
    world = make_judged((R, A, A), rounds=1)
    post(world, (0, 1), (1, 2))
    world.send(calls.LeaveSeat(0), "solver0")
    world.jump(304)
    world.send(calls.SettleSeat(0, 0), "x")
    world.send(calls.PayOut(0), "x")
    world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000), "stranger")
    assert world.get_seat("stranger").number == 0
    ask(world, word=R)
    world.send(calls.AnswerAsk(0, is_beyond=False), "x")
    assert world.state.purse.get_wei(credit_of("solver0")) == 2_000 + 100
    assert world.state.purse.get_wei(credit_of("stranger")) == 0
    assert dispute(world) == "StatementUnknown", "nor does the stranger answer for the claim"


# --- DISPUTE ------------------------------------------------------------------------------------------------
def test_a_claim_is_disputed_once_decided_and_until_dispute_is_over() -> None:
    world = make_drawn()
    assert dispute(world) == "ClaimUndecided"
    vote(world, 0, 0, 0, A)
    assert dispute(world, bond=79) == "WrongBond"
    assert dispute(world, sender="solver0") == "OwnStatement"
    assert dispute(world, StatementRef(0, 9)) == "StatementUnknown"
    assert dispute(world, StatementRef(9, 0)) == "StatementUnknown"
    assert dispute(world, VOTE, is_signed=False) == "StatementUnknown"
    world.jump(303)
    assert dispute(world) is None and dispute(world, bond=160) is None
    world.jump(304)
    assert dispute(world, bond=240) == "OutsideWindow"


def test_a_convicted_dispute_takes_the_seat_and_ends_the_others() -> None:
    world = make_judged()
    for bond, sender in ((80, "whistle0"), (160, "whistle1")):
        assert dispute(world, bond=bond, sender=sender) is None
    world.send(calls.EndDispute(1, outcome=CONVICTED), "x")
    assert world.get_seat("solver0").status == SeatStatus.CLOSED and not world.state.disputes
    assert world.state.purse.get_wei(credit_of("whistle0")) == 80
    assert world.state.purse.get_wei(credit_of("whistle1")) == 160 + 150
    assert world.state.purse.get_wei(credit_of("submitter")) == 500
    assert get_burned(world) == 2_000 - 150 - 500
    assert dispute(world) == "SeatClosed", "slashed once"


def test_a_lost_dispute_costs_its_bond_and_acquits_of_nothing() -> None:
    world = make_judged()
    assert dispute(world) is None
    world.send(calls.EndDispute(0), "x")
    assert world.state.purse.get_wei(credit_of("solver0")) == 40 and get_burned(world) == 40
    assert dispute(world) is None, "and another may be opened"
    world.send(calls.EndDispute(1, outcome=CONVICTED), "x")
    assert world.get_seat("solver0").status == SeatStatus.CLOSED


def test_a_dispute_lasts_three_answers_at_most() -> None:
    world = make_judged()
    assert dispute(world) is None
    clock = world.state.disputes[0].clock
    assert clock == world.block + 3 * 10
    world.jump(clock + 1)
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    assert world.get_seat("solver0").status == SeatStatus.OPEN, "too late to convict"


def test_a_vote_is_disputed_too() -> None:
    world = make_judged()
    number = get_signer(world)
    assert dispute(world, VOTE) is None
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    assert world.state.seats[number].status == SeatStatus.CLOSED
    assert world.state.rounds[0].votes[0, 0][0].is_false
    assert get_claim_fate(world.state, world.state.rounds[0], 0, world.block) == ClaimFate.ACCEPTED


def test_a_conviction_makes_undecided_claims_void_and_decided_ones_stay() -> None:
    world = make_judged((A, None, A))
    for slot in (0, 1):
        ref = StatementRef(0, slot)
        world.send(calls.SealProof(DIGEST), "x")
        world.jump(world.block + 1)
        world.send(calls.ConvictSeat(ref, ProofKind.DELTA_LEAF, DIGEST), "x")
    fates = [get_claim_fate(world.state, world.state.rounds[0], slot, world.block) for slot in range(3)]
    assert fates == [ClaimFate.VOID, ClaimFate.VOID, ClaimFate.ACCEPTED]
    assert post(world, (2,), (0, 2)) == "NotMergeable", "what is convicted in time is not merged"
    assert post(world, (2,), (2,)) is None


def test_a_conviction_makes_the_seats_undecided_claims_of_other_rounds_void() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    judge(world, (None, None, A), 1)
    dispute(world)
    world.send(calls.EndDispute(0, outcome=CONVICTED), "x")
    later = world.state.rounds[1]
    fates = [get_claim_fate(world.state, later, slot, world.block) for slot in range(3)]
    assert fates == [ClaimFate.VOID, ClaimFate.UNDECIDED, ClaimFate.ACCEPTED]
    assert vote(world, 0, 0, 0, A, 1), "its auditors have done their work"
    assert get_claim_fate(world.state, world.state.rounds[1], 0, world.block) == ClaimFate.VOID


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
        (CLAIM, ProofKind.TWO_VOTES, "ProofInvalid"), (VOTE, ProofKind.VOTE_LEAF, None),
        (VOTE, ProofKind.TWO_VOTES, None), (VOTE, ProofKind.BOUNDARY_ZERO, "ProofInvalid"),
        (VOTE, ProofKind.ASKED, "ProofInvalid"),
    ],
)  # fmt: skip
def test_a_proof_fits_its_statement(ref: StatementRef, proof: ProofKind, name: str | None) -> None:
    world = make_judged()
    world.send(calls.SealProof(DIGEST), "x")
    world.jump(world.block + 1)
    invalid = calls.ConvictSeat(ref, proof, DIGEST, is_valid=False)
    assert world.try_send(invalid, "x") == "ProofInvalid"
    assert world.try_send(calls.ConvictSeat(ref, proof, DIGEST), "x") == name


def test_a_claim_can_be_convicted_before_it_is_decided() -> None:
    world = make_drawn()
    world.send(calls.SealProof(DIGEST), "x")
    world.jump(world.block + 1)
    assert world.try_send(calls.ConvictSeat(CLAIM, ProofKind.BOUNDARY_ZERO, DIGEST), "x") is None
