"""Who sits where in a round."""

from dataclasses import replace

from tests.node.merging.stage import make_world
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.records.once_per_block import OncePerBlock
from touchstone.node.records.round_seats import (
    find_carried_round,
    find_holder,
    find_own_slot,
    get_shards,
    sort_by_shard,
)
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.state import GameRound, GameState, Pool, Seat, SlotClaim, compute_seat_id

NUMBERS = tuple(compute_seat_id(SeatRole.SOLVER, number) for number in range(4))


def make_round(index: int = 3, **changes: object) -> GameRound:
    claims = {
        slot: SlotClaim(number, f"solver{slot}", 0, make_word(index, slot), 4)
        for slot, number in enumerate(NUMBERS)
    }
    game_round = GameRound(index, Pool(NUMBERS), make_word("base"), 100, 4, claims=claims)
    changes = {"beacon": make_word("beacon"), **changes}
    return replace(game_round, **changes)  # type: ignore[arg-type]


def make_seat(number: int, account: str, joined: int = 0) -> Seat:
    return Seat(number, SeatRole.SOLVER, account, joined, joined, joined - 1, joined - 1)


def make_state(*rounds: GameRound, **seats: object) -> GameState:
    state = make_world().state
    return replace(state, rounds={r.index: r for r in rounds}, **seats)  # type: ignore[arg-type]


def test_claims_are_merged_in_the_order_of_their_shards() -> None:
    """The sum of floats depends on it, and the contract adds in this order."""
    beacons = [make_word("beacon", i) for i in range(20)]
    game_round = next(r for r in (make_round(beacon=b) for b in beacons) if get_shards(r)[0] == 2)
    assert get_shards(game_round) == (2, 3, 0, 1)
    assert sort_by_shard(game_round, (0, 1, 3)) == (3, 0, 1)


def test_a_number_that_was_used_again_is_not_who_sat_there_before() -> None:
    seats = {NUMBERS[0]: make_seat(NUMBERS[0], "new", joined=9)}
    state = make_state(make_round(), seats=seats, former={NUMBERS[0]: make_seat(NUMBERS[0], "old")})
    old, new = find_holder(state, NUMBERS[0], 3), find_holder(state, NUMBERS[0], 9)
    assert old is not None and old.account == "old" and new is not None and new.account == "new"
    assert find_own_slot(state, state.rounds[3], "new") is None
    assert find_holder(make_state(make_round(), seats=seats, former={}), NUMBERS[0], 3) is None


def test_moments_come_from_the_last_merged_claim_of_the_seat() -> None:
    """A round that stood, one that merged without it and one that fell do not count, nor what was before it
    joined."""
    merged, without = (0, 1), (1, 2)
    rounds = (
        make_round(0, phase=RoundPhase.POSTED, merged=merged),
        make_round(1, phase=RoundPhase.POSTED, merged=merged),
        make_round(2, phase=RoundPhase.POSTED, merged=without),
        make_round(3, phase=RoundPhase.STANDING),
        make_round(4, phase=RoundPhase.UNDONE, merged=merged),
    )
    state = make_state(*rounds)
    assert find_carried_round(state, 5, make_seat(NUMBERS[0], "a")) == 1
    assert find_carried_round(state, 1, make_seat(NUMBERS[0], "a")) == 0
    assert find_carried_round(state, 5, make_seat(NUMBERS[0], "a", joined=2)) is None
    assert find_carried_round(state, 5, make_seat(NUMBERS[3], "d")) is None


def test_an_account_wakes_the_loop_once_a_block_and_hinders_no_other() -> None:
    notices = OncePerBlock()
    assert [notices.take("alice", 7), notices.take("alice", 7), notices.take("bob", 7)] == [True, False, True]
    assert [notices.take("alice", 8), notices.take("alice", 8)] == [True, False]
