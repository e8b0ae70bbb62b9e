"""Finds the next block in which the clock alone changes something in a task."""

from collections.abc import Iterator

from touchstone.protocol.spec.game.root_posting import get_post_window
from touchstone.protocol.spec.game.round_draws import get_draw_audits_window, get_draw_round_window
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    compute_reserve_block,
    get_closing_from,
    get_duty_until,
    get_live_round,
)


def get_next_block(state: GameState, block: int) -> int | None:
    """Returns the next block after `block` in which the clock alone may make something due or possible. None
    if the clock changes nothing any more."""
    later = {one for one in _list_blocks(get_state_at(state, block), block) if one > block}
    return min(later, default=None)


def _list_blocks(state: GameState, block: int) -> Iterator[int]:
    if state.is_closed:
        return
    if state.start is not None:
        yield state.start.beacon_block + 1
        yield state.start.beacon_block + state.bounds.header_blocks + 1
    for game_round in state.rounds.values():
        yield from _list_round_blocks(state, game_round, block)
    yield state.contested_until + 1
    for open_ones in (state.contests, state.queries, state.disputes):
        yield from (one.clock + 1 for one in open_ones.values())
    from_block = get_closing_from(state, block)
    if from_block is not None:
        yield from compute_draw_window(state, from_block)
    if get_live_round(state) is None:
        yield state.paused_since + state.terms.windows.dispute


def _list_round_blocks(state: GameState, game_round: GameRound, block: int) -> Iterator[int]:
    windows, closing = state.terms.windows, compute_closing_block(state, game_round)
    yield closing + 1
    for window in (get_draw_round_window(state, game_round), get_draw_audits_window(state, game_round)):
        if window is not None:
            yield from (window[0], window[1] + 1)
    for start in {game_round.closed, game_round.late_from} - {None}:
        assert start is not None
        yield compute_reserve_block(state, start)
        yield from (start + k * windows.audit_max + 1 for k in (1, 2, 3))
    if game_round.closed is not None:
        yield get_post_window(state, game_round, block)[0]
        yield get_post_window(state, game_round, block)[1] + 1
    until = get_duty_until(state, game_round)
    if until is not None:
        yield until + 1
