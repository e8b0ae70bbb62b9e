"""POST, what stands without it, and what a fall undoes. The round closes in 103: the merge waits for votes
until 133, a majority has until 138."""

from dataclasses import replace
from typing import Any

from tests.protocol.spec.game.simulation import (
    AMOUNTS,
    KEEPER,
    SUBMITTER,
    Simulation,
    commit,
    get_burned,
    make_quiet_world,
    make_word,
    post,
    seal_draw,
    vote,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind, RoundPhase, SeatRole
from touchstone.protocol.spec.game.events import WeiMoved
from touchstone.protocol.spec.game.restitution import find_fall
from touchstone.protocol.spec.game.state import Fall, StatementRef
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.vault import BURNED, PotKind
from touchstone.protocol.spec.statements import VoteWord

A, R, U = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.UNSERVED


def make_judged(words: tuple[VoteWord | None, ...] = (A, A, A), **changes: Any) -> Simulation:
    """A round in which the primaries have said `words`, and for a REJECT a reserve too."""
    world = make_quiet_world(**{"rounds": 5, **changes})
    judge(world, words, 0)
    return world


def judge(world: Simulation, words: tuple[VoteWord | None, ...], index: int) -> None:
    for slot in range(len(words)):
        account = world.state.seats[world.state.rounds[index].pool.solvers[slot]].account
        assert commit(world, account, index) is None
    seal_draw(world, index)
    for slot, word in enumerate(words):
        if word is not None:
            assert vote(world, slot, 0, 0, word, index)
        if word == R:
            assert vote(world, slot, 0, 1, word, index)


# A fall
def make_fall(rounds_after: int = 2) -> Simulation:
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


def make_expensive_fall() -> Simulation:
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


def test_a_start_that_was_asked_for_is_lost_in_a_fall() -> None:
    """Else it would open a round on the root that fell."""
    world = make_judged(least_solvers=3)
    world.send(calls.CommitProof(make_word("digest")), "x")
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
    assert world.try_send(calls.DrawStart(), "x") == "NoDrawDue"
    assert world.state.root == world.state.terms.root
