"""Some ACCEPTs are asked about although nothing speaks against them: by whom, which, and how many."""

from dataclasses import replace

import pytest

from tests.protocol.spec.game.simulation import is_drawn, make_world
from tests.whistleblower.test_known_statements import make_vote
from touchstone.node.kit.known_statements import count_askers, find_spot_leaf, is_spot, list_spot_slots
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.state import CountedVote, GameState, StatementRef
from touchstone.protocol.spec.params import SPOT_QUERIES
from touchstone.protocol.spec.statements import VoteOpening, VoteWord

LEAVES = 10
DICE = b"d" * 32
VOTES = 20_000


@pytest.fixture(scope="module")
def game() -> GameState:
    """A task whose first round is drawn; it has whistleblowers."""
    return make_world().play(is_drawn).state


def list_accounts(game: GameState, role: SeatRole) -> list[str]:
    return [one.account for one in game.seats.values() if one.role == role]


def make_accept(game: GameState, own_end: bytes = b"o" * 32) -> KnownVote:
    """An opened ACCEPT."""
    known = make_vote(game)
    opening = VoteOpening(known.vote, b"c" * 32, b"a" * 32, own_end, b"s" * 32)
    return replace(known, opening=opening)


def count_asked(game: GameState, account: str) -> int:
    known = make_accept(game)
    votes = (replace(known, vote=replace(known.vote, round=number)) for number in range(VOTES))
    return sum(find_spot_leaf(game, account, DICE, one, LEAVES) is not None for one in votes)


def test_all_whistleblowers_together_ask_about_one_of_so_many(game: GameState) -> None:
    askers = list_accounts(game, SeatRole.WHISTLEBLOWER)
    expected = VOTES / SPOT_QUERIES / len(askers)
    assert abs(count_asked(game, askers[0]) - expected) < 5 * expected**0.5


def test_who_asks_reads_the_vote_from_the_chain(game: GameState, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whistleblower was handed no vote: without reading there is none to ask about."""
    monkeypatch.setattr("touchstone.node.kit.known_statements.SPOT_QUERIES", 1)
    askers = list_accounts(game, SeatRole.WHISTLEBLOWER)
    opened = CountedVote(VoteWord.ACCEPT, 1, True)
    votes = {(slot, 0): {0: opened} for slot in range(60)}
    votes |= {(slot, 0): {0: replace(opened, is_opened=False)} for slot in range(60, 99)}
    game_round = replace(game.rounds[0], votes=votes)
    found = [set(list_spot_slots(game, one, bytes([n]) * 32, game_round)) for n, one in enumerate(askers)]
    assert 0 < len(found[0]) < 60 and set().union(*found) <= set(range(60))
    for slot in range(60):
        ref = StatementRef(0, slot, 0)
        assert (slot in found[0]) == is_spot(game, askers[0], bytes(32), ref)
    exact = replace(game, terms=replace(game.terms, is_exact=True))
    assert not list(list_spot_slots(exact, askers[0], bytes(32), game_round))


def test_verifiers_ask_only_where_there_are_no_whistleblowers(game: GameState) -> None:
    verifiers = list_accounts(game, SeatRole.VERIFIER)
    assert count_askers(game, verifiers[0]) == 0
    alone = {
        number: seat if seat.role != SeatRole.WHISTLEBLOWER else replace(seat, status=SeatStatus.LEAVING)
        for number, seat in game.seats.items()
    }
    assert count_askers(replace(game, seats=alone), verifiers[0]) == len(verifiers)
    assert count_askers(game, list_accounts(game, SeatRole.SOLVER)[0]) == 0


def test_only_an_opened_accept_with_an_end_of_its_own_is_asked(
    game: GameState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("touchstone.node.kit.known_statements.SPOT_QUERIES", 1)
    monkeypatch.setattr("touchstone.node.kit.known_statements.count_askers", lambda game, account: 1)
    known = make_accept(game)
    asked = [find_spot_leaf(game, "0x", bytes([i]) * 32, known, LEAVES) for i in range(64)]
    assert {leaf for leaf in asked if leaf is not None} == set(range(LEAVES)) and None not in asked
    assert find_spot_leaf(game, "0x", DICE, make_accept(game, own_end=b"c" * 32), LEAVES) is None
    assert find_spot_leaf(game, "0x", DICE, replace(known, opening=None), LEAVES) is None
    other = replace(known, vote=replace(known.vote, word=VoteWord.REJECT_STATE))
    assert find_spot_leaf(game, "0x", DICE, other, LEAVES) is None
