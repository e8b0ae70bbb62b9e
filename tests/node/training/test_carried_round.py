"""From which round a claim's moments are carried over."""

from dataclasses import replace

import pytest

from tests.protocol.spec.game.simulation import make_world
from touchstone.node.records.round_seats import find_carried_round
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.state import GameRound, GameState, Pool, Seat, SlotClaim, compute_seat_id

NUMBER = compute_seat_id(SeatRole.SOLVER, 0)
SEAT = Seat(NUMBER, SeatRole.SOLVER, "solver0", joined=2, settled=2, last_commit=1, last_voted=1)


def make_state(*merged: int) -> GameState:
    """Rounds 0 to 40 whose roots are posted; of those in `merged` the seat's claim is part of it."""
    claims = {0: SlotClaim(NUMBER, "solver0", 2, b"root", 4)}
    one = GameRound(0, Pool((NUMBER,)), b"base", 0, 1, claims=claims, phase=RoundPhase.POSTED)
    rounds = {i: replace(one, index=i, merged=(0,) if i in merged else ()) for i in range(41)}
    return replace(make_world().state, rounds=rounds, next_round=41)


@pytest.mark.parametrize(
    ("index", "merged", "expected"),
    [
        (9, (3, 7), 7),
        (9, (1,), None),
        (15, (2,), 2),
        (16, (2, 15), None),
        (20, (15,), None),
        (20, (16,), 16),
        (20, (20,), None),
    ],
)
def test_moments_come_from_the_last_merged_claim_of_the_epoch(
    index: int, merged: tuple[int, ...], expected: int | None
) -> None:
    """Not from before the seat joined, nor from before round 16 k: such a round may be freed already."""
    assert find_carried_round(make_state(*merged), index, SEAT) == expected
