"""Finds the segments of a round's draws, and the seat that is drawn for each rank to audit them.

All of it follows from the seeds in the state. The draws themselves are in `protocol/spec/audit_draws.py`.
"""

from functools import lru_cache

from touchstone.protocol.spec.audit_draws import (
    RANKS,
    VERIFIER_POOL,
    WHISTLEBLOWER_POOL,
    LateDraw,
    compute_permutation,
    count_draws,
    count_places,
    draw_circle_segments,
    draw_late,
    get_auditor_places,
)
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.state import DrawPlace, GameRound, GameState
from touchstone.protocol.spec.game.timing import is_late_draw

_permute = lru_cache(maxsize=256)(compute_permutation)
_draw_segments = lru_cache(maxsize=1 << 14)(draw_circle_segments)
_draw_late = lru_cache(maxsize=1 << 14)(draw_late)


def get_segments(state: GameState, game_round: GameRound, slot: int) -> tuple[int, ...]:
    """Returns the drawn segments of a claim in the order of its draws; none before the drawing."""
    claim = game_round.claims.get(slot)
    if claim is None or game_round.seed is None:
        return ()
    return _draw_segments(game_round.seed, slot, state.terms.draws, claim.segments)


def get_late_draw(state: GameState, game_round: GameRound, slot: int) -> LateDraw | None:
    """Returns the late audit of a claim, None if there is none (yet)."""
    claim, pool = game_round.claims.get(slot), game_round.pool.whistleblowers
    if claim is None or game_round.late_seed is None or slot not in game_round.late_slots:
        return None
    if len(pool) < RANKS:
        return None
    segments = get_segments(state, game_round, slot)
    chance, slots = state.terms.late_chance, len(game_round.pool.solvers)
    return _draw_late(game_round.late_seed, slot, chance, segments, claim.segments, len(pool), slots)


def list_draws(state: GameState, game_round: GameRound) -> tuple[DrawPlace, ...]:
    """Returns every (slot, draw) of a round, with the late draw of a claim last."""
    places: list[DrawPlace] = []
    for slot in sorted(game_round.claims):
        places += [(slot, draw) for draw in range(len(get_segments(state, game_round, slot)))]
        if get_late_draw(state, game_round, slot) is not None:
            places.append((slot, state.terms.draws))
    return tuple(places)


def get_drawn_segment(state: GameState, game_round: GameRound, slot: int, draw: int) -> int | None:
    """Returns the segment of a draw, None if there is no such draw."""
    if is_late_draw(state, draw):
        late = get_late_draw(state, game_round, slot)
        return None if late is None else late.segment
    segments = get_segments(state, game_round, slot)
    return segments[draw] if 0 <= draw < len(segments) else None


def get_drawn_seat(state: GameState, game_round: GameRound, slot: int, draw: int, rank: int) -> int | None:
    """Returns the seat that is drawn for a rank of a draw, None if there is no such draw."""
    if not 0 <= rank < RANKS or get_drawn_segment(state, game_round, slot, draw) is None:
        return None
    slots = len(game_round.pool.solvers)
    late = get_late_draw(state, game_round, slot) if is_late_draw(state, draw) else None
    if late is not None and game_round.late_seed is not None:
        pool = game_round.pool.whistleblowers
        return _get_placed(pool, game_round.late_seed, WHISTLEBLOWER_POOL, slots, late.places[rank])
    pool, draws = game_round.pool.verifiers, state.terms.draws
    places = get_auditor_places(len(pool), slot, draw, draws, slots)
    return _get_placed(pool, game_round.seed or b"", VERIFIER_POOL, draws * slots, places[rank])


def _get_placed(pool: tuple[int, ...], seed: bytes, role_tag: str, draws: int, place: int) -> int:
    """Returns the seat at a place of a pool's permutation, which is computed as far as the round's draws
    reach."""
    return pool[_permute(seed, role_tag, len(pool), count_places(len(pool), draws))[place]]


def get_draw_role(state: GameState, draw: int) -> SeatRole:
    """Returns the role that audits a draw."""
    return SeatRole.WHISTLEBLOWER if is_late_draw(state, draw) else SeatRole.VERIFIER


def count_claim_draws(state: GameState, game_round: GameRound, slot: int) -> int:
    """Returns how many draws decide a claim."""
    return count_draws(state.terms.draws, game_round.claims[slot].segments)
