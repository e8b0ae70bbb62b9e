"""Computes when a seat's duties end: when its stake comes back, and when it can settle a round."""

from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.pools import is_held
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.terms import compute_duty_blocks
from touchstone.protocol.spec.game.timing import get_duty_until, get_live_round, is_over, is_start_alive

PACE_ROUNDS = 8
"""The length of a round is estimated from this many of the last rounds."""


def find_release(state: GameState, seat: Seat, block: int, round_blocks: int = 0) -> int | None:
    """Returns the first block in which the stake of a seat can come back, if it leaves now and nobody queries
    or disputes anything. None if the seat was convicted. `round_blocks` is the length of a round that has no
    root yet; without it, the result is a lower bound."""
    if seat.status == SeatStatus.CONVICTED:
        return None
    return _find_over(state, seat, state.terms.rounds, block, round_blocks, is_staying=False)


def _find_over(
    state: GameState, seat: Seat, end: int, block: int, round_blocks: int, *, is_staying: bool
) -> int:
    """Returns the first block after the duties of a seat in the rounds before `end`. `is_staying` says that
    the seat also takes part in rounds to come."""
    duty, overs, to_come = compute_duty_blocks(state.terms.windows), [block], 0
    for index, game_round in state.rounds.items():
        if seat.settled <= index < end and is_in_pool(game_round, seat):
            until = get_duty_until(state, game_round)
            closed = game_round.closed or max(block, game_round.opened + round_blocks)
            overs.append((closed + duty if until is None else until) + 1)
    if get_live_round(state) is not None or is_start_alive(state, block):
        to_come = sum(
            is_held(pool, seat) for index, pool in state.pools.items() if state.next_round <= index < end
        )
    if is_staying and seat.status == SeatStatus.ACTIVE and not state.is_halted and not is_over(state, block):
        to_come = end - state.next_round
    if to_come > 0:
        overs.append(block + to_come * round_blocks + duty + 1)
    return max(overs)


def find_due(state: GameState, seat: Seat, index: int, block: int, round_blocks: int) -> int:
    """Estimates the block in which a seat can settle a round: once all rounds of its epoch that hold the seat
    are over, if each round to come takes `round_blocks`."""
    end = min(get_epoch_start(get_epoch(index) + 1), state.terms.rounds)
    return _find_over(state, seat, end, block, round_blocks, is_staying=True)


def estimate_release(state: GameState, seat: Seat, block: int) -> int:
    """Estimates the block in which the stake of a seat can come back, if it stays until the task is over and
    each round to come takes as long as the last ones."""
    pace = estimate_round_blocks(state)
    return _find_over(state, seat, state.terms.rounds, block, pace, is_staying=True)


def estimate_end(state: GameState, block: int) -> int:
    """Estimates the block in which the last round of a task gets its root, if each round takes as long as the
    last ones; `block` if none is to come."""
    if is_over(state, block):
        return block
    live, pace = get_live_round(state), estimate_round_blocks(state)
    begun, index = (block, state.next_round) if live is None else (live.opened, live.index)
    return max(block, begun + (state.terms.rounds - index) * pace)


def estimate_round_blocks(state: GameState) -> int:
    """Returns how many blocks a round takes from one opening to the next, by the last rounds; by the terms if
    fewer than two were opened."""
    opened = sorted(one.opened for one in state.rounds.values())[-PACE_ROUNDS:]
    if len(opened) < 2:
        return state.terms.windows.train_min + state.terms.windows.audit_max // 3
    return (opened[-1] - opened[0]) // (len(opened) - 1)
