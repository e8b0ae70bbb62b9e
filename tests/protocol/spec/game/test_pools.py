"""Pools: which seats a freeze takes, in which slots, and whether a round can be played with them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.protocol.spec.game.simulation import AMOUNTS, make_terms, solver
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.pools import (
    choose_largest,
    find_seat,
    freeze_pool,
    is_convicted,
    is_enough,
    is_held,
    list_unclosed,
)
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState, Pool, Seat, compute_seat_id, create_game
from touchstone.protocol.spec.game.vault import Vault, stake_of

NEEDED = {
    SeatRole.SOLVER: AMOUNTS.solver_stake,
    SeatRole.VERIFIER: AMOUNTS.auditor_stake,
    SeatRole.WHISTLEBLOWER: AMOUNTS.auditor_stake,
}


def make_state(stakes: Mapping[int, int], status: Mapping[int, SeatStatus] | None = None) -> GameState:
    """A task whose seats, by their ids, have these stakes; open unless `status` says otherwise."""
    seats = {
        number: Seat(number, SeatRole(number >> 16), f"account {number}", 0, 0, -1, -1) for number in stakes
    }
    for number, said in (status or {}).items():
        seats[number] = replace(seats[number], status=said)
    vault = Vault({stake_of(number): wei for number, wei in stakes.items() if wei})
    return replace(create_game(make_terms(), BOUNDS_LOCAL, 100), seats=seats, vault=vault)


@pytest.mark.parametrize("role", SeatRole)
def test_a_seat_sits_with_its_whole_stake_while_it_is_open(role: SeatRole) -> None:
    whole, short, leaving, closed = (compute_seat_id(role, number) for number in range(4))
    stakes = dict.fromkeys((whole, leaving, closed), NEEDED[role]) | {short: NEEDED[role] - 1}
    state = make_state(stakes, {leaving: SeatStatus.LEAVING, closed: SeatStatus.CONVICTED})
    others = set(SeatRole) - {role}
    pool = freeze_pool(state)
    assert pool.get_seats(role) == (whole,) and not any(pool.get_seats(other) for other in others)


def test_the_largest_stakes_sit_and_of_equal_ones_the_lower_number() -> None:
    """Four places. A slot is the place among the numbers, so stakes decide who sits and not where."""
    wei = (2_000, 2_500, 2_000, 2_001, 2_000, 9_000)
    state = make_state({solver(number): stake for number, stake in enumerate(wei)})
    assert state.terms.solver_seats == 4
    assert choose_largest(state, state.seats) == (solver(5), solver(1), solver(3), solver(0))
    assert freeze_pool(state).solvers == (solver(0), solver(1), solver(3), solver(5))


def test_every_auditor_sits_however_many_there_are() -> None:
    numbers = tuple(compute_seat_id(SeatRole.VERIFIER, number) for number in range(40))
    shuffled = dict.fromkeys(sorted(numbers, key=lambda number: number * 7 % 41), 500)
    assert freeze_pool(make_state(shuffled)).verifiers == numbers


@pytest.mark.parametrize("held", [(), (5,), (2, 5), (2, 5, 9), tuple(range(1, 40, 3))], ids=len)
def test_a_pool_holds_its_seats_and_no_others(held: tuple[int, ...]) -> None:
    """Of the seat's own role: the same number in another role is another seat."""
    solvers = tuple(solver(number) for number in held)
    pool = Pool(solvers, verifiers=(solver(50),))
    for number in range(51):
        seat = Seat(solver(number), SeatRole.SOLVER, "a", 0, 0, -1, -1)
        assert is_held(pool, seat) == (number in held), number


@pytest.mark.parametrize(
    ("counts", "convicted", "is_playable"),
    [
        ((2, 3, 3), (), True),
        ((1, 3, 3), (), False),
        ((2, 2, 3), (), False),
        ((2, 3, 2), (), False),
        ((2, 3, 3), (SeatRole.SOLVER,), False),
        ((3, 4, 4), (SeatRole.SOLVER, SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER), True),
        ((3, 4, 3), (SeatRole.WHISTLEBLOWER,), False),
    ],
)
def test_a_round_needs_the_least_of_each_role_that_was_not_convicted(
    counts: tuple[int, int, int], convicted: tuple[SeatRole, ...], is_playable: bool
) -> None:
    """Two solvers, three of either auditor. Who leaves still serves in a pool that was frozen before."""
    ids = {
        role: [compute_seat_id(role, n) for n in range(count)]
        for role, count in zip(SeatRole, counts, strict=True)
    }
    state = make_state({number: NEEDED[role] for role, numbers in ids.items() for number in numbers})
    state = replace(state, terms=replace(state.terms, least_solvers=2))
    pool = freeze_pool(state)
    status = dict.fromkeys((ids[role][0] for role in convicted), SeatStatus.CONVICTED)
    left = {
        number: replace(seat, status=status.get(number, SeatStatus.LEAVING))
        for number, seat in state.seats.items()
    }
    state = replace(state, seats=left)
    assert is_enough(state, pool) == is_playable
    assert set(status) == {number for number in left if is_convicted(state, number)}
    assert list_unclosed(state, pool.solvers) == tuple(n for n in pool.solvers if n not in status)


def test_an_account_keeps_its_seat_until_the_seat_is_paid_out() -> None:
    """One that left or was convicted is found too: else it would join a second time."""
    status = {solver(1): SeatStatus.LEAVING, solver(2): SeatStatus.CONVICTED}
    state = make_state({solver(0): 2_000, solver(1): 2_000, solver(2): 0}, status)
    for number, seat in state.seats.items():
        assert find_seat(state, f"account {number}") == seat
    assert find_seat(state, "stranger") is None
