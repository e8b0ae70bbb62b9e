"""What the clock says: of each window the last block in and the first block out.

A round trains from block 100 here (train_min 40, train_max 80), or has closed in 103 (audit_max 30,
respond 10, dispute 200, ask 720)."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import make_terms
from touchstone.protocol.spec.game import timing
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import (
    GameRound,
    GameState,
    PendingStart,
    Pool,
    SlotClaim,
    StatementRef,
    create_game,
)

CLAIM, VOTE, LATE = StatementRef(0, 0), StatementRef(0, 0, 0, 0), StatementRef(0, 0, 1, 0)
DRAWN = {"closed": 103, "seed": b"seed"}
STARTED = {"start": PendingStart(0, beacon_block=102)}


def make_round(index: int = 0, **changes: Any) -> GameRound:
    base = GameRound(index, Pool(), b"base", opened=100, counted=3, beacon=b"beacon", trained_from=100)
    return replace(base, **changes)


def make_state(*rounds: GameRound, **changes: Any) -> GameState:
    state = create_game(make_terms(), BOUNDS_LOCAL, 100)
    held = {one.index: one for one in rounds}
    return replace(state, rounds=held, next_round=len(held), **changes)


@pytest.mark.parametrize(
    ("changes", "block"),
    [
        ({}, 180),
        ({"two_thirds": 120}, 140),
        ({"two_thirds": 141}, 141),
        ({"two_thirds": 120, "filled": 125}, 125),
        ({"two_thirds": 120, "filled": 150}, 140),
        ({"filled": 180}, 180),
        ({"filled": 125, "closed": 77}, 77),
        ({"trained_from": None, "beacon": None, "beacon_block": 126}, 126 + 200),
    ],
)
def test_a_round_closes_with_the_first_reason_to(changes: dict[str, Any], block: int) -> None:
    """All have committed; two thirds have, and train_min is over; train_max is over; a beacon has lapsed."""
    assert timing.compute_closing_block(make_state(), make_round(**changes)) == block


@pytest.mark.parametrize(
    ("closed", "header_blocks", "window"),
    [(102, 200, (105, 111)), (103, 200, (105, 112)), (104, 200, (107, 113)), (103, 3, (105, 107))],
)
def test_a_draw_is_recorded_behind_its_grid_block_and_before_reserves_count(
    closed: int, header_blocks: int, window: tuple[int, int]
) -> None:
    """The grid has every second block, the first of them a block after the close. A header is provable for
    `header_blocks` only."""
    state = make_state(bounds=replace(BOUNDS_LOCAL, header_blocks=header_blocks))
    assert timing.compute_draw_window(state, closed) == window
    assert window[1] < timing.compute_reserve_block(state, closed) == closed + 10
    game_round = make_round(closed=closed)
    assert [timing.is_draw_missed(state, game_round, window[1] + more) for more in (0, 1)] == [False, True]
    assert not timing.is_draw_missed(state, replace(game_round, seed=b"seed"), 999)


@pytest.mark.parametrize(
    ("ref", "changes", "until"),
    [
        (CLAIM, {}, 180 + 200), (CLAIM, {"closed": 103}, 303), (VOTE, DRAWN, 303),
        (LATE, {**DRAWN, "late_from": 290}, 490), (LATE, DRAWN, 303),
        (VOTE, {**DRAWN, "late_from": 290}, 303), (CLAIM, {**DRAWN, "late_from": 290}, 303),
    ],
)  # fmt: skip
def test_a_statement_can_be_proven_false_for_dispute_from_where_its_windows_count(
    ref: StatementRef, changes: dict[str, Any], until: int
) -> None:
    """A late vote has the close of the round that drew it; an open round the latest one possible."""
    assert timing.get_statement_until(make_state(make_round(**changes)), ref) == until


@pytest.mark.parametrize(
    ("ref", "changes", "until"),
    [
        (CLAIM, DRAWN, None), (VOTE, {"closed": 103}, None), (VOTE, DRAWN, 103 + 60 + 720),
        (LATE, DRAWN, None), (LATE, {**DRAWN, "late_from": 290}, 290 + 60 + 720),
    ],
)  # fmt: skip
def test_a_signer_is_asked_from_the_seal_until_ask_after_the_last_vote(
    ref: StatementRef, changes: dict[str, Any], until: int | None
) -> None:
    state = make_state(make_round(**changes))
    assert timing.get_query_until(state, ref) == until
    if until is None:
        return
    votes_until = until - 720
    clocks = [timing.compute_query_clock(state, ref, votes_until + more) for more in (-50, 0, 1, 720)]
    assert clocks == [votes_until + 10, votes_until + 10, votes_until + 11, until + 10], "no answer to copy"


@pytest.mark.parametrize(
    ("changes", "block", "is_over"),
    [
        ({}, 299, False), ({}, 300, True), (STARTED, 302, False), (STARTED, 303, True),
        ({"is_halted": True}, 101, True), ({"is_halted": True, **STARTED}, 101, True),
        ({"next_round": 3}, 101, True), ({"next_round": 2}, 101, False),
    ],
)  # fmt: skip
def test_a_task_is_over_when_no_round_is_to_come(changes: dict[str, Any], block: int, is_over: bool) -> None:
    """Three rounds; it paused since block 100. A start is alive for `header_blocks` after its beacon's."""
    state = replace(make_state(), **changes)
    assert timing.is_over(state, block) == is_over
    live = replace(state, rounds={0: make_round(phase=RoundPhase.FALLEN, closed=103)})
    assert not timing.is_over(live, block), "a round without a root is to be ended first"


@pytest.mark.parametrize("phase", RoundPhase)
def test_a_round_is_live_until_it_has_a_root_or_is_undone(phase: RoundPhase) -> None:
    last = make_round(1, phase=phase)
    live = timing.get_live_round(make_state(make_round(0, phase=RoundPhase.POSTED), last))
    assert live == (last if phase in (RoundPhase.RUNNING, RoundPhase.FALLEN) else None)


CLAIMED = {"claims": {0: SlotClaim(1, "solver0", 0, b"root", 6)}, "closed": 103, "phase": RoundPhase.POSTED}


@pytest.mark.parametrize(
    ("changes", "block", "is_missing"),
    [
        ({}, 303, True), ({}, 304, False), ({"phase": RoundPhase.UNDONE}, 200, False),
        ({"phase": RoundPhase.FALLEN}, 200, True), ({"claims": {}}, 200, False),
        ({"closed": None}, 200, False), ({"late_seed": b"seed"}, 200, False),
    ],
)  # fmt: skip
def test_late_audits_are_due_while_a_claim_can_still_be_disputed(
    changes: dict[str, Any], block: int, is_missing: bool
) -> None:
    state = make_state(make_round(**{**CLAIMED, **changes}))
    assert bool(timing.list_late_missing(state, block)) == is_missing
    assert not timing.list_late_missing(replace(state, terms=make_terms(late_chance=0)), block)


@pytest.mark.parametrize(
    ("changes", "block", "from_block"),
    [
        ({}, 200, 180), ({"paused_since": 190}, 200, 190), ({}, 350, 180), ({}, 351, None),
        ({"start": PendingStart(2, 199)}, 200, None),
        ({"start": PendingStart(2, 199), "is_halted": True}, 200, 180),
    ],
)  # fmt: skip
def test_the_closing_seed_counts_from_the_last_merge_or_when_the_task_came_to_stand(
    changes: dict[str, Any], block: int, from_block: int | None
) -> None:
    """Rounds closed in 103 and 150. With a start alive the next round's seed draws them."""
    rounds = (make_round(0, **CLAIMED), make_round(1, **{**CLAIMED, "closed": 150}))
    state = replace(make_state(*rounds), paused_since=160)
    assert timing.get_closing_from(replace(state, **changes), block) == from_block
    running = replace(state, rounds={**state.rounds, 2: make_round(2)}, **changes)
    assert timing.get_closing_from(running, block) is None
