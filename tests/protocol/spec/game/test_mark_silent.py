"""Silence: what a seat has missed is named by who says so, and judged by what it did since."""

from tests.protocol.spec.game.silences import find_silences
from tests.protocol.spec.game.simulation import Simulation, commit, make_quiet_world, seal_draw, solver, vote
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.state import MissedPlace
from touchstone.protocol.spec.game.terms import SILENCES_LEAST
from touchstone.protocol.spec.statements import VoteWord

ROUNDS = tuple(MissedPlace(index) for index in range(SILENCES_LEAST))
QUIET = {"keeper": 0, "other keeper": 0}


def mark(world: Simulation, number: int, missed: tuple[MissedPlace, ...]) -> str | None:
    return world.try_send(calls.MarkSilent(number, missed), "x")


def find(world: Simulation, number: int) -> tuple[MissedPlace, ...]:
    return find_silences(world.get_now(), world.state.seats[number], world.block)


# Solvers
def make_missed(count: int = SILENCES_LEAST) -> Simulation:
    """solver2 misses rounds; the keepers do nothing else than to open the next ones."""
    world = make_quiet_world(rounds=6)
    world.silenced = QUIET
    for index in range(count):
        miss(world, index)
    return world


def miss(world: Simulation, index: int) -> None:
    """Two of three commit and nobody votes."""
    commit(world, "solver0", index), commit(world, "solver1", index)
    seal_draw(world, index)
    world.jump((world.state.rounds[index].closed or 0) + 36)
    world.send(calls.LetStand(index), "x")


def test_settled_rounds_are_no_evidence() -> None:
    world = make_missed()
    world.send(calls.HaltTask(), "submitter")
    miss(world, 3)
    world.jump(world.block + 800)
    assert find(world, solver(2)) == (*ROUNDS, MissedPlace(3))
    world.send(calls.SettleSeat(solver(2), 3), "x")
    assert find(world, solver(2)) == () and mark(world, solver(2), ROUNDS) == "NotSilent"


# Auditors
def make_drawn(solvers: int = 4) -> Simulation:
    """Three verifiers for some claims: the verifiers are primaries of every third."""
    world = make_quiet_world(solvers=solvers, verifiers=3, rounds=6, solver_seats=10)
    for i in range(solvers):
        commit(world, f"solver{i}")
    seal_draw(world)
    return world


def get_primary(world: Simulation, slot: int, index: int = 0) -> int:
    number = get_drawn_seat(world.state, world.state.rounds[index], slot, 0, 0)
    assert number is not None
    return number


def test_a_draw_that_is_decided_without_its_primary_is_missed() -> None:
    world = make_drawn()
    number = get_primary(world, 0)
    world.jump((world.state.rounds[0].closed or 0) + 10)
    for rank in (1, 2):
        assert vote(world, 0, 0, rank, VoteWord.ACCEPT)
    assert find(world, number) == (MissedPlace(0, 0),)


def test_a_counted_vote_clears_its_round_and_those_before_it() -> None:
    world = make_drawn()
    number = get_primary(world, 0)
    assert world.state.seats[number].last_voted == -1, "the round before it joined"
    assert vote(world, 3, 0, 0, VoteWord.ABSTAIN)
    assert world.state.seats[number].last_voted == 0
    world.jump((world.state.rounds[0].closed or 0) + 61)
    assert find(world, number) == (), "it missed draw 0 of the same round"
    other = get_primary(world, 1)
    assert find(world, other) == (MissedPlace(0, 1),)


def test_a_vote_on_an_earlier_round_leaves_the_greatest_one() -> None:
    world = make_drawn()
    reserve = get_drawn_seat(world.state, world.state.rounds[0], 0, 0, 1)
    assert reserve is not None
    world.jump((world.state.rounds[0].closed or 0) + 36)
    world.send(calls.LetStand(0), "x")
    for i in range(4):
        commit(world, f"solver{i}", 1)
    seal_draw(world, 1)
    slot = next(slot for slot in range(4) if get_primary(world, slot, 1) == reserve)
    assert vote(world, slot, 0, 0, VoteWord.ACCEPT, 1)
    assert vote(world, 0, 0, 1, VoteWord.ACCEPT, 0)
    assert world.state.seats[reserve].last_voted == 1
