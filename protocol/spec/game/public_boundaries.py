"""Decides which boundaries of a claim every account may read: those that no auditor has to replay any
more."""

from touchstone.protocol.spec.game.assignments import get_late_draw, get_segments
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import REORG_BLOCKS, compute_draw_window, list_late_missing


def is_boundary_public(state: GameState, game_round: GameRound, slot: int, boundary: int, block: int) -> bool:
    """Returns whether any account may read a boundary of a claim in `block`. It may once the round has a root
    and no vote on the segment that ends there can count any more. An auditor that could read it earlier could
    seal it as its own end. The slot may have no claim."""
    claim, closed, audit_max = game_round.claims.get(slot), game_round.closed, state.terms.windows.audit_max
    is_there = claim is not None and 0 <= boundary <= claim.segments
    if not is_there or closed is None or game_round.phase != RoundPhase.POSTED:
        return False
    until, ended, late_from = closed + 2 * audit_max, boundary - 1, game_round.late_from
    if boundary > 0 and ended not in get_segments(state, game_round, slot):
        if any(one.index == game_round.index for one in list_late_missing(state, block - REORG_BLOCKS)):
            return False
        if late_from is not None:
            # From here on the late draw is known; a reorg may still replace the deciding block.
            until = max(until, compute_draw_window(state, late_from)[0])
        late = get_late_draw(state, game_round, slot)
        if late is not None and late.segment == ended:
            until = max(until, (late_from or 0) + 2 * audit_max)
    return block > until + REORG_BLOCKS


def is_segment_public(state: GameState, game_round: GameRound, slot: int, segment: int, block: int) -> bool:
    """Returns whether any account may read both ends of a segment of a claim. Its start is the end of the
    segment before."""
    return all(is_boundary_public(state, game_round, slot, one, block) for one in (segment, segment + 1))
