"""Moments that carry over from the last merged claim, and starts that are proven wrong by it."""

from typing import Any

from tests.kit.contract_calls import ContractCall
from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.contests import fells
from tests.kit.plays.evidence import FOUR, START, withstands
from tests.kit.plays.rounds import make_running
from tests.kit.proofs import NO_WORK
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.state import StatementRef

PLAYS = Plays("moments")


def make_carrying(name: str, **changes: Any) -> World:
    """Returns a task whose moments carry over; nobody has committed yet."""
    return make_running(name, **{"model": FOUR, "carries": True, **changes})


def prove_start(
    world: World, index: int, name: str, work_of: int | None = None
) -> tuple[StatementRef, ContractCall]:
    """Returns a claim, and the proof of its start with the work of an earlier round, or with none."""
    ref = make_place(world, index, name, draw=None)
    if work_of is None:
        return ref, world.proofs.start(ref, work=NO_WORK)
    before = make_place(world, work_of, name, draw=None)
    return ref, world.proofs.start(ref, work=world.proofs.get_claim(before).work)


def withstands_start(world: World, reason: str, index: int, name: str, work_of: int | None = None) -> None:
    """A proof of a right start is refused."""
    ref, made = prove_start(world, index, name, work_of)
    world.anybody("zoe").fails_to_convict(ref, START, (made, reason))


def convicts_start(world: World, index: int, name: str, work_of: int | None = None) -> None:
    """A proof of a wrong start convicts."""
    ref, made = prove_start(world, index, name, work_of)
    world.anybody("zoe").convicts(ref, START, made)


def merges(world: World, *merged: str) -> None:
    """The round that runs is drawn, accepted, and merges these claims."""
    world.draws()
    world.all_accept()
    world.posts(merged=merged)


@PLAYS.add
def carried_moments_are_right() -> World:
    """They are those of the last merged claim: without its work leaf nothing is proven."""
    world = make_carrying("carried moments are right")
    world.plays_round()
    world.anybody("ann").commits()
    world.anybody("bob").commits(fault="moments anew")
    withstands_start(world, "start", 1, "ann", 0)
    withstands_start(world, "start", 0, "ann")
    withstands_start(world, "work", 1, "ann")
    convicts_start(world, 1, "bob", 0)
    return world


@PLAYS.add
def nothing_is_carried() -> World:
    """What the last merged claim ended with says nothing of the next start."""
    world = make_carrying("nothing is carried", carries=False)
    world.plays_round()
    world.all_commit()
    withstands_start(world, "start", 1, "ann")
    withstands_start(world, "start", 1, "ann", 0)
    return world


@PLAYS.add
def a_claim_that_was_not_merged_carries_nothing() -> World:
    """The next one starts with zeros."""
    world = make_carrying("a claim that was not merged carries nothing")
    world.all_commit()
    merges(world, "bob", "cid")
    world.all_commit()
    withstands_start(world, "start", 1, "ann")
    withstands_start(world, "start", 1, "bob", 0)
    return world


@PLAYS.add
def the_last_merged_claim_is_sought() -> World:
    """A round that did not merge the solver is passed over."""
    world = make_carrying("the last merged claim is sought")
    world.plays_round()
    world.all_commit()
    merges(world, "bob", "cid")
    for name in ("ann", "bob"):
        world.anybody(name).commits()
    world.anybody("cid").commits(fault="moments anew")
    withstands_start(world, "start", 2, "ann", 0)
    withstands_start(world, "start", 2, "bob", 1)
    withstands_start(world, "work", 2, "bob", 0)
    convicts_start(world, 2, "cid", 1)
    return world


@PLAYS.add
def a_round_without_the_seat_is_passed_over() -> World:
    """cid waits in round 2, where its slot is another's: round 1 merged it last."""
    world = make_carrying("a round without the seat is passed over", solver_seats=3, rounds=5)
    larger = world.solver("larger", 3_000)
    world.plays_round()
    larger.leaves()
    world.plays_round()
    assert world.get_seat("cid").number not in world.live.pool.solvers
    world.plays_round()
    for name in ("ann", "bob"):
        world.anybody(name).commits()
    world.anybody("cid").commits(fault="moments anew")
    convicts_start(world, 3, "cid", 1)
    return world


@PLAYS.add
def moments_start_anew_with_an_epoch() -> World:
    """ann was merged in round 0, which is freed: a later epoch does not look for it."""
    world = make_carrying("moments start anew with an epoch", rounds=20)
    world.plays_round()
    for _ in range(15):
        world.all_commit()
        merges(world, "bob", "cid")
    world.all_commit()
    withstands_start(world, "start", 16, "ann")
    world.comes_to((world.state.rounds[15].closed or 0) + 2 * 30 + 720 + 1)
    world.stands(16)
    world.all_settle(15)
    world.send(calls.FreeEpoch(), STRANGER)
    world.anybody("ann").commits()
    world.anybody("bob").commits(fault="moment")
    withstands_start(world, "start", 17, "ann")
    convicts_start(world, 17, "bob")
    return world


@PLAYS.add
def an_undone_round_proves_weights_alone() -> World:
    """What was merged before a root fell is forgotten: of moments nothing follows."""
    world = World("an undone round proves weights alone", solver_seats=6, model=FOUR, carries=True)
    world.solvers("ann", "bob", "cid", "dan", "eve")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=("bob", "cid", "eve"))
    world.anybody("ann").commits()
    world.anybody("dan").commits(fault="start")
    fells(world, 0)
    withstands(world, "RoundUndone", prove_start(world, 1, "ann", 0)[1])
    convicts_start(world, 1, "dan")
    return world
