"""Decides which seats are in a round's pool, which is frozen before the seed of its beacon is known."""

from bisect import bisect_left
from collections.abc import Iterable

from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.state import GameState, Pool, Seat
from touchstone.protocol.spec.game.vault import stake_of


def get_required_stake(state: GameState, role: SeatRole) -> int:
    """Returns the stake, in wei, that a seat of this role needs to take part."""
    amounts = state.terms.amounts
    return amounts.solver_stake if role == SeatRole.SOLVER else amounts.auditor_stake


def is_sitting(state: GameState, seat: Seat) -> bool:
    """Returns whether a pool that is frozen now includes the seat: it must be open, with its whole stake."""
    has_stake = get_stake(state, seat.number) >= get_required_stake(state, seat.role)
    return seat.status == SeatStatus.ACTIVE and has_stake


def get_stake(state: GameState, number: int) -> int:
    """Returns what a seat has at stake, in wei."""
    return state.vault.get_wei(stake_of(number))


def is_convicted(state: GameState, number: int) -> bool:
    """Returns whether a seat was convicted. False if its number is free."""
    seat = state.seats.get(number)
    return seat is not None and seat.status == SeatStatus.CONVICTED


def find_seat(state: GameState, account: str) -> Seat | None:
    """Returns the seat of an account, None if it has none."""
    return next((seat for seat in state.seats.values() if seat.account == account), None)


def freeze_pool(state: GameState) -> Pool:
    """Returns the pool of a round that is frozen now. It takes the solvers with the largest stakes; the
    others stay members and wait. Larger stakes displace smaller ones only here, so a seat that displaces
    another also serves in the pool."""
    active = sorted(number for number, seat in state.seats.items() if is_sitting(state, seat))
    by_role = {role: tuple(n for n in active if state.seats[n].role == role) for role in SeatRole}
    solvers = tuple(sorted(choose_largest(state, by_role[SeatRole.SOLVER])))
    return Pool(solvers, by_role[SeatRole.VERIFIER], by_role[SeatRole.WHISTLEBLOWER])


def choose_largest(state: GameState, numbers: Iterable[int]) -> tuple[int, ...]:
    """Returns as many solver seats as there are places: those with the largest stakes, and of equal stakes
    the lower numbers."""
    ordered = sorted(numbers, key=lambda number: (-get_stake(state, number), number))
    return tuple(ordered[: state.terms.solver_seats])


def is_held(pool: Pool, seat: Seat) -> bool:
    """Returns whether a pool holds a seat. Its numbers ascend, and there may be thousands."""
    numbers = pool.get_seats(seat.role)
    place = bisect_left(numbers, seat.number)
    return place < len(numbers) and numbers[place] == seat.number


def list_unclosed(state: GameState, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the seats that were not convicted."""
    return tuple(n for n in numbers if state.seats[n].status != SeatStatus.CONVICTED)


def is_enough(state: GameState, pool: Pool) -> bool:
    """Returns whether a pool is large enough for a round; convicted seats do not count."""
    terms = state.terms
    leasts = (terms.least_solvers, terms.least_verifiers, terms.least_whistleblowers)
    return all(
        len(list_unclosed(state, pool.get_seats(role))) >= least
        for role, least in zip(SeatRole, leasts, strict=True)
    )
