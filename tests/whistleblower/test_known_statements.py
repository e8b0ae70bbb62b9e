"""Which statements a seat still answers for, and when steps may be shown."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import is_drawn, make_world
from touchstone.node.kit.known_statements import (
    are_steps_shown,
    find_accused,
    find_signer,
    find_solver,
    is_disputable,
    is_provable,
    list_provable_rounds,
)
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.spec.game.assignments import get_late_draw, get_segments
from touchstone.protocol.spec.game.claim_status import get_claim_status
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import ClaimStatus, SeatStatus
from touchstone.protocol.spec.game.state import CountedVote, GameState, StatementRef
from touchstone.protocol.spec.game.timing import get_statement_until
from touchstone.protocol.spec.statements import Vote, VoteWord


@pytest.fixture(scope="module")
def game() -> GameState:
    """A task whose first round is drawn."""
    return make_world().play(is_drawn).state


def make_vote(game: GameState, slot: int = 0) -> KnownVote:
    """The vote of the primary of a slot's first draw."""
    drawn = get_drawn(game, 0, slot, 0, 0)
    assert drawn is not None
    place = drawn.place
    where = (place.domain, 0, place.base_root, place.seed, slot, place.claim_root, 0, 0)
    vote = Vote(*where, drawn.segment, b"s" * 32, b"x" * 32, b"e" * 32, VoteWord.ACCEPT, 0)
    return KnownVote(vote, b"v" * 64, drawn.seat.account)


@pytest.mark.parametrize("field", ["domain", "base_root", "seed", "claim_root"])
def test_a_vote_of_another_fork_makes_nobody_a_liar(game: GameState, field: str) -> None:
    known = make_vote(game)
    assert find_signer(game, known.vote, known.auditor) is not None
    change: dict[str, Any] = {field: b"?" * 32}
    other = replace(known.vote, **change)
    assert find_signer(game, other, known.auditor) is None
    assert find_accused(game, known.ref, replace(known, vote=other)) is None


def test_who_signs_must_have_the_seat_of_an_auditor(game: GameState) -> None:
    known = make_vote(game)
    solver = find_solver(game, 0, 0)
    assert solver is not None and find_signer(game, known.vote, solver) is None
    assert find_signer(game, known.vote, "0x" + "99" * 20) is None
    assert find_signer(game, replace(known.vote, segment=1 << 20), known.auditor) is None


def test_a_seat_answers_until_it_has_settled(game: GameState) -> None:
    known, seat = make_vote(game), find_accused(game, StatementRef(0, 0), None)
    assert seat is not None and seat.account == find_solver(game, 0, 0)
    for number in (seat.number, find_signer(game, known.vote, known.auditor).number):  # type: ignore[union-attr]
        settled = replace(game.seats[number], settled=1)
        later = replace(game, seats={**game.seats, number: settled})
        ref = StatementRef(0, 0) if number == seat.number else known.ref
        assert find_accused(later, ref, None if number == seat.number else known) is None


def test_a_statement_is_provable_in_its_window_by_others(game: GameState) -> None:
    ref, seat = StatementRef(0, 0), find_accused(game, StatementRef(0, 0), None)
    assert seat is not None
    until = get_statement_until(game, ref)
    assert is_provable(game, ref, seat, "me", until) and not is_provable(game, ref, seat, "me", until + 1)
    assert not is_provable(game, ref, seat, seat.account, until)
    assert not is_provable(game, ref, replace(seat, status=SeatStatus.CONVICTED), "me", until)
    assert [one.index for one in list_provable_rounds(game, until)][0] == 0
    assert all(one.index > 0 for one in list_provable_rounds(game, until + 1))


def test_nothing_is_disputed_or_shown_before_the_claim_is_decided(game: GameState) -> None:
    ref, game_round = StatementRef(0, 0), replace(game.rounds[0], votes={})
    game = replace(game, rounds={0: game_round})
    seat, drawn = find_accused(game, ref, None), get_drawn(game, 0, 0, 0, 0)
    assert game_round.closed is not None and drawn is not None
    early = game_round.closed + 1
    late = early + 2 * game.terms.windows.audit_max
    assert not is_disputable(game, ref, seat, "me", early) and is_disputable(game, ref, seat, "me", late)
    assert not are_steps_shown(game, game_round, 0, drawn.segment, early)
    assert are_steps_shown(game, game_round, 0, drawn.segment, late)


def test_where_another_draw_has_failed_what_is_still_voted_on_is_not_shown() -> None:
    """The claim is void, and a vote of the other draw is paid: its auditor could seal what it read. So could
    it what the segment behind begins with."""
    game = make_world(verifiers=6, draws=2, least_verifiers=6).play(is_drawn).state
    first, second = get_segments(game, game.rounds[0], 0)
    failed = {0: CountedVote(VoteWord.REJECT_STATE, 1), 1: CountedVote(VoteWord.REJECT_STATE, 1)}
    game_round = replace(game.rounds[0], votes={(0, 0): failed}, late_seed=b"z" * 32)
    block = (game_round.closed or 0) + 1
    assert get_claim_status(game, game_round, 0, block) == ClaimStatus.VOID
    assert are_steps_shown(game, game_round, 0, first, block), "its draw is over"
    behind = [second + 1] if second + 1 < game_round.claims[0].segments else []
    last = (game_round.closed or 0) + 2 * game.terms.windows.audit_max
    for segment in (second, *behind):
        assert not are_steps_shown(game, game_round, 0, segment, block)
        assert not are_steps_shown(game, game_round, 0, segment, last)
        assert are_steps_shown(game, game_round, 0, segment, last + 1)
    accepted = {0: CountedVote(VoteWord.ACCEPT, 1)}
    game_round = replace(game_round, votes={(0, 0): failed, (0, 1): accepted})
    assert are_steps_shown(game, game_round, 0, second, block), "no further vote counts"


def test_what_may_still_be_drawn_late_is_not_shown(game: GameState) -> None:
    game_round = replace(game.rounds[0], votes={}, late_seed=None, closed=1)
    game = replace(game, rounds={0: game_round})
    drawn = set(get_segments(game, game_round, 0))
    other = min(set(range(game_round.claims[0].segments)) - drawn)
    late = 1 << 20
    assert game.terms.late_chance and not are_steps_shown(game, game_round, 0, other, late)
    assert are_steps_shown(game, replace(game_round, late_seed=b"z" * 32), 0, other, late)


def test_what_starts_where_a_late_audited_segment_ends_is_not_shown(game: GameState) -> None:
    """A whistleblower would read there what it has to seal."""
    for word in range(64):
        seeded = replace(
            game.rounds[0],
            votes={},
            late_seed=bytes([word]) * 32,
            late_slots=frozenset({0}),
            late_from=1_000,
            closed=1,
        )
        state = replace(game, rounds={0: seeded}, terms=replace(game.terms, late_chance=1 << 16))
        late, drawn = get_late_draw(state, seeded, 0), get_segments(state, seeded, 0)
        if (
            late is not None
            and late.segment + 1 < seeded.claims[0].segments
            and late.segment + 1 not in drawn
        ):
            break
    assert late is not None
    until = 1_000 + 2 * game.terms.windows.audit_max
    for segment in (late.segment, late.segment + 1):
        assert not are_steps_shown(state, seeded, 0, segment, until)
        assert are_steps_shown(state, seeded, 0, segment, until + 1)
    others = set(range(seeded.claims[0].segments)) - {late.segment, late.segment + 1}
    assert others and all(are_steps_shown(state, seeded, 0, segment, until) for segment in others)
