"""What a run waits for is said at each stage, with the names of those who are late."""

from typing import Any

from tests.protocol.spec.game.simulation import make_quiet_world
from touchstone.demo.waits import CLOSING, SEATED, TRAINED, Progress, describe_wait, list_some
from touchstone.explorer.names import Names
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.logged_game import LoggedGame


def look(world: Any) -> tuple[str, float]:
    members = [seat.account for seat in world.state.seats.values()]
    progress = Progress(Names({one: one for one in members}), members, {"solver1": " (2 of 8 steps)"})
    return describe_wait(progress, LoggedGame(**vars(world.state)), InnerBook(60))


def test_each_stage_of_a_run_has_words_and_the_share_grows() -> None:
    nobody = Progress(Names({}), ["solver0"], {})
    words, share = describe_wait(nobody, None, None)
    assert words == "the submitter to post the task" and 0 < share < SEATED
    world = make_quiet_world()
    world.play(until=lambda w: 0 in w.state.rounds)
    words, share = look(world)
    assert "to train round 0" in words and "solver1 (2 of 8 steps)" in words and share == SEATED
    world.play()
    words, share = look(world)
    assert words == CLOSING and share == TRAINED


def test_many_names_are_cut() -> None:
    assert list_some(["a", "b"]) == "a, b" and list_some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
