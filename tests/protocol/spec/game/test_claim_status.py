"""Who is drawn for what, and what counted votes make of a claim, block by block.

The round here has closed in 103: claims are merged that are accepted by 133, and decided for pay by 163."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import make_terms, make_word
from touchstone.protocol.spec.game import assignments, claim_status
from touchstone.protocol.spec.game.enums import ClaimStatus, SeatRole
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import (
    CountedVote,
    GameRound,
    GameState,
    Pool,
    SlotClaim,
    compute_seat_id,
    create_game,
)
from touchstone.protocol.spec.statements import VoteWord

A, R, U, X = VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.UNSERVED, VoteWord.ABSTAIN
Words = dict[int, tuple[VoteWord, int]]
"""By rank: the word, and the block in which it counted."""


def list_ids(role: SeatRole, count: int) -> tuple[int, ...]:
    return tuple(compute_seat_id(role, number) for number in range(count))


def make_round(verifiers: int = 7, whistleblowers: int = 4, **changes: Any) -> GameRound:
    """Three solvers, all of whom committed six segments; drawn, and every claim may have a late audit."""
    solvers = list_ids(SeatRole.SOLVER, 3)
    pool = Pool(
        solvers, list_ids(SeatRole.VERIFIER, verifiers), list_ids(SeatRole.WHISTLEBLOWER, whistleblowers)
    )
    claims = {
        slot: SlotClaim(seat, f"solver{slot}", 0, make_word(slot), 6) for slot, seat in enumerate(solvers)
    }
    base = GameRound(
        0, pool, b"base", opened=100, counted=3, trained_from=100, claims=claims, closed=103,
        seed=make_word("seed"), late_seed=make_word("late"), late_slots=frozenset(range(3)), late_from=290,
    )  # fmt: skip
    return replace(base, **changes)


def make_state(game_round: GameRound, **changes: Any) -> GameState:
    terms = make_terms(**{"late_chance": 1 << 16, **changes})
    return replace(create_game(terms, BOUNDS_LOCAL, 100), rounds={0: game_round}, next_round=1)


def count(votes: Words) -> dict[int, CountedVote]:
    return {rank: CountedVote(word, block) for rank, (word, block) in votes.items()}


# Who audits what
@pytest.mark.parametrize(("draws", "verifiers"), [(1, 3), (1, 7), (2, 6), (2, 7), (2, 40)])
def test_no_auditor_audits_one_claim_twice(draws: int, verifiers: int) -> None:
    game_round = make_round(verifiers)
    state = make_state(game_round, draws=draws)
    places = assignments.list_draws(state, game_round)
    assert places == tuple((slot, draw) for slot in range(3) for draw in range(draws + 1)), "late ones last"
    for slot in range(3):
        seats = [
            assignments.get_drawn_seat(state, game_round, slot, draw, rank)
            for draw in range(draws)
            for rank in range(3)
        ]
        assert len(set(seats)) == 3 * draws and set(seats) <= set(game_round.pool.verifiers)
        late = [assignments.get_drawn_seat(state, game_round, slot, draws, rank) for rank in range(3)]
        assert len(set(late)) == 3 and set(late) <= set(game_round.pool.whistleblowers)
        segments = [assignments.get_drawn_segment(state, game_round, slot, draw) for draw in range(draws + 1)]
        assert len(set(segments)) == draws + 1, "nor is one segment audited twice"


@pytest.mark.parametrize(
    ("slot", "draw", "rank"), [(3, 0, 0), (0, -1, 0), (0, 2, 0), (0, 0, -1), (0, 0, 3), (0, 1, 3)]
)
def test_who_is_drawn_for_nothing_is_no_seat(slot: int, draw: int, rank: int) -> None:
    """No such claim, no such draw, no such rank. One draw a claim, so that the late one has number 1."""
    game_round = make_round()
    assert assignments.get_drawn_seat(make_state(game_round), game_round, slot, draw, rank) is None


@pytest.mark.parametrize(
    "changes",
    [{"late_seed": None}, {"late_slots": frozenset({1, 2})}, {"whistleblowers": 2}, {"claims": {}}],
    ids=str,
)
def test_a_claim_has_no_late_audit_without_seed_place_and_three_whistleblowers(
    changes: dict[str, Any],
) -> None:
    game_round = make_round(**changes)
    state = make_state(game_round)
    assert assignments.get_late_draw(state, game_round, 0) is None
    assert (0, 1) not in assignments.list_draws(state, game_round)
    assert assignments.get_drawn_seat(state, game_round, 0, 1, 0) is None


# Claims
@pytest.mark.parametrize(
    ("votes", "status_by_block"),
    [
        ({}, {103: "UNDECIDED", 133: "UNDECIDED", 134: "LATE_UNDECIDED", 163: "LATE_UNDECIDED", 164: "VOID"}),
        ({0: (A, 110)}, {110: "ACCEPTED", 134: "ACCEPTED", 164: "ACCEPTED"}),
        ({0: (R, 110), 1: (R, 111)}, {111: "VOID", 164: "VOID"}),
        ({0: (R, 110), 1: (A, 111)}, {133: "UNDECIDED", 164: "VOID"}),
    ],
)  # fmt: skip
def test_a_claim_is_merged_until_audit_max_and_accepted_for_pay_until_twice_that(
    votes: Words, status_by_block: dict[int, str]
) -> None:
    game_round = make_round(votes={(0, 0): count(votes)})
    state = make_state(game_round)
    for block, status in status_by_block.items():
        assert claim_status.get_claim_status(state, game_round, 0, block).name == status, block
        assert claim_status.has_undecided(
            state, replace(game_round, claims={0: game_round.claims[0]}), block
        ) == (status == "UNDECIDED")


@pytest.mark.parametrize(
    ("changes", "block", "status"),
    [
        ({"closed": None}, 104, ClaimStatus.UNDECIDED), ({"seed": None}, 112, ClaimStatus.UNDECIDED),
        ({"seed": None}, 113, ClaimStatus.VOID), ({"is_void": True}, 112, ClaimStatus.VOID),
        ({"is_convicted": True}, 112, ClaimStatus.VOID),
    ],
)  # fmt: skip
def test_neither_votes_nor_time_help_a_claim_that_was_not_drawn_or_is_void(
    changes: dict[str, Any], block: int, status: ClaimStatus
) -> None:
    """A draw that was not sealed by 112 is missed. A marked claim has the vote that would accept it."""
    game_round, flags = (
        make_round(),
        {name: value for name, value in changes.items() if name.startswith("is_")},
    )
    claims = {0: replace(game_round.claims[0], **flags)}
    rest = {name: value for name, value in changes.items() if name not in flags}
    game_round = replace(
        game_round, claims=claims, votes={(0, 0): count({0: (A, 110)})} if flags else {}, **rest
    )
    assert claim_status.get_claim_status(make_state(game_round), game_round, 0, block) == status


@pytest.mark.parametrize(
    ("first", "second", "accepted", "is_mergeable"),
    [
        ({0: (A, 110)}, {0: (A, 133)}, 133, True),
        ({0: (A, 134)}, {0: (A, 110)}, 134, False),
        ({0: (R, 105), 1: (A, 120), 2: (A, 133)}, {0: (A, 110)}, 133, True),
        ({0: (R, 105), 1: (A, 120), 2: (A, 134)}, {0: (A, 110)}, 134, False),
        ({0: (A, 110)}, {}, None, False),
        ({0: (A, 110)}, {0: (R, 111), 1: (R, 112)}, None, False),
    ],
)
def test_a_claim_is_accepted_with_its_last_draw_and_merged_if_that_was_in_time(
    first: Words, second: Words, accepted: int | None, is_mergeable: bool
) -> None:
    game_round = make_round(votes={(1, 0): count(first), (1, 1): count(second)})
    state = make_state(game_round, draws=2)
    assert claim_status.get_accepted_block(state, game_round, 1) == accepted
    assert claim_status.list_mergeable(state, game_round, 140) == ((1,) if is_mergeable else ())
    assert claim_status.get_accepted_block(state, replace(game_round, seed=None), 1) is None


@pytest.mark.parametrize(
    ("votes", "block", "is_over", "is_taking"),
    [
        ({}, 163, False, False), ({}, 164, True, False), ({0: (A, 110)}, 110, True, False),
        ({0: (U, 110), 1: (X, 111)}, 163, True, True), ({0: (U, 110), 1: (X, 111)}, 164, True, False),
        ({0: (U, 110)}, 163, False, False),
    ],
)  # fmt: skip
def test_a_draw_that_has_failed_takes_an_unserved_until_its_time_is_over(
    votes: Words, block: int, is_over: bool, is_taking: bool
) -> None:
    game_round = make_round(votes={(0, 0): count(votes)})
    state = make_state(game_round)
    assert claim_status.is_draw_over(state, game_round, 0, 0, block) == is_over
    assert claim_status.is_taking_unserved(state, game_round, 0, 0, block) == is_taking
    late = replace(game_round, votes={(0, 1): count(votes)}, late_from=103)
    assert claim_status.is_draw_over(state, late, 0, 1, block) == is_over, "a late draw has the same windows"
    assert not claim_status.is_draw_over(state, replace(game_round, claims={}), 0, 0, 999), "no such draw"
