"""CONTEST of a posted root: two levels of 16 nodes here, ten blocks for each move."""

from dataclasses import replace

import pytest

from tests.protocol.spec.game.test_posting import A, judge, make_judged
from tests.protocol.spec.game.world import World, get_burned, get_credit, make_word, post, solver
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.purse import bond_of, credit_of
from touchstone.protocol.spec.game.silence import is_missed
from touchstone.protocol.spec.game.timing import compute_closing_block
from touchstone.protocol.spec.game.upkeep import list_upkeep


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


def test_a_right_leaf_takes_the_bond_from_the_contester() -> None:
    world = make_contest()
    play_to_leaf(world)
    assert world.try_send(calls.BringLeaf(0, is_right=False), "solver1") == "ProofInvalid"
    world.send(calls.BringLeaf(0), "solver1")
    assert world.state.purse.get_wei(credit_of("solver1")) == 150 and get_burned(world) == 150
    assert world.state.rounds[0].phase == RoundPhase.POSTED and not world.state.contests


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


def test_moves_out_of_turn_are_refused() -> None:
    world = make_contest()
    assert world.try_send(calls.NameChild(0, 1), "watcher") == "WrongTurn"
    assert world.try_send(calls.BringLeaf(0), "solver2") == "WrongTurn"
    assert world.try_send(calls.AnswerContest(0, is_hashing=False), "solver2") == "ProofInvalid"
    world.send(calls.AnswerContest(0), "solver2")
    assert world.try_send(calls.NameChild(0, 1), "solver2") == "NotContester"
    assert world.try_send(calls.AnswerContest(5), "solver2") == "NothingOpen"


def fell(world: World) -> None:
    """The contester of number 0 is never answered."""
    world.jump(world.state.contests[0].clock + 1)
    world.send(calls.EndRootContest(0), "x")
    assert world.state.rounds[0].phase == RoundPhase.FALLEN


def test_several_contests_run_at_once_and_are_moot_once_one_fells_the_root() -> None:
    world = make_contest()
    judge(world, (A, A, A), 1)
    assert post(world, (0, 1), (0, 1, 2), 1) is None
    for index, account, bond in ((0, "second", 600), (1, "third", 900)):
        world.send(calls.OpenContest(index, bond), account)
    assert world.try_send(calls.EndRootContest(1), "x") == "NotLate"
    world.jump(105 + 10)
    world.send(calls.AnswerContest(1), "solver2")
    fell(world)
    assert set(world.state.contests) == {1, 2}, "a fall ends its own contest only"
    for number, account, bond in ((1, "second", 600), (2, "third", 900)):
        assert world.try_send(calls.AnswerContest(number), "solver2") == "NothingOpen"
        assert world.try_send(calls.NameChild(number, 1), account) == "NothingOpen"
        assert world.try_send(calls.BringLeaf(number), "x") == "NothingOpen"
        assert calls.EndRootContest(number) in list_upkeep(world.state, world.block)
        world.send(calls.EndRootContest(number), "x")
        assert get_credit(world, account) == bond, "bonds come back, without a clock"
    assert not world.state.contests


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


def test_the_kth_open_contest_costs_k_bonds() -> None:
    """One is answered with a leaf of up to twelve million gas: at one bond each a right root would fall to as
    many as do not fit into `respond` blocks. Contests of other rounds count too."""
    world = make_contest()
    judge(world, (A, A, A), 1)
    assert post(world, (0, 1), (0, 1, 2), 1) is None
    for index, bond, name in ((0, 300, "WrongBond"), (0, 600, None), (1, 600, "WrongBond"), (1, 900, None)):
        assert world.try_send(calls.OpenContest(index, bond), "watcher") == name
    world.send(calls.AnswerContest(1), "solver2")
    world.jump(world.block + 11)
    world.send(calls.EndRootContest(1), "x")
    assert get_credit(world, "solver2") == 300, "half of two bonds"
    assert world.try_send(calls.OpenContest(0, 900), "watcher") is None, "one has ended"


def test_a_contest_that_is_outrun_opens_and_pays_what_is_due() -> None:
    """Two others open one between the look at the chain and the own call: the limit bears it."""
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    for limit in (300, 600):
        world.send(calls.OpenContest(0, limit), "pest")
    assert world.try_send(calls.OpenContest(0, 899), "watcher") == "WrongBond"
    before = get_credit(world, "watcher")
    assert world.try_send(calls.OpenContest(0, 1500), "watcher") is None
    number = max(world.state.contests)
    assert world.state.purse.get_wei(bond_of(number)) == 900, "the third costs three"
    assert get_credit(world, "watcher") == before + 1500 - 900
    world.send(calls.AnswerContest(number), "solver2")
    world.jump(world.block + 11)
    world.send(calls.EndRootContest(number), "x")
    assert get_credit(world, "solver2") == 450, "half of what was paid"


def test_a_bond_comes_out_of_credit() -> None:
    world = make_judged()
    post(world, (0, 1), (0, 1, 2))
    world.send(calls.Deposit(299), "watcher")
    call = calls.OpenContest(0, 300)
    assert world.try_send(call, "watcher", is_funded=False) == "CreditTooSmall"
    world.send(calls.Deposit(2), "watcher")
    assert world.try_send(call, "watcher", is_funded=False) is None and get_credit(world, "watcher") == 1


def test_a_contest_excuses_nobody() -> None:
    """Who idles pays, whatever is contested (0031): one contest of a right root, for half a bond, freed any
    number of seats of the fee."""
    world = make_judged()
    assert post(world, (0, 1), (0, 1, 2)) is None
    world.jump(compute_closing_block(world.state, world.state.rounds[1]))
    world.send(calls.OpenContest(0, 300), "watcher")
    world.jump(world.block + 1)
    world.send(calls.LetStand(1), "x")
    idle = [seat.number for seat in world.state.seats.values() if is_missed(world.state.rounds[1], seat)]
    assert world.state.contests and idle == [solver(0), solver(1), solver(2)]
