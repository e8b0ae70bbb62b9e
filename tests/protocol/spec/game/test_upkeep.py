"""Whose turn it is: one at a time, everybody in the end, and nobody's silence stops a task."""

from dataclasses import replace

import pytest

from touchstone.protocol.spec.game.calls import (
    DisputeStatement,
    DrawAudits,
    DrawStart,
    GameCall,
    LetStand,
    PayOut,
    StartRounds,
)
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL, WINDOWS_LOCAL
from touchstone.protocol.spec.game.state import (
    GameRound,
    GameState,
    PendingStart,
    Pool,
    Seat,
    StatementRef,
    compute_seat_id,
    create_game,
)
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms
from touchstone.protocol.spec.game.upkeep_turns import (
    OUTSIDERS_ROUNDS,
    SPREAD_BLOCKS,
    find_turn,
    get_seal_window,
    list_members,
)

STRANGER = "0x" + "ff" * 20
CALLS = [StartRounds(), LetStand(3), PayOut(1 << 16), PayOut(2 << 16)]


def make_state(count: int) -> GameState:
    amounts = GameAmounts(*[100] * 11)
    terms = GameTerms(
        "0x" + "00" * 20, b"\1" * 32, b"\2" * 32, 40, 8, 1, 0, 64, 1, 3, 0, 1, False, WINDOWS_LOCAL, amounts
    )
    state = create_game(terms, BOUNDS_LOCAL, 5)
    numbers = [compute_seat_id(SeatRole.VERIFIER, i) for i in range(count)]
    seats = {n: Seat(n, SeatRole.VERIFIER, f"0x{n * 7919 % 65_521:040x}", 0, 0, -1, -1) for n in numbers}
    return replace(state, seats=seats)


@pytest.mark.parametrize("count", [1, 3, 16, 50])
@pytest.mark.parametrize("call", CALLS)
def test_every_member_has_its_turn(count: int, call: GameCall) -> None:
    """In each block some member's, never everybody's, and within SPREAD_BLOCKS each one's."""
    state = make_state(count)
    members, blocks = list_members(state), range(1_000, 1_000 + SPREAD_BLOCKS)
    assert len(members) == count
    turns = {b: [m for m in members if find_turn(state, m, call, b) == b] for b in blocks}
    most = -(-count // SPREAD_BLOCKS)
    assert all(1 <= len(found) <= most for found in turns.values()), turns
    assert {m for found in turns.values() for m in found} == set(members)
    for member in members:
        turn = find_turn(state, member, call, 1_000)
        assert member in turns[turn] and all(member not in turns[b] for b in range(1_000, turn))


def test_calls_have_rotations_of_their_own() -> None:
    """One member does not send everything."""
    state = make_state(16)
    members = list_members(state)
    first = {next(m for m in members if find_turn(state, m, call, 90) == 90) for call in CALLS}
    assert len(first) > 1


def test_who_has_no_seat_sends_last_and_who_is_convicted_is_none() -> None:
    state = make_state(5)
    turns = [find_turn(state, STRANGER, LetStand(1), b) for b in range(100, 100 + 2 * 5 * OUTSIDERS_ROUNDS)]
    assert len(set(turns)) <= 3 and all(turn - b < 5 * OUTSIDERS_ROUNDS for b, turn in enumerate(turns, 100))
    number, seat = next(iter(state.seats.items()))
    closed = replace(state, seats={**state.seats, number: replace(seat, status=SeatStatus.CONVICTED)})
    assert seat.account not in list_members(closed) and len(list_members(closed)) == 4
    nobody = replace(state, seats={})
    assert find_turn(nobody, STRANGER, LetStand(1), 77) == 77


def test_each_statement_has_a_rotation_of_its_own() -> None:
    state, first = make_state(5), set[str]()
    for slot in range(12):
        call = DisputeStatement(StatementRef(0, slot), 0)
        openers = [m for m in list_members(state) if find_turn(state, m, call, 100) == 100]
        assert len(openers) == 1
        first |= set(openers)
    assert len(first) > 2


def test_a_window_is_shared_by_halves() -> None:
    """All members have had their turn when half of it is over; whoever had it may send until the end."""
    state = replace(make_state(50), start=PendingStart(0, 700))
    call, window = DrawStart(), (701, 700 + BOUNDS_LOCAL.header_blocks)
    assert get_seal_window(state, call, 701) == window
    turns = sorted(find_turn(state, m, call, 701) for m in list_members(state))
    assert turns[0] == 701 and turns[-1] < 701 + SPREAD_BLOCKS and len(set(turns)) == SPREAD_BLOCKS
    assert find_turn(state, STRANGER, call, 701) == 701 + SPREAD_BLOCKS
    assert all(find_turn(state, m, call, 750) == 750 for m in list_members(state))


def test_a_short_window_is_not_missed() -> None:
    """Of six blocks three are for the rotation."""
    closed = GameRound(
        0, Pool((compute_seat_id(SeatRole.SOLVER, 0),)), b"", 10, 1, closed=100, phase=RoundPhase.RUNNING
    )
    state = replace(make_state(50), rounds={0: closed}, next_round=1)
    window = get_seal_window(state, DrawAudits(0), 104)
    assert window is not None and window[1] - window[0] < SPREAD_BLOCKS
    half = window[0] + (window[1] - window[0]) // 2
    members = (*list_members(state), STRANGER)
    assert all(find_turn(state, member, DrawAudits(0), window[0]) <= half for member in members)
    assert get_seal_window(state, DrawAudits(5), 104) is None
    assert get_seal_window(state, LetStand(0), 104) is None
