"""POST, what stands without it, and what a fall undoes. The round closes in 103: the merge waits for votes
until 133, a majority has until 138."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.world import (
    AMOUNTS,
    KEEPER,
    SUBMITTER,
    World,
    commit,
    get_burned,
    get_credit,
    make_quiet_world,
    make_word,
    post,
    seal_draw,
    solver,
    vote,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.enums import ProofKind, RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import WeiMoved
from touchstone.protocol.spec.game.purse import BURNED, PotKind, restitution_of
from touchstone.protocol.spec.game.restitution import find_fall
from touchstone.protocol.spec.game.round_pay import RoundMoney, compute_round_money
from touchstone.protocol.spec.game.state import Fall, StatementRef
from touchstone.protocol.spec.game.terms import FALLS_MAX, compute_escrow
from touchstone.protocol.spec.statements import VoteWord

A, R, U = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.UNSERVED


def make_judged(words: tuple[VoteWord | None, ...] = (A, A, A), **changes: Any) -> World:
    """A round in which the primaries have said `words`, and for a REJECT a reserve too."""
    world = make_quiet_world(**{"rounds": 5, **changes})
    judge(world, words, 0)
    return world


def judge(world: World, words: tuple[VoteWord | None, ...], index: int) -> None:
    for slot in range(len(words)):
        account = world.state.seats[world.state.rounds[index].pool.solvers[slot]].account
        assert commit(world, account, index) is None
    seal_draw(world, index)
    for slot, word in enumerate(words):
        if word is not None:
            assert vote(world, slot, 0, 0, word, index)
        if word == R:
            assert vote(world, slot, 0, 1, word, index)


@pytest.mark.parametrize(
    ("merged", "signers", "name"),
    [
        ((0, 1, 2), (0, 1), None),
        ((0, 1, 2), (0,), "NoMajority"),
        ((0, 1, 2), (0, 0, 0), "NoMajority"),
        ((0, 1, 2), (0, 3, 4, 5), "NoMajority"),
        ((0,), (0, 1), None),
        ((), (0, 1), "NotMergeable"),
        ((1, 0), (0, 1), "NotMergeable"),
        ((0, 0), (0, 1), "NotMergeable"),
        ((0, 3), (0, 1), "NotMergeable"),
    ],
)
def test_a_majority_of_the_pool_posts_accepted_claims(
    merged: tuple[int, ...], signers: tuple[int, ...], name: str | None
) -> None:
    world = make_judged()
    assert post(world, signers, merged, root=make_word("r")) == name
    assert (1 in world.state.rounds) == (name is None), "round 1 opens in the block of the post"


def test_who_has_not_committed_signs_too() -> None:
    world = make_quiet_world(solvers=4)
    for i in range(3):
        commit(world, f"solver{i}")
    seal_draw(world)
    for slot in range(3):
        vote(world, slot, 0, 0, A)
    assert post(world, (2, 3), (0, 1, 2)) == "NoMajority", "half is no majority"
    assert post(world, (1, 2, 3), (0, 1, 2)) is None


def test_a_void_claim_is_not_merged() -> None:
    world = make_judged((A, R, A))
    assert post(world, (0, 1), (0, 1)) == "NotMergeable"
    assert post(world, (0, 1), (0, 2)) is None


# --- A fall -------------------------------------------------------------------------------------------------
def make_fall(rounds_after: int = 2) -> World:
    """Signers 0 and 1 post a wrong root; round 1 is posted on it, round 2 is open, then the root falls."""
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2), root=make_word("wrong")) is None
    world.send(calls.OpenContest(0, 300), "watcher")
    if rounds_after == 2:
        judge(world, (A, A, A), 1)
        assert post(world, (1, 2), (0, 1, 2), 1) is None
        assert commit(world, "solver2", 2) is None
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "x")
    return world


def test_a_fall_convicts_its_signers_and_undoes_later_rounds() -> None:
    world = make_fall()
    phases = [world.state.rounds[index].phase for index in range(3)]
    assert phases == [RoundPhase.FALLEN, RoundPhase.UNDONE, RoundPhase.UNDONE]
    statuses = [world.state.seats[solver(n)].status for n in range(3)]
    assert statuses == [SeatStatus.CLOSED, SeatStatus.CLOSED, SeatStatus.OPEN], "2 signed round 1 only"
    assert world.state.root == world.state.terms.root
    assert commit(world, "solver2", 2) == "RoundUndone"
    assert world.try_send(calls.SealAudits(2), "x") == "NothingToSeal"


def test_the_signers_slash_holds_what_accepted_work_of_undone_rounds_is_owed() -> None:
    world = make_fall()
    assert world.state.falls == (Fall(0, 1, 2, owed=100, held=100),), "the signers' own claims are not owed"
    assert get_credit(world, "watcher") == 150 + 300, "capped share, and the bond"
    assert world.state.purse.get_wei(restitution_of(0)) == 100
    assert get_burned(world) == 4_000 - 150 - 1_000 - 100


def test_accepted_work_of_undone_rounds_is_paid_at_settlement_in_any_order() -> None:
    world = make_fall()
    world.jump(world.block + 6)
    world.send(calls.LetStand(0), "x")
    world.jump(3_000)
    for number in (0, 1):
        burned = get_burned(world)
        world.send(calls.SettleSeat(solver(number), 2), "x")
        assert world.state.purse.get_wei(restitution_of(0)) == 100, "the convicted take nothing from it"
        assert get_burned(world) == burned + 100, "their pay of round 0, from the escrow"
    world.send(calls.SettleSeat(solver(2), 2), "x")
    paid = get_credit(world, "solver2")
    assert paid == 100 + 100, "round 0 from the escrow, round 1 from the slash, round 2 is not accepted"


def make_expensive_fall() -> World:
    """Five solvers, pay of 4,000: three sign, the slash has 4,350 for 8,000 (a short
    claim counts as a whole one)."""
    amounts = replace(AMOUNTS, solver_pay=4_000)
    world = make_quiet_world(rounds=5, solvers=5, solver_seats=5, amounts=amounts)
    for index in range(2):
        for i in range(5):
            assert commit(world, f"solver{i}", index, segments=1 if i == 4 else 6) is None
        seal_draw(world, index)
        assert all(vote(world, slot, 0, 0, A, index) for slot in range(5))
        root = make_word("wrong") if index == 0 else None
        assert post(world, (0, 1, 2), (0, 1, 2, 3, 4), index, root=root) is None
    world.send(calls.OpenContest(0, 300), "watcher")
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "x")
    return world


def test_what_is_held_is_shared_and_its_rest_burned_when_the_task_closes() -> None:
    world = make_expensive_fall()
    assert world.state.falls == (Fall(0, 1, 2, owed=8_000, held=4_350),)
    burned = get_burned(world)
    assert burned == 0
    world.cheats -= {KEEPER}
    world.play()
    assert world.state.is_closed and not [pot for pot in world.state.purse.wei if pot == restitution_of(0)]
    moved = [e.wei for _, e in world.log if isinstance(e, WeiMoved) and e.source == restitution_of(0)]
    assert moved == [4_000 * 4_350 // 8_000, 666 * 4_350 // 8_000, 1_813]


def test_a_fall_burns_half_of_its_stakes_whoever_is_in_it() -> None:
    """Submitter, signers, contester, the other solvers and all auditors are one: what restitution gives back
    to them they lose in the escrow, so a full self-challenge loses the burn."""
    world = make_expensive_fall()
    world.cheats -= {KEEPER}
    world.play()
    world.withdraw_all()
    escrow = compute_escrow(world.state.terms)
    coalition = set(world.deposited) | set(world.withdrawn) | {SUBMITTER}
    lost = escrow - sum(world.get_gain(account) for account in coalition)
    assert world.state.is_closed and lost == get_burned(world)
    moves = [event for _, event in world.log if isinstance(event, WeiMoved) and event.target == BURNED]
    fees = sum(move.wei for move in moves if move.source.kind == PotKind.STAKE)
    pay_of_the_convicted = 3 * 4_000
    assert lost - fees - pay_of_the_convicted == 4_350 >= 3 * 2_000 // 2


def test_a_round_belongs_to_the_first_fall_that_made_it_undone() -> None:
    state, undone = make_fall().state, RoundPhase.UNDONE
    state = replace(state, falls=(Fall(0, 2, 2, 0, 0), Fall(1, 1, 4, 100, 50)))
    falls = [find_fall(state, replace(state.rounds[2], index=index, phase=undone)) for index in (1, 2, 3, 4)]
    assert [fall and fall.number for fall in falls] == [1, 0, 1, 1]
    assert find_fall(state, replace(state.rounds[2], phase=RoundPhase.STANDING)) is None


def test_auditors_are_paid_in_undone_rounds_for_what_was_opened_before() -> None:
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2), root=make_word("wrong")) is None
    for i in range(3):
        assert commit(world, f"solver{i}", 1) is None
    seal_draw(world, 1)
    for slot, word in ((0, A), (1, A), (2, U)):
        assert vote(world, slot, 0, 0, word, 1)
    assert vote(world, 2, 0, 1, U, 1)
    world.send(calls.JudgeVotes(1, (), (calls.HandedOpening(0, 0, 0),)), "x")
    world.send(calls.OpenContest(0, 300), "watcher")
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "x")
    world.send(calls.JudgeVotes(1, (), (calls.HandedOpening(1, 0, 0),)), "x")
    later = world.state.rounds[1]
    assert later.votes[0, 0][0].is_opened and not later.votes[1, 0][0].is_opened, "too late"
    for rank, slot, paid, fees in ((0, 0, 10, 0), (0, 2, 0, 70), (1, 2, 0, 70)):
        number = get_drawn_seat(world.state, later, slot, 0, rank)
        money = compute_round_money(world.state, world.state.seats[number or 0], later, world.block)
        assert (money.paid, money.fees) == (paid, fees)
    solver2 = world.state.seats[solver(2)]
    assert compute_round_money(world.state, solver2, later, world.block) == RoundMoney(), "a solver: nothing"


@pytest.mark.parametrize(("before", "is_halted"), [(FALLS_MAX - 2, False), (FALLS_MAX - 1, True)])
def test_the_eighth_fall_halts_the_task(before: int, is_halted: bool) -> None:
    """Else whoever pays for falls makes settling and closing dearer than a transaction may be."""
    world = make_judged()
    assert post(world, (0, 1), (0, 1), root=make_word("wrong")) is None
    world.send(calls.OpenContest(0, 300), "watcher")
    world.state = replace(world.state, falls=(Fall(0, 1, 0, owed=0, held=0),) * before)
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "x")
    assert world.state.is_halted == is_halted
    joined = world.try_send(calls.JoinSeat(SeatRole.SOLVER, 3_000), "new")
    assert joined == ("TaskHalted" if is_halted else None)


def test_after_a_fall_the_root_stands_once_post_is_over() -> None:
    world = make_fall()
    fallen = world.block
    for block, name in ((fallen + 5, "NotLate"), (fallen + 6, None)):
        world.jump(block)
        assert world.try_send(calls.LetStand(0), "x") == name
    assert post(world, (2,), (0, 1, 2)) == "NotNewest"
    world.send(calls.StartRounds(), "x")
    assert world.state.start is not None and world.state.start.first_round == 3, "the next unused number"


def test_a_root_that_was_posted_again_can_be_contested_for_a_whole_window() -> None:
    """Else a second majority would post a wrong root in the last block of the first window."""
    world = make_fall()
    world.jump(world.block + 5)
    assert post(world, (2,), (0, 1, 2), root=make_word("wrong again")) is None
    posted = world.block
    world.jump(posted + 200)
    assert world.try_send(calls.SettleSeat(solver(2), 0), "x") == "NotSettleable"
    assert world.try_send(calls.OpenContest(0, 300), "watcher") is None


def test_a_start_that_was_asked_for_is_lost_in_a_fall() -> None:
    """Else it would open a round on the root that fell."""
    world = make_judged(least_solvers=3)
    world.send(calls.SealProof(make_word("digest")), "x")
    world.jump(106)
    proof = calls.ConvictSeat(StatementRef(0, 0), ProofKind.DELTA_LEAF, make_word("digest"))
    world.send(proof, "x")
    assert post(world, (1, 2), (1, 2), root=make_word("wrong")) is None
    assert 1 not in world.state.rounds, "two of the pool are not three"
    world.send(calls.OpenContest(0, 300), "watcher")
    world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000), "new")
    world.jump(117)
    world.send(calls.StartRounds(), "x")
    assert world.state.start is not None
    world.send(calls.EndRootContest(0), "x")
    world.jump(130)
    assert world.try_send(calls.SealStart(), "x") == "NothingToSeal"
    assert world.state.root == world.state.terms.root
