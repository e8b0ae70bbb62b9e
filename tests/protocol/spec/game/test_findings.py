"""Plays that broke the first design (its findings C1, C2, H1, H2, M2, M3, M4, L): each fails here."""

from copy import deepcopy
from dataclasses import fields, replace

import pytest

from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    SUBMITTER,
    Simulation,
    get_burned,
    get_credit,
    make_terms,
    make_vote,
    make_word,
    make_world,
    post,
    solver,
    vote,
)
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_posting import A, make_judged
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import HandedOpening
from touchstone.protocol.spec.game.claim_status import get_claim_status, get_votes
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome, ProofKind, RoundPhase, SeatStatus
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.round_machine import apply
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows, compute_escrow
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vault import HELD, credit_of
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.statements import VoteWord

CLAIM, VOTE = StatementRef(0, 0), StatementRef(0, 0, 0, 0)
CONVICTED = GameOutcome.CONVICTED


def make_contest(root: bytes = b"") -> Simulation:
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2), root=root) is None
    world.send(calls.OpenContest(0, 300), "watcher")
    return world


# C1: a pseudo-gradient that nobody can open
def test_c1_a_claim_without_data_is_not_accepted() -> None:
    """Auditors see the whole pseudo-gradient or say UNSERVED."""
    world = make_world(rounds=2)
    world.unserving = {"solver0"}
    world.play(until=lambda w: 1 in w.state.rounds)
    first = world.state.rounds[0]
    slot = first.pool.solvers.index(world.get_seat("solver0").number)
    assert get_claim_status(world.state, first, slot, world.block) == ClaimStatus.VOID
    assert slot not in first.merged and len(first.merged) == 2


def test_c1_nobody_posts_a_root_that_others_have_not_merged() -> None:
    world = make_judged()
    assert post(world, (0,), (0, 1, 2), root=make_word("poison")) == "NoMajority"
    assert post(world, (1, 2), (1, 2)) is None, "who merged needs nobody else"


def test_c1_the_honest_contester_of_a_poisoned_root_needs_no_leaf() -> None:
    """Two of three post a root over data that nobody has: they must bring the inputs, or it falls."""
    world = make_contest(make_word("poison"))
    world.send(calls.AnswerContest(0), "solver0")
    world.send(calls.NameChild(0, 0), "watcher")
    world.jump(world.block + 11)
    world.send(calls.EndRootContest(0), "x")
    assert world.state.rounds[0].phase == RoundPhase.FALLEN
    assert world.state.vault.get_wei(credit_of("watcher")) >= 300, "the bond comes back"
    assert {world.state.seats[n].status for n in (solver(0), solver(1))} == {SeatStatus.CONVICTED}


# C2: windows of one block
@pytest.mark.parametrize("window", [one.name for one in fields(GameWindows)])
@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_c2_no_task_has_a_window_of_one_block(name: str, window: str) -> None:
    amounts = GameAmounts(**{one.name: TOKEN_WEI for one in fields(GameAmounts)})
    terms = make_terms(amounts=amounts)
    short = replace(terms, windows=replace(BOUNDS[name].least, **{window: 1}))
    if getattr(BOUNDS[name].least, window) > 1:
        fault = check_terms(short, BOUNDS[name])
        assert fault is not None and fault.name == "WindowTooShort"


def test_c2_an_answer_has_its_whole_clock_whenever_it_is_asked_for() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    world.jump(163 + 720)
    world.send(calls.QueryVote(VOTE, A, 1, 40), "asker")
    world.jump(world.block + 10)
    assert world.try_send(calls.EndQuery(0), "x") == "NotLate"
    assert world.try_send(calls.AnswerQuery(0), "y") is None


# H1: a cheat's second identity plays a dispute slowly
def test_h1_a_slow_dispute_shields_nobody() -> None:
    world = make_judged()
    world.send(calls.DisputeStatement(CLAIM, 80), "second identity")
    world.send(calls.DisputeStatement(CLAIM, 160), "whistle0")
    world.send(calls.EndDispute(1, outcome=CONVICTED), "whistle0")
    assert world.get_seat("solver0").status == SeatStatus.CONVICTED


def test_h1_losing_on_purpose_acquits_of_nothing() -> None:
    world = make_judged()
    world.send(calls.DisputeStatement(CLAIM, 80), "second identity")
    world.send(calls.EndDispute(0), "second identity")
    world.send(calls.DisputeStatement(CLAIM, 80), "whistle0")
    world.send(calls.EndDispute(1, outcome=CONVICTED), "whistle0")
    assert world.get_seat("solver0").status == SeatStatus.CONVICTED


# H2: closing over disputes, and taking one's own slash back
def test_h2_a_task_does_not_close_over_a_dispute() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    world.jump(303)
    world.send(calls.DisputeStatement(CLAIM, 80), "whistle0")
    for block in (304, 364, 884, 2_000):
        world.jump(block)
        assert world.try_send(calls.CloseTask(), "x") == "TaskRuns"
        assert world.try_send(calls.SettleSeat(solver(0), 0), "x") == "NotSettleable"
        assert world.try_send(calls.PayOut(solver(0)), "x") == "SeatBusy"
    assert calls.EndDispute(0) in list_upkeep(world.state, 364), "six times respond, then it is over"
    world.send(calls.EndDispute(0), "x")
    assert world.try_send(calls.SettleSeat(solver(0), 0), "x") is None


@pytest.mark.parametrize("finder_cap", [0, 150, 1 << 80])
def test_h2_a_full_self_challenge_loses_half_of_the_stake(finder_cap: int) -> None:
    """Submitter, solver and finder are one: they never see half of it again."""
    world = make_judged(amounts=replace(AMOUNTS, finder_cap=finder_cap))
    world.send(calls.DisputeStatement(CLAIM, 80), "friend")
    world.send(calls.EndDispute(0, outcome=CONVICTED), "friend")
    vault = world.state.vault
    back = vault.get_wei(credit_of("friend")) - 80 + vault.get_wei(credit_of(SUBMITTER))
    assert back <= 1_000 and get_burned(world) + vault.get_wei(HELD) >= 1_000


# M2: reserves copy an opened end
def test_m2_nothing_is_opened_before_the_draw_is_decided() -> None:
    world = make_drawn()
    vote(world, 0, 0, 0, VoteWord.REJECT_STATE)
    world.send(calls.JudgeVotes(0, (), (HandedOpening(0, 0, 0),)), "x")
    assert not get_votes(world.state.rounds[0], 0, 0)[0].is_opened
    copied = make_vote(world, world.state, (0, 0, 0, 1), VoteWord.REJECT_STATE)
    world.send(calls.JudgeVotes(0, (copied,), (HandedOpening(0, 0, 0), HandedOpening(0, 0, 1))), "x")
    assert all(one.is_opened for one in get_votes(world.state.rounds[0], 0, 0).values())


# M3: one dispute in the last block locks everybody's stake
def test_m3_a_question_holds_the_seat_that_it_names_and_nobody_else() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    signer = make_vote(world, world.state, (0, 0, 0, 0), A).signer
    world.jump(303)
    world.send(calls.DisputeStatement(VOTE, 80), "pest")
    world.jump(883)
    world.send(calls.EndDispute(0), "x")
    world.send(calls.QueryVote(VOTE, A, 1, 40), "pest")
    world.jump(884)
    assert world.try_send(calls.SettleSeat(solver(0), 0), "x") is None, "nor the solver of the claim"
    for i in range(5):
        refusal = world.try_send(calls.SettleSeat(world.get_seat(f"verifier{i}").number, 0), "x")
        assert refusal == ("NotSettleable" if f"verifier{i}" == signer else None)


# M4: poster and rival in one hand
def test_m4_contests_do_not_replace_a_root_and_cannot_go_on_for_ever() -> None:
    world = make_contest()
    for number in range(1, 6):
        world.send(calls.OpenContest(0, 300 * (number + 1)), f"pest{number}")
    for number in range(6):
        world.send(calls.AnswerContest(number), "solver2")
    world.jump(world.block + 11)
    for number in range(6):
        world.send(calls.EndRootContest(number), "x")
    assert world.state.rounds[0].phase == RoundPhase.POSTED
    assert world.state.vault.get_wei(credit_of("solver2")) == 21 * 150 == get_burned(world)
    world.jump(304)
    assert world.try_send(calls.OpenContest(0, 300), "pest") == "OutsideWindow"


def test_m4_every_fall_costs_a_majority_so_roots_do_not_fall_for_ever() -> None:
    world = make_judged(least_solvers=1)
    assert post(world, (0, 1), (0, 1, 2), root=make_word("wrong")) is None
    for signers in ((2,), ()):
        number = world.state.next_number
        world.send(calls.OpenContest(0, 300), "watcher")
        world.jump(world.block + 11)
        world.send(calls.EndRootContest(number), "x")
        if signers:
            assert post(world, signers, (2,), root=make_word("wrong again")) is None
    assert post(world, (0, 1, 2), (0, 1, 2)) == "NotMergeable", "nobody is left to merge or to sign"
    world.jump(world.block + 6)
    assert world.try_send(calls.LetStand(0), "x") is None


# L
DIGEST = make_word("digest")


def test_l_a_copied_seal_seals_nothing_and_a_seal_expires() -> None:
    world = make_judged()
    proof = calls.ConvictSeat(CLAIM, ProofKind.BOUNDARY_ZERO, DIGEST)
    world.send(calls.CommitProof(DIGEST), "finder")
    assert world.try_send(proof, "finder") == "ProofNotCommitted", "not in the same block"
    world.jump(106)
    assert world.try_send(proof, "thief") == "ProofNotCommitted"
    world.jump(105 + 51)
    assert world.try_send(proof, "finder") == "ProofNotCommitted", "it has expired"
    world.send(calls.CommitProof(DIGEST), "finder")
    world.jump(world.block + 1)
    world.send(proof, "finder")
    assert world.state.vault.get_wei(credit_of("finder")) == 150


def test_l_no_bond_sticks() -> None:
    """Bonds of contests of a root that fell come back; all pots of bonds are empty at the end."""
    world = make_contest(make_word("wrong"))
    world.send(calls.OpenContest(0, 600), "second")
    world.jump(world.block + 11)
    world.send(calls.EndRootContest(0), "x")
    world.send(calls.EndRootContest(1), "x")
    assert get_credit(world, "second") == 600
    assert not [pot for pot in world.state.vault.wei if pot.kind.name in ("BOND", "SLASHED")]


def test_l_amounts_of_two_to_the_96_are_refused() -> None:
    for one in fields(GameAmounts):
        terms = make_terms(amounts=replace(AMOUNTS, **{one.name: 1 << 96}))
        fault = check_terms(terms, BOUNDS["local"])
        assert fault is not None and fault.name == "AmountTooLarge"


def test_l_a_draw_has_blocks_to_be_sealed_in() -> None:
    windows = replace(make_terms().windows, delay=4, draw_grid=6, train_min=60)
    fault = check_terms(make_terms(windows=windows), BOUNDS["local"])
    assert fault is not None and fault.name == "WindowTooShort"


@pytest.mark.parametrize("call", [calls.CommitRound(0, b"", b"", b"", 6), calls.JudgeVotes(9)])
def test_l_a_refused_call_changes_nothing(call: calls.GameCall) -> None:
    """RoundLedger.commit wrote before it checked. A call is worked out on values of its own."""
    world = make_drawn()
    before = deepcopy(world.state)
    assert world.try_send(call, "solver0") is not None and world.state == before
    apply(world.state, calls.CommitProof(DIGEST), "x", world.block)
    apply(world.state, calls.LeaveSeat(solver(0)), "solver0", world.block)
    assert world.state == before, "nor does a call that passes touch the state that it found"


def test_l_money_is_neither_made_nor_lost() -> None:
    """A stake, a bond, a slash and a withdrawal: what came in is there or went out."""
    world = make_judged()
    world.send(calls.DisputeStatement(CLAIM, 80), "finder")
    world.send(calls.EndDispute(0, outcome=CONVICTED), "finder")
    world.send(calls.WithdrawCredit(), "finder")
    assert world.withdrawn == {"finder": 80 + 150}
    total = world.state.vault.compute_total() + sum(world.withdrawn.values())
    assert total == compute_escrow(world.state.terms) + sum(world.deposited.values())
