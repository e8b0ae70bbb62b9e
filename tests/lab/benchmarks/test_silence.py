"""What the play of killed solvers is judged by. The play itself is `./dev bench silence`."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.e2e.leaving import WINDOWS, list_leaving_flaws
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameRound


def make_round(counted: int, claims: int, **changed: Any) -> GameRound:
    """Of so many seats, so many of which claimed: it closed with the last claim, or at `trainMax`."""
    is_full = claims == counted
    closed, phase = (10, RoundPhase.POSTED) if is_full else (WINDOWS.train_max, RoundPhase.STANDING)
    right = {"trained_from": 0, "closed": closed, "filled": closed if is_full else None, "phase": phase}
    one = SimpleNamespace(counted=counted, claims=dict.fromkeys(range(claims)), **right | changed)
    return cast(GameRound, one)


FIRST, WAITING, LATER = (4, 4), (4, 2), (3, 3)
RIGHT = [FIRST, WAITING, WAITING, WAITING, LATER, LATER]


def test_rounds_that_wait_for_the_dead_and_then_run_are_right() -> None:
    assert list_leaving_flaws([make_round(*one) for one in RIGHT]) == []


@pytest.mark.parametrize(
    ("place", "changed", "flaw"),
    [
        (0, make_round(4, 3), "all four commit to the first round"),
        (3, make_round(*LATER), "the dead sit until they have missed enough"),
        (5, make_round(*WAITING), "rounds with the dead come before all others"),
        (2, make_round(4, 1), "the living commit while the dead sit"),
        (2, make_round(*WAITING, phase=RoundPhase.POSTED), "the base root stands while the dead sit"),
        (1, make_round(*WAITING, closed=WINDOWS.train_max - 1), "rounds with the dead close at trainMax"),
        (4, make_round(3, 2, filled=None), "the newcomer sits and commits in each of those"),
        (5, make_round(2, 2), "the newcomer sits and commits in each of those"),
        (5, make_round(*LATER, phase=RoundPhase.STANDING), "those are merged"),
        (5, make_round(*LATER, closed=11), "those close once all have committed"),
    ],
)
def test_what_is_not_right_is_named(place: int, changed: GameRound, flaw: str) -> None:
    rounds = [make_round(*one) for one in RIGHT]
    rounds[place] = changed
    assert flaw in list_leaving_flaws(rounds)


def test_the_dead_may_not_sit_for_ever() -> None:
    rounds = [make_round(*one) for one in [FIRST, *[WAITING] * 5]]
    assert list_leaving_flaws(rounds) == ["a round comes after the dead have lost their seats"]
