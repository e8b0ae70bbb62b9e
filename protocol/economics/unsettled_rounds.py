"""Lists what closed, unsettled rounds give to a seat and take from it."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.protocol.economics.duty_ends import estimate_round_blocks, find_due
from touchstone.protocol.spec.game.epochs import get_epoch
from touchstone.protocol.spec.game.money_reasons import MoneyReason, Sums, add_sums
from touchstone.protocol.spec.game.restitution import compute_restitution
from touchstone.protocol.spec.game.round_pay import list_round_sums
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameRound, GameState, Seat


@dataclass(frozen=True)
class RoundEntry:
    """What a round gave a seat and took from it, in wei by reason. `settled` is the block in which it was
    settled; else `due` estimates the block in which it can be settled."""

    seat: int
    round: int
    sums: Sums
    settled: int | None = None
    due: int | None = None


def list_unsettled(
    state: GameState, block: int, seats: tuple[Seat, ...]
) -> Iterator[tuple[Seat, RoundEntry]]:
    """Yields what each closed, unsettled round gives and takes, unless that is nothing."""
    pace, dues = estimate_round_blocks(state), dict[tuple[int, int], int]()
    for index, game_round in sorted(state.rounds.items()):
        if game_round.closed is None:
            continue
        for seat in seats:
            if seat.settled > index or not is_in_pool(game_round, seat):
                continue
            sums = _list_sums(state, seat, game_round, block)
            if not sums:
                continue
            at = seat.number, get_epoch(index)
            if at not in dues:
                dues[at] = find_due(state, seat, index, block, pace)
            yield seat, RoundEntry(seat.number, index, sums, due=dues[at])


def _list_sums(state: GameState, seat: Seat, game_round: GameRound, block: int) -> Sums:
    restitution = compute_restitution(state, seat, game_round, block)
    sums = list_round_sums(state, seat, game_round, block)
    return add_sums(sums, {MoneyReason.RESTITUTION: restitution})
