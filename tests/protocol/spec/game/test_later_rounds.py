"""Late votes, disputes and contests after round 0: windows count from the right close, and what falls takes
nothing with it that stands.

Rounds close as soon as all have committed. Round 1 closes in 105, round 2 in 107: its seed draws the late
audits of round 1.
"""

import pytest

from tests.protocol.spec.game.test_posting import A, R, U, judge
from tests.protocol.spec.game.world import (
    World,
    get_burned,
    get_credit,
    make_quiet_world,
    make_vote,
    make_word,
    post,
    solver,
    vote,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import get_claim_status, get_votes
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome, ProofKind, RoundPhase, SeatStatus
from touchstone.protocol.spec.game.purse import ESCROW, restitution_of, stake_of
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import VoteWord

X = VoteWord.ABSTAIN
LATE = 1
"""The number of the late draw where a claim has one draw."""
LATE_VOTE = StatementRef(1, 0, LATE, 0)
CLOSE = 107
"""From where the late votes of round 1 count."""
DIGEST = make_word("digest")


def make_late(**changes: int) -> World:
    """Rounds 0 to 2 are judged; 0 and 1 are posted, and every claim of round 1 has a late audit."""
    world = make_quiet_world(**{"rounds": 6, "late_chance": 1 << 16, **changes})
    for index in range(3):
        judge(world, (A, A, A), index)
        if index < 2:
            assert post(world, (0, 1), (0, 1, 2), index) is None
    assert world.state.rounds[1].late_from == CLOSE and world.state.rounds[1].late_slots == {0, 1, 2}
    return world


def get_signer(world: World, ref: StatementRef = LATE_VOTE) -> str:
    return make_vote(world, world.state, (ref.round, ref.slot, ref.draw or 0, ref.rank), A).signer


def is_closed(world: World, account: str) -> bool:
    return world.get_seat(account).status == SeatStatus.CLOSED


# --- Late votes ---------------------------------------------------------------------------------------------
def test_a_late_vote_is_disputed_from_where_late_votes_count() -> None:
    world = make_late()
    assert vote(world, 0, LATE, 0, A, 1)
    signer, other = get_signer(world), get_signer(world, StatementRef(1, 0, LATE, 1))
    world.jump(CLOSE + 200)
    assert world.try_send(calls.DisputeStatement(StatementRef(1, 0), 80), "x") == "OutsideWindow", "the claim"
    assert world.try_send(calls.DisputeStatement(LATE_VOTE, 80), signer) == "OwnStatement"
    world.send(calls.DisputeStatement(LATE_VOTE, 80), "watcher")
    world.jump(CLOSE + 201)
    assert world.try_send(calls.DisputeStatement(LATE_VOTE, 160), "watcher") == "OutsideWindow"
    world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "watcher")
    assert is_closed(world, signer) and not is_closed(world, other) and not is_closed(world, "solver0")
    assert get_burned(world) == 500 - 125 - 125


def test_a_late_vote_is_asked_about_after_its_own_time() -> None:
    world = make_late()
    assert vote(world, 0, LATE, 0, A, 1)
    signer = get_signer(world)
    world.jump(CLOSE + 60 + 720)
    world.send(calls.AskSigner(LATE_VOTE, A, 3, 40), "asker")
    world.jump(CLOSE + 60 + 721)
    assert world.try_send(calls.AskSigner(LATE_VOTE, A, 3, 80), "asker") == "OutsideWindow"
    world.jump(CLOSE + 60 + 720 + 11)
    world.send(calls.EndAsk(0), "x")
    assert is_closed(world, signer) and get_credit(world, "asker") == 40 + 125


def test_nobody_shows_its_ends_while_late_votes_count() -> None:
    """A late reserve could copy them (findings, M2)."""
    world = make_late()
    assert vote(world, 0, LATE, 0, A, 1)
    world.send(calls.AskSigner(LATE_VOTE, A, 3, 40), "asker")
    assert world.state.asks[0].clock == CLOSE + 60 + 10


def test_a_late_vote_is_proven_false_in_one_transaction_too() -> None:
    world = make_late()
    assert vote(world, 0, LATE, 0, R, 1)
    world.jump(CLOSE + 199)
    world.send(calls.SealProof(DIGEST), "finder")
    world.jump(CLOSE + 200)
    world.send(calls.ConvictSeat(LATE_VOTE, ProofKind.FALSE_WORD, DIGEST), "finder")
    assert get_credit(world, "finder") == 125


@pytest.mark.parametrize(
    ("words", "pay"),
    [((A,), 300), ((R, A, A), 300), ((R, R), 200), ((X, X), 300), ((X, R), 300), ((R, X), 300), ((), 300)],
)
def test_late_votes_of_a_later_round_decide_pay(words: tuple[VoteWord, ...], pay: int) -> None:
    world = make_late()
    for rank, word in enumerate(words):
        assert vote(world, 0, LATE, rank, word, 1)
    assert get_claim_status(world.state, world.state.rounds[1], 0, world.block) == ClaimStatus.ACCEPTED
    assert post(world, (0, 1), (0, 1, 2), 2) is None
    world.jump(2_000)
    world.send(calls.LetStand(3), "x")
    world.send(calls.HaltTask(), "submitter")
    world.jump(20_000)
    world.send(calls.LetStand(4), "x")
    world.jump(40_000)
    world.send(calls.SettleSeat(solver(0), 4), "x")
    assert get_credit(world, "solver0") == pay, "two of three must say that it is false: to abstain is free"
    fees = 2 * 60  # of rounds 3 and 4, which it missed
    assert world.state.purse.get_wei(stake_of(solver(0))) == 2_000 - fees


def test_a_late_rejection_that_falls_pays_the_claim_once() -> None:
    """As a REJECT does that made a claim void: an honest solver loses no pay to who is convicted for it."""
    world = make_late()
    assert vote(world, 0, LATE, 0, R, 1) and vote(world, 0, LATE, 1, R, 1)
    for rank, credit in ((0, 100), (1, 100)):
        convict_vote(world, StatementRef(1, 0, LATE, rank))
        assert get_credit(world, "solver0") == credit
    assert world.state.rounds[1].restored == {0}


@pytest.mark.parametrize("words", [(R, X), (R, A, A), (X, R)])
def test_a_late_rejection_that_took_nothing_restores_nothing(words: tuple[VoteWord, ...]) -> None:
    world = make_late()
    for rank, word in enumerate(words):
        assert vote(world, 0, LATE, rank, word, 1)
    convict_vote(world, StatementRef(1, 0, LATE, words.index(R)))
    assert get_credit(world, "solver0") == 0 and not world.state.rounds[1].restored


def test_a_late_rejection_of_a_claim_that_is_not_accepted_restores_nothing() -> None:
    """It is undecided while its late audit is drawn, and becomes void."""
    world = make_quiet_world(rounds=6, late_chance=1 << 16)
    judge(world, (None, A, A), 0)
    world.jump((world.state.rounds[0].closed or 0) + 30)
    assert post(world, (0, 1), (1, 2)) is None
    judge(world, (A, A, A), 1)
    assert vote(world, 0, LATE, 0, R, 0) and vote(world, 0, LATE, 1, R, 0)
    convict_vote(world, StatementRef(0, 0, LATE, 0))
    assert get_credit(world, "solver0") == 0


def test_a_claim_that_a_slash_has_paid_is_not_made_good_when_its_round_falls() -> None:
    """Its pay was restored out of the liar's slash; the signers' slash owes it nothing."""
    world = make_late()
    assert vote(world, 2, LATE, 0, R, 1) and vote(world, 2, LATE, 1, R, 1)
    escrow = get_escrow(world)
    convict_vote(world, StatementRef(1, 2, LATE, 0))
    assert get_credit(world, "solver2") == 100 and get_escrow(world) == escrow - 100, "its own pay is burned"
    world.send(calls.OpenContest(0, 300), "watcher")
    fell(world, 0)
    assert world.state.rounds[1].phase == world.state.rounds[2].phase == RoundPhase.UNDONE
    assert world.state.falls[0].owed == world.state.falls[0].held == 100, "round 2 alone"
    settle_last(world)
    assert get_credit(world, "solver2") == 100 + 100 + 100, "restored, round 0, and round 2 made good"
    assert world.state.purse.get_wei(restitution_of(0)) == 0


def get_escrow(world: World) -> int:
    return world.state.purse.get_wei(ESCROW)


def settle_last(world: World) -> None:
    """Round 0 stands, and its third solver, who has signed nothing, settles all rounds."""
    world.jump(world.block + 6)
    world.send(calls.LetStand(0), "x")
    world.jump(10_000)
    world.send(calls.SettleSeat(solver(2), world.state.next_round - 1), "x")


def test_a_rejection_in_an_undone_round_burns_the_pay_that_it_took() -> None:
    """Before and after the solver has settled: the slash pays the claim, the escrow does not keep its pay."""
    for is_settled in (False, True):
        world = make_quiet_world(rounds=5)
        for index, words in enumerate(((A, A, A), (A, A, R))):
            judge(world, words, index)
            if index == 0:
                assert post(world, (0, 1), (0, 1, 2), 0, root=make_word("wrong")) is None
        world.send(calls.DisputeStatement(StatementRef(1, 2, 0, 0), 80), "finder")
        world.send(calls.OpenContest(0, 300), "watcher")
        fell(world, 1)
        if is_settled:
            settle_last(world)
        escrow = get_escrow(world)
        world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "finder")
        assert world.state.rounds[1].restored == {2} and get_escrow(world) == escrow - 100
        if not is_settled:
            settle_last(world)
        assert get_credit(world, "solver2") == 200, "round 0, and what the slash paid"


def test_the_pay_that_a_rejection_took_is_burned_once() -> None:
    """In a round that stands settlement has burned it, where the solver settled first."""
    for is_settled in (False, True):
        world = make_quiet_world(rounds=1)
        judge(world, (A, A, R), 0)
        assert post(world, (0, 1), (0, 1), 0) is None
        world.send(calls.DisputeStatement(StatementRef(0, 2, 0, 0), 80), "finder")
        world.jump(10_000)
        escrow = get_escrow(world)
        for is_now in (is_settled, not is_settled):
            if is_now:
                world.send(calls.SettleSeat(solver(2), 0), "x")
            else:
                world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "finder")
        assert get_escrow(world) == escrow - 100 and get_credit(world, "solver2") == 100


def test_a_claim_that_was_not_served_had_no_pay_to_lose() -> None:
    world = make_quiet_world(rounds=5)
    judge(world, (A, A, None), 0)
    for rank, word in enumerate((R, U, U)):
        if rank == 1:
            world.jump((world.state.rounds[0].closed or 0) + 10)
        assert vote(world, 2, 0, rank, word)
    convict_vote(world, StatementRef(0, 2, 0, 0))
    assert get_credit(world, "solver2") == 0 and not world.state.rounds[0].restored


def convict_vote(world: World, ref: StatementRef) -> None:
    world.send(calls.SealProof(DIGEST), "finder")
    world.jump(world.block + 1)
    world.send(calls.ConvictSeat(ref, ProofKind.FALSE_WORD, DIGEST), "finder")


def test_a_late_vote_holds_its_round_until_it_can_cost_nothing() -> None:
    world = make_late()
    assert post(world, (0, 1), (0, 1, 2), 2) is None
    world.send(calls.HaltTask(), "submitter")
    world.jump(300)
    world.send(calls.LetStand(3), "x")
    signer = get_signer(world)
    number, last = world.get_seat(signer).number, (world.state.rounds[3].closed or 0) + 200
    world.jump(CLOSE + 60 + 720)
    assert last < world.block and world.try_send(calls.SettleSeat(number, 3), "x") == "NotSettleable"
    assert world.try_send(calls.PayOut(number), "x") == "SeatBusy"


# --- Contests -----------------------------------------------------------------------------------------------
def make_fallen(solvers: int = 3, words: tuple[VoteWord | None, ...] = (A, A, A)) -> World:
    """A majority posts a wrong root of round 1; round 2 is judged (`words`) on it; then the root falls."""
    world = make_quiet_world(solvers=solvers, solver_seats=solvers, rounds=6, late_chance=1 << 16)
    everybody = tuple(range(solvers))
    signers = everybody[: solvers // 2 + 1]
    for index, root in ((0, b""), (1, make_word("wrong"))):
        judge(world, (A,) * solvers, index)
        assert post(world, signers, everybody, index, root=root) is None
    world.send(calls.OpenContest(1, 300), "watcher")
    judge(world, (*words, *(A,) * (solvers - 3)), 2)
    if None not in words:
        assert post(world, signers, everybody, 2) is None
    fell(world, 0)
    return world


def fell(world: World, number: int) -> None:
    """Nobody answers."""
    world.jump(world.state.contests[number].clock + 1)
    world.send(calls.EndRootContest(number), "x")


def test_a_fall_of_a_later_round_leaves_earlier_ones_alone() -> None:
    world = make_fallen()
    phases = [world.state.rounds[index].phase for index in range(4)]
    assert phases == [RoundPhase.POSTED, RoundPhase.FALLEN, RoundPhase.UNDONE, RoundPhase.UNDONE]
    assert world.state.root == world.state.rounds[0].root
    assert world.state.falls[0].first_round == 2 and world.state.falls[0].owed == 100, "of round 2"
    assert world.state.purse.get_wei(restitution_of(0)) == 100
    assert world.try_send(calls.OpenContest(0, 300), "second") is None, "round 0 is contested by itself"


def test_late_audits_that_an_undone_round_drew_still_count() -> None:
    """The seed of round 2 drew those of round 1, which has fallen and is not undone itself."""
    world = make_fallen()
    assert world.state.rounds[1].late_from == world.state.rounds[2].closed == CLOSE
    assert vote(world, 2, LATE, 0, A, 1) and vote(world, 2, LATE, 0, A, 0)
    assert get_votes(world.state.rounds[1], 2, LATE)[0].word == A
    world.send(calls.DisputeStatement(StatementRef(1, 2, LATE, 0), 80), "watcher")
    world.send(calls.EndDispute(1, outcome=GameOutcome.CONVICTED), "watcher")
    assert is_closed(world, get_signer(world, StatementRef(1, 2, LATE, 0)))


def test_a_late_rejection_in_an_undone_round_took_no_pay() -> None:
    """What the round's fall took is paid out of another slash."""
    world = make_late()
    assert vote(world, 2, LATE, 0, R, 1) and vote(world, 2, LATE, 1, R, 1)
    world.send(calls.OpenContest(0, 300), "watcher")
    fell(world, 0)
    assert world.state.rounds[1].phase == RoundPhase.UNDONE
    convict_vote(world, StatementRef(1, 2, LATE, 0))
    assert get_credit(world, "solver2") == 0 and not world.state.rounds[1].restored


def test_an_undone_rounds_statements_stay_provable_and_its_votes_do_not_count() -> None:
    world = make_fallen(words=(A, A, None))
    claim = StatementRef(2, 2)
    world.send(calls.SealProof(DIGEST), "finder")
    world.jump(world.block + 1)
    assert not vote(world, 2, 0, 0, A, 2), "nobody decides it any more"
    world.send(calls.ConvictSeat(claim, ProofKind.BOUNDARY_ZERO, DIGEST), "finder")
    assert is_closed(world, "solver2")


def test_a_fallen_later_round_is_posted_again_and_contested_for_a_whole_window() -> None:
    world = make_fallen()
    assert post(world, (2,), (0, 1, 2), 1) is None
    again, until = world.block, world.state.rounds[1].root_until
    assert until == again + 200
    world.jump(until)
    assert world.try_send(calls.OpenContest(0, 300), "x") == "OutsideWindow", "round 0 keeps its own window"
    assert world.try_send(calls.OpenContest(1, 300), "x") is None


def test_a_second_fall_of_a_round_owes_nothing_twice() -> None:
    """Four of seven sign a wrong root of round 1, then two of the three that are left sign another."""
    world = make_fallen(solvers=7)
    assert post(world, (4, 5), tuple(range(7)), 1, root=make_word("wrong again")) is None
    number = world.state.next_number
    world.send(calls.OpenContest(1, 300), "second")
    fell(world, number)
    first, second = world.state.falls
    assert (first.first_round, first.last_round, first.owed, first.held) == (2, 3, 300, 300)
    assert (second.first_round, second.last_round, second.owed) == (2, 3, 0)
    assert world.state.purse.get_wei(restitution_of(1)) == 0
