"""Bounds how often a false claim escapes its audits, wherever its false segments lie.

The bound is for the placement of false segments that is best for the cheat.
`audit_draws.draw_circle_segments` never draws two neighbours. So a cheat that makes every second segment
false escapes more often than 1 - (1 - f)^q: once a right segment is drawn, the two false ones beside it are
safe. Up to EXACT_SEGMENTS segments every placement is tried (`placement_odds.py`); above that, two bounds
hold for all placements.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb

from touchstone.protocol.economics.placement_odds import Weights, compute_worst_exact
from touchstone.protocol.spec.audit_draws import count_draws
from touchstone.protocol.spec.errors import InvalidInput

EXACT_SEGMENTS = 12
"""For claims of up to this many segments every placement is tried: at most 2,048 placements with 105 sets of
segments."""


def bound_by_steps(segment_count: int, drawn: int, spoiled: int, weights: Sequence[Fraction]) -> Fraction:
    """Returns a chance that no placement exceeds (`drawn` segments are drawn).

    After i draws that hit k false segments, the i drawn ones block at most 2 i neighbours. So at least j - k
    - 2 i false segments are still free. If drawn segments share a neighbours, j - k - 2 i + a of n - 3 i + a
    free ones are false, which is the least share for a = 0. So each draw hits with chance (j - k - 2 i) / (n
    - 3 i) or more, whatever was drawn before. Hits with exactly these chances are never more than the real
    ones: while both counts are equal, the real one grows at least as often. Each weight is raised to the
    largest weight for as many hits or more, so more hits never help."""
    least_hits = _compute_least_hits(segment_count, drawn, spoiled)
    return sum((c * max(weights[k:]) for k, c in enumerate(least_hits)), start=Fraction(0))


@lru_cache(maxsize=4096)
def _compute_least_hits(segment_count: int, drawn: int, spoiled: int) -> Weights:
    chances = [Fraction(1)] + [Fraction(0)] * drawn
    for i in range(drawn):
        for k in range(i, -1, -1):
            hit = min(Fraction(max(0, spoiled - k - 2 * i), segment_count - 3 * i), Fraction(1))
            chances[k + 1] += chances[k] * hit
            chances[k] *= 1 - hit
    return tuple(chances)


def bound_by_pairs(
    least_segments: int, segment_count: int, drawn: int, spoiled: int, weights: Sequence[Fraction]
) -> Fraction:
    """Returns a chance that no placement in a claim of `least_segments` to `segment_count` segments exceeds.
    Sharper than `bound_by_steps` if few segments are false.

    The weight of k hits is at most w0 - (w0 - w1) k + c k (k - 1) / 2, for the least c that makes this true.
    The average of k is exactly m j / n, because each segment is drawn equally often. Two given segments are
    both drawn with chance at most the sum over i < k of 2 / (n (n - 3 k)): one is drawn i-th with chance 1 /
    n, and the k-th is one of at least n - 3 k free ones."""
    slope = weights[0] - weights[1]
    bends = ((weights[k] - weights[0] + slope * k) / comb(k, 2) for k in range(2, drawn + 1))
    bend = max(bends, default=Fraction(0))
    both = 2 * sum((Fraction(k, least_segments - 3 * k) for k in range(1, drawn)), start=Fraction(0))
    pairs = comb(spoiled, 2) * both / least_segments
    return weights[0] - slope * Fraction(drawn * spoiled, segment_count) + max(bend, Fraction(0)) * pairs


def compute_worst_escape(
    least_segments: int, segment_count: int, draws: int, spoiled: int, weights: Weights
) -> Fraction:
    """Returns the greatest chance that a claim of `least_segments` to `segment_count` segments escapes, if
    `spoiled` or more of them are false, wherever they lie. Exact for a single size up to EXACT_SEGMENTS.

    `weights` has one entry more than a claim of `least_segments` has draws. Larger claims have as many draws
    or more; the further ones are not counted."""
    drawn = count_draws(draws, least_segments)
    if not 1 <= spoiled <= least_segments <= segment_count or len(weights) != drawn + 1:
        raise InvalidInput(
            what="no such claim",
            expected=f"1 to {least_segments} spoiled segments, {drawn + 1} weights",
            actual=f"{spoiled} of {least_segments} to {segment_count} segments, {len(weights)} weights",
            remedy="Count spoiled segments from 1 and draws as count_draws does.",
        )
    if least_segments == segment_count <= EXACT_SEGMENTS:
        return compute_worst_exact(segment_count, draws, spoiled, weights)
    by_steps = bound_by_steps(segment_count, drawn, spoiled, weights)
    if weights[0] < weights[1]:
        return by_steps  # The average of k is a lower bound, so it helps only if hits reduce the chance.
    return min(by_steps, bound_by_pairs(least_segments, segment_count, drawn, spoiled, weights))
