"""Who of those that know the same opens it first: turns, until time is short."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kit.nodes import TASK, make_view
from tests.protocol.spec.game.simulation import is_drawn, make_world
from tests.whistleblower.test_known_statements import make_vote
from touchstone.node.kit.duty import Wait
from touchstone.node.kit.known_statements import find_accused
from touchstone.node.kit.view import View
from touchstone.node.records.dispute_records import CLAIM, DisputePlanned
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.game.calls import DisputeStatement
from touchstone.protocol.spec.game.inner_dispute import (
    InnerBook,
    InnerQuery,
    QueryEnding,
)
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.upkeep_turns import list_members
from touchstone.whistleblower import challenging, query_opening
from touchstone.whistleblower.challenging import OpenDispute

REF, ROOT = StatementRef(0, 0, 0, 0), bytes(32)


@pytest.fixture(scope="module")
def game() -> GameState:
    """A task whose first round is drawn."""
    return make_world().play(is_drawn).state


PLANNED = DisputePlanned(TASK, 0, 0, CLAIM, 0, 0, b"", 0, ROOT, ROOT, b"s" * 32)


def take_turns(monkeypatch: pytest.MonkeyPatch, game: GameState, block: int, until: int) -> dict[str, Any]:
    """What each member has to do in a block about one statement."""
    monkeypatch.setattr(challenging, "get_now", lambda view: game)
    duty, call = OpenDispute(PLANNED), DisputeStatement(REF, 0)
    return {
        one: challenging._take_turn(make_view(account=one), call, until, block, duty)
        for one in list_members(game)
    }


def test_one_opens_at_a_time_and_all_when_time_is_short(
    monkeypatch: pytest.MonkeyPatch, game: GameState
) -> None:
    members, first = list_members(game), dict[str, int]()
    for block in range(1_000, 1_000 + len(members)):
        found = take_turns(monkeypatch, game, block, until=9_000)
        [opener] = [one for one, duty in found.items() if isinstance(duty, OpenDispute)]
        first.setdefault(opener, block)
        assert all(duty.block > block for duty in found.values() if isinstance(duty, Wait))
    assert set(first) == set(members), "whoever is silent, the next one opens it in the next block"
    late = take_turns(monkeypatch, game, 9_000, until=9_000)
    assert all(isinstance(duty, OpenDispute) for duty in late.values())


@pytest.mark.parametrize(
    ("ending", "asker", "is_asked"),
    [
        (QueryEnding.OPEN, "other", True),
        (QueryEnding.CLEARED, "other", True),
        (QueryEnding.MOOT, "other", False),
        (QueryEnding.MOOT, "own", True),
    ],
)
def test_what_others_asked_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, game: GameState, ending: QueryEnding, asker: str, is_asked: bool
) -> None:
    """An answer to one is an answer to all; a query that came to nothing answers nobody."""
    known: KnownVote = make_vote(game)
    seat = find_accused(game, known.ref, known)
    assert seat is not None
    ask = InnerQuery(b"a" * 32, seat.number, known.vote, 3, asker, clock=30, ending=ending)
    view = set_asks(monkeypatch, game, ask)
    assert query_opening._is_asked(view, known, 3) == is_asked
    assert not query_opening._is_asked(view, known, 4), "another leaf"


def set_asks(monkeypatch: pytest.MonkeyPatch, game: GameState, *asks: InnerQuery) -> View:
    """Of a node that sees these asks."""
    book = InnerBook(10, queries={one.name: one for one in asks})
    monkeypatch.setattr(query_opening, "get_now", lambda view: game)
    monkeypatch.setattr(query_opening, "get_inner", lambda view: book)
    return make_view(account="own")


def test_an_answer_of_another_vote_or_seat_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, game: GameState
) -> None:
    """A liar has itself asked about a second vote of the same place, or about a right one that its other seat
    signed there without being drawn, and answers: half a bond would save it its stake."""
    known: KnownVote = make_vote(game)
    seat = find_accused(game, known.ref, known)
    assert seat is not None
    second = replace(known.vote, seal=b"2" * 32)
    told = QueryEnding.CLEARED
    asks = (
        InnerQuery(b"a" * 32, seat.number, second, 3, "other", clock=30, ending=told),
        InnerQuery(b"b" * 32, seat.number + 1, known.vote, 3, "other", clock=30, ending=told),
    )
    assert not query_opening._is_asked(set_asks(monkeypatch, game, *asks), known, 3)
