"""What a seat gets and pays for a round, when it settles, and when the task closes."""

from dataclasses import replace

from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_posting import A, R, make_judged
from tests.protocol.spec.game.world import (
    KEEPER,
    SUBMITTER,
    World,
    get_burned,
    make_vote,
    make_word,
    make_world,
    post,
    solver,
    vote,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import HandedOpening
from touchstone.protocol.spec.game.enums import GameOutcome, RoundPhase, SeatRole
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.purse import ESCROW, credit_of, stake_of
from touchstone.protocol.spec.game.state import GameRound, Pool, StatementRef
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.statements import VoteWord

U, X = VoteWord.UNSERVED, VoteWord.ABSTAIN
SETTLE = 103 + 60 + 720 + 1
"""First block in which round 0, closed in 103, can be settled."""


def get_account(world: World, slot: int, rank: int, index: int = 0) -> str:
    return make_vote(world, world.state, (index, slot, 0, rank), A).signer


def settle(world: World, account: str, block: int, until: int = 0) -> int:
    """What the account gained, less what it lost of its stake."""
    world.jump(max(block, world.block))
    number = world.get_seat(account).number
    before = world.state.purse
    world.send(calls.SettleSeat(number, until), "x")
    after = world.state.purse
    pots = (credit_of(account), stake_of(number))
    return sum(after.get_wei(pot) - before.get_wei(pot) for pot in pots)


def test_the_pay_of_a_rejected_claim_is_burned() -> None:
    """A submitter gains nothing from its own rejecting verifiers."""
    world = make_judged((R, A, A), rounds=1)
    post(world, (0, 1), (1, 2))
    escrow = world.state.purse.get_wei(ESCROW)
    assert settle(world, "solver0", SETTLE) == 0
    assert get_burned(world) == 100 and world.state.purse.get_wei(ESCROW) == escrow - 100


def test_the_pay_of_a_convicted_claim_stays_in_the_escrow() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    world.send(calls.DisputeStatement(StatementRef(0, 0), 80), "whistle0")
    world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "x")
    escrow, burned = world.state.purse.get_wei(ESCROW), get_burned(world)
    assert settle(world, "solver0", SETTLE) == 0
    assert (world.state.purse.get_wei(ESCROW), get_burned(world)) == (escrow, burned)


def test_other_pay_of_a_convicted_seat_is_burned() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    world.send(calls.OpenContest(0, 300), "watcher")
    world.jump(116)
    world.send(calls.EndRootContest(0), "x")
    world.jump(122)
    world.send(calls.LetStand(0), "x")
    burned = get_burned(world)
    assert settle(world, "solver0", SETTLE) == 0 and get_burned(world) == burned + 100


def test_one_unserved_costs_nobody() -> None:
    world = make_drawn(rounds=1)
    vote(world, 0, 0, 0, U), vote(world, 0, 0, 1, X)
    world.jump(164)
    world.send(calls.LetStand(0), "x")
    assert settle(world, "solver0", SETTLE) == 0 and get_burned(world) == 100
    assert settle(world, get_account(world, 0, 0), SETTLE) == 0


def test_a_counted_vote_is_paid_with_its_opening_only() -> None:
    world = make_drawn(rounds=1)
    for slot in range(3):
        vote(world, slot, 0, 0, A)
    world.send(calls.JudgeVotes(0, (), (calls.HandedOpening(0, 0, 0),)), "x")
    post(world, (0, 1), (0, 1, 2))
    accounts = [get_account(world, slot, 0) for slot in range(3)]
    assert [settle(world, account, SETTLE) for account in accounts] == [10, 0, 0]


def test_reserves_are_paid_as_the_primary_is() -> None:
    world = make_drawn(rounds=1)
    for rank, word in ((0, X), (1, A), (2, A)):
        assert vote(world, 0, 0, rank, word)
    openings = tuple(HandedOpening(0, 0, rank) for rank in range(3))
    world.send(calls.JudgeVotes(0, (), openings), "x")
    accounts = [get_account(world, 0, rank) for rank in range(3)]
    world.jump(133)
    assert post(world, (0, 1), (0,)) is None
    assert [settle(world, account, SETTLE) for account in accounts] == [0, 10, 10]


def test_what_a_convicted_seat_earned_is_burned() -> None:
    world = make_drawn(rounds=1)
    for slot in range(3):
        vote(world, slot, 0, 0, A)
    world.send(calls.JudgeVotes(0, (), (calls.HandedOpening(0, 0, 0),)), "x")
    post(world, (0, 1), (0, 1, 2))
    account = get_account(world, 0, 0)
    world.send(calls.AskSigner(StatementRef(0, 0, 0, 0), A, 1, 40), "asker")
    world.send(calls.AnswerAsk(0, exceeds_limits=True), "x")
    burned = get_burned(world)
    assert settle(world, account, SETTLE) == 0
    assert get_burned(world) == burned + 10, "the vote of which it was convicted too"


# --- When ---------------------------------------------------------------------------------------------------
def test_the_one_horizon_by_hand() -> None:
    """Closed in 103: dispute 200, audit_max 30, ask 720."""
    closed = GameRound(0, Pool(), b"", opened=100, counted=0, closed=103)
    posted = replace(closed, phase=RoundPhase.POSTED, root_until=500)
    state = make_world().state
    for phase in (RoundPhase.RUNNING, RoundPhase.FALLEN):
        assert get_duty_until(state, replace(posted, phase=phase)) is None
    assert get_duty_until(state, replace(closed, phase=RoundPhase.STANDING)) == 103 + 200
    assert get_duty_until(state, posted) == 500
    drawn = replace(posted, seed=b"seed")
    assert get_duty_until(state, drawn) == 103 + 60 + 720
    assert get_duty_until(state, replace(drawn, late_from=290)) == 290 + 60 + 720
    for ask, dispute, last in ((31, 89, 290 + 91), (29, 91, 290 + 91), (29, 89, 290 + 90)):
        windows = replace(state.terms.windows, ask=ask, dispute=dispute)
        changed = replace(state, terms=replace(state.terms, windows=windows))
        late = replace(drawn, late_from=290, root_until=0)
        assert get_duty_until(changed, late) == last


def test_a_task_closes_once_all_seats_are_paid_out() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    assert world.try_send(calls.CloseGame(), "x") == "TaskRuns"
    world.cheats -= {KEEPER}
    world.play()
    assert world.state.is_closed
    left = world.state.purse.get_wei(credit_of(SUBMITTER))
    assert left > 0 and world.state.purse.get_wei(ESCROW) == 0
    assert not world.state.seats, "all stakes are paid out"
    members = [
        calls.JoinSeat(SeatRole.VERIFIER, 500), calls.TopUp(solver(0), 5), calls.LeaveSeat(solver(0)),
        calls.PayOut(solver(0)), calls.CloseGame(),
    ]  # fmt: skip
    for call in members:
        assert world.try_send(call, "solver0") == "GameOver"
    assert list_upkeep(world.state, world.block) == ()
    world.send(calls.Deposit(5), "late")
    world.send(calls.WithdrawCredit(), "late")
    world.withdraw_all()
    assert world.state.purse.compute_total() == get_burned(world)


def test_no_money_moves_in_a_closed_task() -> None:
    """The contracts ask only where members come and go. Nothing else that passes moves a wei."""
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    votes = tuple(make_vote(world, world.state, (0, 0, 0, rank), A) for rank in range(3))
    world.cheats -= {KEEPER}
    world.play()
    claim, root = StatementRef(0, 0), make_word("root")
    later: list[calls.GameCall] = [
        calls.StartRounds(), calls.SealStart(), calls.SealRound(0), calls.SealAudits(0), calls.SealClosing(),
        calls.PostRoot(0, (0, 1), root, (solver(0), solver(1), solver(2))), calls.LetStand(0),
        calls.OpenContest(0, 300), calls.AskSigner(replace(claim, draw=0), VoteWord.ACCEPT, 7, 40),
        calls.DisputeStatement(claim, 80), calls.SettleSeat(solver(0), 0), calls.MarkSilent(solver(0), ()),
        calls.CommitRound(0, root, root, root, 4),
    ]  # fmt: skip
    passing = [
        calls.HaltTask(),
        calls.JudgeVotes(0, votes, (calls.HandedOpening(0, 0, 0),)),
        calls.SealProof(root),
    ]
    before = world.state.purse
    for call in later:
        name = world.try_send(call, "finder", is_funded=False)
        assert name not in (None, "GameOver", "CreditTooSmall"), call
    for call in passing:
        world.send(call, SUBMITTER, is_funded=False)
    assert world.state.purse == before and not world.state.rounds[0].votes.get((0, 0), {}).get(2)


def test_a_task_that_nobody_joined_closes_after_dispute() -> None:
    world = make_world(solvers=0, verifiers=0, whistleblowers=0)
    assert list_upkeep(world.state, 299) == () and get_next_block(world.state, 299) == 300
    world.jump(300)
    assert list_upkeep(world.state, 300) == (calls.CloseGame(),)
