"""Computes deadlines: closing blocks, and the windows of draws, votes, contests and statements.

All follow from blocks that events fixed. `compute_` functions may return a block that is still to come.
"""

from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef
from touchstone.protocol.spec.game.terms import ANSWERS_MAX
from touchstone.protocol.spec.round_seeds import compute_grid_block

REORG_BLOCKS = 16
"""A chain may undo its last blocks. So a node that gives something away, or deletes it, once a window is over
waits this many blocks longer."""


def find_first_round(state: GameState) -> int | None:
    """Returns the first round whose pool may include a seat that is taken now. Pools are frozen ahead, so it
    may come after the task's last round. None while no round runs."""
    return None if get_live_round(state) is None else max((*state.pools, *state.rounds)) + 1


def get_live_round(state: GameState) -> GameRound | None:
    """Returns the round that has no root yet, because it runs or its root fell. There is at most one."""
    for game_round in state.rounds.values():
        if game_round.phase in (RoundPhase.RUNNING, RoundPhase.FALLEN):
            return game_round
    return None


def is_start_alive(state: GameState, block: int) -> bool:
    """Returns whether a start that was asked for can still be recorded at `block`."""
    if state.start is None or state.is_halted:
        return False
    return block <= state.start.beacon_block + state.bounds.header_blocks


def is_over(state: GameState, block: int) -> bool:
    """Returns whether no round runs or is to come, because all rounds are used, the task was halted, or it
    has paused for `dispute` blocks."""
    if get_live_round(state) is not None:
        return False
    if state.is_halted or state.next_round >= state.terms.rounds:
        return True
    is_idle = not is_start_alive(state, block)
    return is_idle and block >= state.paused_since + state.terms.windows.dispute


def compute_closing_block(state: GameState, game_round: GameRound) -> int:
    """Returns the last block that takes commitments, as far as the present commitments decide it. It is the
    first of these: the block in which the last counted seat committed; train_min, or the block in which two
    thirds had committed, whichever is later; train_max. A round whose beacon is missing closes with the last
    block that could record it."""
    windows, trained_from = state.terms.windows, game_round.trained_from
    if game_round.closed is not None:
        return game_round.closed
    if trained_from is None:
        return (game_round.beacon_block or 0) + state.bounds.header_blocks
    ends = [trained_from + windows.train_max]
    if game_round.two_thirds is not None:
        ends.append(max(game_round.two_thirds, trained_from + windows.train_min))
    if game_round.filled is not None:
        ends.append(game_round.filled)
    return min(ends)


def compute_draw_window(state: GameState, from_block: int) -> tuple[int, int]:
    """Returns the first and last block in which a draw asked for at `from_block` (a close) can be recorded.
    The deciding block is the one before the first."""
    windows = state.terms.windows
    block = compute_grid_block(from_block + windows.delay, windows.draw_grid)
    reserves = compute_reserve_block(state, from_block)
    return block + 1, min(block + state.bounds.header_blocks, reserves - 1)


def compute_reserve_block(state: GameState, from_block: int) -> int:
    """Returns the block from which reserves count without a vote of the primary."""
    return from_block + state.terms.windows.audit_max // 3


def is_draw_missed(state: GameState, game_round: GameRound, block: int) -> bool:
    """Returns whether the draw of a closed round has been missed."""
    closed = game_round.closed
    return game_round.seed is None and closed is not None and block > compute_draw_window(state, closed)[1]


def is_late_draw(state: GameState, draw: int) -> bool:
    """Returns whether a draw number means the late audit of a claim."""
    return draw == state.terms.draws


def get_votes_from(state: GameState, game_round: GameRound, draw: int) -> int | None:
    """Returns the closing block from which the windows of a draw count; None while the draw is not
    recorded."""
    if is_late_draw(state, draw):
        return game_round.late_from
    return None if game_round.seed is None else game_round.closed


def get_statement_until(state: GameState, ref: StatementRef) -> int:
    """Returns the last block in which a statement can be disputed or convicted. For an open round it is the
    latest possible block."""
    game_round = state.rounds[ref.round]
    start = compute_closing_block(state, game_round)
    if ref.draw is not None and is_late_draw(state, ref.draw):
        start = game_round.late_from or start
    return start + state.terms.windows.dispute


def get_query_until(state: GameState, ref: StatementRef) -> int | None:
    """Returns the last block in which the signer of a vote can be queried. None while its draw is not
    recorded."""
    start = None if ref.draw is None else get_votes_from(state, state.rounds[ref.round], ref.draw)
    windows = state.terms.windows
    return None if start is None else start + 2 * windows.audit_max + windows.query


def get_duty_until(state: GameState, game_round: GameRound) -> int | None:
    """Returns the last block in which a statement in a closed round can still cost or earn a seat something.
    None while the round has no root. All roles wait for the latest such block."""
    if game_round.closed is None or game_round.phase in (RoundPhase.RUNNING, RoundPhase.FALLEN):
        return None
    windows, late = state.terms.windows, game_round.late_from
    asked = 2 * windows.audit_max + windows.query
    is_posted = game_round.phase == RoundPhase.POSTED
    ends = [game_round.closed + windows.dispute, game_round.root_until if is_posted else 0]
    if game_round.seed is not None:
        ends.append(game_round.closed + asked)
    if late is not None:
        ends += [late + 3 * windows.audit_max, late + windows.dispute, late + asked]
    return max(ends)


def compute_query_clock(state: GameState, ref: StatementRef, block: int) -> int:
    """Returns the last block for an answer to a query of `block`. An answer shows both end roots, which a
    reserve could copy. So the signer need not answer while votes of the draw count."""
    windows, until = state.terms.windows, get_query_until(state, ref)
    votes_until = 0 if until is None else until - windows.query
    return max(block, votes_until) + windows.respond


def compute_dispute_clock(state: GameState, block: int) -> int:
    """Returns the last block of a dispute opened in `block`: its answers, and a move of the opener after
    each."""
    return block + 2 * ANSWERS_MAX * state.terms.windows.respond


def list_late_missing(state: GameState, block: int) -> tuple[GameRound, ...]:
    """Returns closed rounds whose late audits are not drawn yet but still can be, until they settle. An
    undone round gets none."""
    if not state.terms.late_chance:
        return ()
    dispute = state.terms.windows.dispute
    return tuple(
        game_round
        for game_round in state.rounds.values()
        if game_round.closed is not None
        and game_round.claims
        and game_round.late_seed is None
        and game_round.phase != RoundPhase.UNDONE
        and block <= game_round.closed + dispute
    )


def get_closing_from(state: GameState, block: int) -> int | None:
    """Returns the block from which the closing seed counts: the last round's close + audit_max, or when the
    task paused, if later. None if no closing seed is due."""
    missing = list_late_missing(state, block)
    if not missing or get_live_round(state) is not None or is_start_alive(state, block):
        return None
    closes = [game_round.closed or 0 for game_round in missing]
    return max(max(closes) + state.terms.windows.audit_max, state.paused_since)
