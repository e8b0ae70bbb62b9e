"""Finds who sits where in a round: slots, shards, the order of a merge."""

from collections.abc import Iterable

from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat
from touchstone.protocol.spec.shard_draws import assign_shards


def find_own_slot(state: GameState, game_round: GameRound, account: str) -> int | None:
    """Returns the slot of an account's seat in a round; None if it is not a solver of that round."""
    seat = find_seat(state, account)
    is_member = seat is not None and seat.joined <= game_round.index
    if seat is None or not is_member or seat.number not in game_round.pool.solvers:
        return None
    return game_round.pool.solvers.index(seat.number)


def find_holder(state: GameState, number: int, index: int) -> Seat | None:
    """Returns the seat with this number that could be in round `index`; None if the state no longer holds it.
    A number is used again only after its seat was paid out."""
    seats = (state.seats.get(number), state.former.get(number))
    return next((seat for seat in seats if seat is not None and seat.joined <= index), None)


def list_open_solvers(state: GameState, game_round: GameRound) -> tuple[Seat, ...]:
    """Returns the solver seats of a round that are not convicted, in the order of their slots."""
    seats = (find_holder(state, number, game_round.index) for number in game_round.pool.solvers)
    return tuple(seat for seat in seats if seat is not None and seat.status != SeatStatus.CONVICTED)


def get_shards(game_round: GameRound) -> tuple[int, ...]:
    """Returns the shard of each slot of a round with a beacon."""
    assert game_round.beacon is not None
    return assign_shards(game_round.beacon, len(game_round.pool.solvers))


def sort_by_shard(game_round: GameRound, slots: Iterable[int]) -> tuple[int, ...]:
    """Returns the slots in the order in which a merge adds their claims."""
    shards = get_shards(game_round)
    return tuple(sorted(slots, key=lambda slot: shards[slot]))


def find_carried_round(state: GameState, index: int, seat: Seat) -> int | None:
    """Returns the round whose claim hands its moments to this seat's claim of round `index`: the last merged
    one before it in the same epoch. Older rounds do not count, because the chain may forget them while the
    claim can still be proven wrong. None if moments start from zero."""
    first = max(seat.joined, get_epoch_start(get_epoch(index)))
    for earlier in range(index - 1, first - 1, -1):
        game_round = state.rounds.get(earlier)
        if game_round is None or game_round.phase != RoundPhase.POSTED:
            continue
        if any(game_round.claims[slot].seat == seat.number for slot in game_round.merged):
            return earlier
    return None
