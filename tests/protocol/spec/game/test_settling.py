"""What a seat gets and pays for a round, when it settles, and when the task closes."""

from dataclasses import replace

from tests.protocol.spec.game.simulation import (
    KEEPER,
    SUBMITTER,
    Simulation,
    get_burned,
    make_vote,
    make_word,
    make_world,
    post,
    solver,
)
from tests.protocol.spec.game.test_posting import A, R, make_judged
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.next_block import get_next_block
from touchstone.protocol.spec.game.state import GameRound, Pool, StatementRef
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vault import ESCROW, credit_of, stake_of
from touchstone.protocol.spec.statements import VoteWord

U, X = VoteWord.UNSERVED, VoteWord.ABSTAIN
SETTLE = 103 + 60 + 720 + 1
"""First block in which round 0, closed in 103, can be settled."""


def get_account(world: Simulation, slot: int, rank: int, index: int = 0) -> str:
    return make_vote(world, world.state, (index, slot, 0, rank), A).signer


def settle(world: Simulation, account: str, block: int, until: int = 0) -> int:
    """What the account gained, less what it lost of its stake."""
    world.jump(max(block, world.block))
    number = world.get_seat(account).number
    before = world.state.vault
    world.send(calls.SettleSeat(number, until), "x")
    after = world.state.vault
    pots = (credit_of(account), stake_of(number))
    return sum(after.get_wei(pot) - before.get_wei(pot) for pot in pots)


def test_the_pay_of_a_rejected_claim_is_burned() -> None:
    """A submitter gains nothing from its own rejecting verifiers."""
    world = make_judged((R, A, A), rounds=1)
    post(world, (0, 1), (1, 2))
    escrow = world.state.vault.get_wei(ESCROW)
    assert settle(world, "solver0", SETTLE) == 0
    assert get_burned(world) == 100 and world.state.vault.get_wei(ESCROW) == escrow - 100


# When
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
    for query, dispute, last in ((31, 89, 290 + 91), (29, 91, 290 + 91), (29, 89, 290 + 90)):
        windows = replace(state.terms.windows, query=query, dispute=dispute)
        changed = replace(state, terms=replace(state.terms, windows=windows))
        late = replace(drawn, late_from=290, root_until=0)
        assert get_duty_until(changed, late) == last


def test_a_task_closes_once_all_seats_are_paid_out() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    assert world.try_send(calls.CloseTask(), "x") == "TaskRuns"
    world.cheats -= {KEEPER}
    world.play()
    assert world.state.is_closed
    left = world.state.vault.get_wei(credit_of(SUBMITTER))
    assert left > 0 and world.state.vault.get_wei(ESCROW) == 0
    assert not world.state.seats, "all stakes are paid out"
    members = [
        calls.JoinSeat(SeatRole.VERIFIER, 500), calls.TopUp(solver(0), 5), calls.LeaveSeat(solver(0)),
        calls.PayOut(solver(0)), calls.CloseTask(),
    ]  # fmt: skip
    for call in members:
        assert world.try_send(call, "solver0") == "TaskIsClosed"
    assert list_upkeep(world.state, world.block) == ()
    world.send(calls.Deposit(5), "late")
    world.send(calls.WithdrawCredit(), "late")
    world.withdraw_all()
    assert world.state.vault.compute_total() == get_burned(world)


def test_no_money_moves_in_a_closed_task() -> None:
    """The contracts ask only where members come and go. Nothing else that passes moves a wei."""
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    votes = tuple(make_vote(world, world.state, (0, 0, 0, rank), A) for rank in range(3))
    world.cheats -= {KEEPER}
    world.play()
    claim, root = StatementRef(0, 0), make_word("root")
    later: list[calls.GameCall] = [
        calls.StartRounds(), calls.DrawStart(), calls.DrawRound(0), calls.DrawAudits(0), calls.DrawClosing(),
        calls.PostRoot(0, (0, 1), root, (solver(0), solver(1), solver(2))), calls.LetStand(0),
        calls.OpenContest(0, 300), calls.QueryVote(replace(claim, draw=0), VoteWord.ACCEPT, 7, 40),
        calls.DisputeStatement(claim, 80), calls.SettleSeat(solver(0), 0), calls.MarkSilent(solver(0), ()),
        calls.CommitRound(0, root, root, root, 4),
    ]  # fmt: skip
    passing = [
        calls.HaltTask(),
        calls.JudgeVotes(0, votes, (calls.HandedOpening(0, 0, 0),)),
        calls.CommitProof(root),
    ]
    before = world.state.vault
    for call in later:
        name = world.try_send(call, "finder", is_funded=False)
        assert name not in (None, "TaskIsClosed", "CreditTooSmall"), call
    for call in passing:
        world.send(call, SUBMITTER, is_funded=False)
    assert world.state.vault == before and not world.state.rounds[0].votes.get((0, 0), {}).get(2)


def test_a_task_that_nobody_joined_closes_after_dispute() -> None:
    world = make_world(solvers=0, verifiers=0, whistleblowers=0)
    assert list_upkeep(world.state, 299) == () and get_next_block(world.state, 299) == 300
    world.jump(300)
    assert list_upkeep(world.state, 300) == (calls.CloseTask(),)
