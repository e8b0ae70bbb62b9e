"""CONTEST of a posted root: two levels of 16 nodes here, ten blocks for each move.

Turns, bonds and what a fall makes moot are played in `tests/kit/plays/contests.py`.
"""

from dataclasses import replace

import pytest

from tests.protocol.spec.game.test_posting import make_judged
from tests.protocol.spec.game.world import World, get_burned, get_credit, make_word, post, solver
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.purse import credit_of


def make_contest(root: bytes = b"") -> World:
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2), root=root) is None
    world.send(calls.OpenContest(0, 300), "watcher")
    return world


def play_to_leaf(world: World) -> None:
    for child in (3, 15):
        world.send(calls.AnswerContest(0), "solver2")
        world.send(calls.NameChild(0, child), "watcher")


@pytest.mark.parametrize(
    ("index", "bond", "block", "name"),
    [
        (0, 299, 105, "WrongBond"), (0, 301, 105, None), (1, 300, 105, "NothingOpen"),
        (7, 300, 105, "RoundUnknown"), (0, 300, 303, None), (0, 300, 304, "OutsideWindow"),
    ],
)  # fmt: skip
def test_a_posted_root_is_contested_until_close_and_dispute(
    index: int, bond: int, block: int, name: str | None
) -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    world.jump(block)
    assert world.try_send(calls.OpenContest(index, bond), "watcher") == name


def test_a_wrong_leaf_fells_the_root() -> None:
    world = make_contest(make_word("wrong"))
    play_to_leaf(world)
    assert world.try_send(calls.BringLeaf(0, is_right=False), "watcher") == "ProofInvalid"
    assert world.try_send(calls.EndRootContest(0), "watcher") == "NotLate"
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "watcher")
    assert world.state.rounds[0].phase == RoundPhase.FALLEN
    assert world.state.purse.get_wei(credit_of("watcher")) == 300 + 150
    assert world.state.purse.get_wei(credit_of("submitter")) == 1_000, "a quarter of two stakes"
    assert get_burned(world) == 4_000 - 150 - 1_000


@pytest.mark.parametrize(("moves", "phase"), [(0, "FALLEN"), (1, "POSTED"), (2, "FALLEN"), (4, "FALLEN")])
def test_who_is_silent_on_turn_loses(moves: int, phase: str) -> None:
    world = make_contest()
    turns: list[tuple[str, calls.GameCall]] = [
        ("solver2", calls.AnswerContest(0)),
        ("watcher", calls.NameChild(0, 1)),
    ] * 2
    for sender, call in turns[:moves]:
        world.send(call, sender)
    clock = world.state.contests[0].clock
    assert clock == world.block + 10
    world.jump(clock)
    assert world.try_send(calls.EndRootContest(0), "x") == "NotLate"
    world.jump(clock + 1)
    assert world.try_send(calls.AnswerContest(0), "solver2") in ("OutsideWindow", "WrongTurn")
    world.send(calls.EndRootContest(0), "x")
    assert world.state.rounds[0].phase.name == phase
    assert world.try_send(calls.EndRootContest(0), "x") == "NothingOpen"


def test_a_move_in_the_last_block_leaves_the_other_its_whole_time() -> None:
    world = make_contest()
    world.jump(world.state.contests[0].clock)
    world.send(calls.AnswerContest(0), "solver2")
    assert world.state.contests[0].clock == world.block + 10


def fell(world: World) -> None:
    """The contester of number 0 is never answered."""
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "x")
    assert world.state.rounds[0].phase == RoundPhase.FALLEN


@pytest.mark.parametrize("root", [b"", make_word("another")])
def test_a_root_that_is_posted_again_does_not_revive_a_contest(root: bytes) -> None:
    """While the root was down nobody could answer for it: its new signers would lose their seats at once."""
    world = make_contest()
    world.send(calls.OpenContest(0, 600), "second")
    fell(world)
    assert post(world, (2,), (0, 1, 2), root=root) is None
    assert world.try_send(calls.AnswerContest(1), "solver2") == "NothingOpen"
    world.jump(world.block + 11)
    world.send(calls.EndRootContest(1), "x")
    assert world.state.rounds[0].phase == RoundPhase.POSTED and get_credit(world, "second") == 600
    assert world.try_send(calls.OpenContest(0, 300), "third") is None


def test_nothing_settles_until_a_contest_of_its_epoch_is_ended() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    world.jump(300)
    world.send(calls.OpenContest(0, 300), "watcher")
    world.send(calls.AnswerContest(0), "solver2")
    world.jump(884)
    assert world.try_send(calls.SettleSeat(solver(0), 0), "x") == "ContestRuns"
    seats, world.state = world.state.seats, replace(world.state, seats={})
    assert world.try_send(calls.CloseGame(), "x") == "TaskRuns", "even with no seat left"
    world.state = replace(world.state, seats=seats)
    world.send(calls.EndRootContest(0), "x")
    assert world.try_send(calls.SettleSeat(solver(0), 0), "x") is None
