"""Events: values that a node folds. They move money and make none; what changes nothing logs nothing."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import (
    START_BLOCK,
    Simulation,
    make_commit,
    make_quiet_world,
    make_right_root,
    make_vote,
    solver,
)
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_logs import play_contests, play_questions
from tests.protocol.spec.game.test_posting import A, R, make_fall, make_judged
from touchstone.protocol.spec.game import calls, events
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.reducer import _FOLDS, fold
from touchstone.protocol.spec.game.round_machine import apply
from touchstone.protocol.spec.game.state import create_game
from touchstone.protocol.spec.game.vault import OUTSIDE, SLASHED

KINDS = [one for one in vars(events).values() if isinstance(one, type) and issubclass(one, GameEvent)]
KINDS.remove(GameEvent)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_is_a_value_that_can_be_folded(kind: Any) -> None:
    """Two nodes compare their logs: an event is known by what it says, and never changes."""
    event, same = (kind(*range(len(fields(kind)))) for _ in range(2))
    assert event == same and hash(event) == hash(same) and kind in _FOLDS
    others = [other(*range(len(fields(other)))) for other in KINDS if other is not kind]
    assert event not in others
    for one in fields(kind):
        assert replace(event, **{one.name: "another"}) != event
        with pytest.raises(FrozenInstanceError):
            setattr(event, one.name, "another")


@pytest.mark.parametrize("play", [make_fall, play_questions, play_contests], ids=lambda play: play.__name__)
def test_no_event_makes_money_and_nothing_stays_between_pots(play: Callable[[], Simulation]) -> None:
    """The sum changes by what comes from outside or goes there. A movement is of a wei or more, to another
    pot."""
    world = play()
    state, came = create_game(world.state.terms, BOUNDS_LOCAL, START_BLOCK), 0
    start = state.vault.compute_total()
    for block, event in world.log:
        before, state = state, fold(state, event, block)
        if isinstance(event, WeiMoved):
            assert event.wei > 0 and event.source != event.target
            came += event.wei * ((event.source == OUTSIDE) - (event.target == OUTSIDE))
        else:
            assert state.vault == before.vault, "only movements move money"
        assert state.vault.compute_total() == start + came
    assert not state.vault.get_wei(SLASHED) and state.vault == world.state.vault


def make_joining(world: Simulation) -> tuple[calls.GameCall, str]:
    world.send(calls.Deposit(500), "new")
    return calls.JoinSeat(SeatRole.VERIFIER, 500), "new"


def make_committing(world: Simulation) -> tuple[calls.GameCall, str]:
    return make_commit(world.state, world.state.rounds[0], world.get_seat("solver0")), "solver0"


def make_voting(world: Simulation) -> tuple[calls.GameCall, str]:
    return calls.JudgeVotes(0, (make_vote(world, world.state, (0, 0, 0, 0), R),)), "x"


def make_posting(world: Simulation) -> tuple[calls.GameCall, str]:
    root = make_right_root(world.state.rounds[0], (0, 1, 2))
    return calls.PostRoot(0, (0, 1, 2), root, (solver(0), solver(1))), "x"


@pytest.mark.parametrize(
    ("make", "prepare"),
    [
        (make_quiet_world, make_joining), (make_quiet_world, make_committing), (make_drawn, make_voting),
        (make_judged, make_posting),
    ],
    ids=["join", "commit", "vote", "post"],
)  # fmt: skip
def test_an_event_carries_no_block(
    make: Callable[[], Simulation], prepare: Callable[[Simulation], tuple[calls.GameCall, str]]
) -> None:
    """A node is told in which block it was logged: after a reorganisation the same call logs the same."""
    world = make()
    call, sender = prepare(world)
    logged = apply(world.state, call, sender, world.block)
    assert logged and logged == apply(world.state, call, sender, world.block + 3)


def test_a_call_that_passes_and_changes_nothing_logs_nothing() -> None:
    """Else each repetition of a vote would grow every node's log."""
    world = make_drawn()
    votes = tuple(make_vote(world, world.state, (0, slot, 0, 0), word) for slot, word in enumerate((A, R)))
    call = calls.JudgeVotes(0, votes, (calls.HandedOpening(0, 0, 0),))
    assert len(apply(world.state, call, "x", world.block)) == 3, "the second draw waits for its reserves"
    world.send(call, "x")
    assert apply(world.state, call, "y", world.block) == ()
