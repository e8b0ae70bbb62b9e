"""Computes the exact chance that an audit misses a false claim, by trying every placement of false segments.

hits        K       how many of a claim's drawn segments are false
weight  weights[k]  the chance that a cheat gets away with k hits
                    Escape = sum of P(K = k) weights[k]
"""

from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import lcm

from touchstone.protocol.spec.audit_draws import count_draws

Weights = tuple[Fraction, ...]
"""Chances by the number of hits, 0 first. None is above 1."""
HitCounts = tuple[int, ...]
"""For each number of hits, in how many of equally likely cases it occurs."""


@lru_cache(maxsize=64)
def compute_set_chances(segment_count: int, draws: int) -> dict[int, Fraction]:
    """Returns every set of segments that can be drawn (one bit each), with its chance.

    It draws as `draw_circle_segments` does: each next segment is uniform among those that are not drawn and
    have no drawn neighbour."""
    chances = {0: Fraction(1)}
    for _ in range(count_draws(draws, segment_count)):
        longer: dict[int, Fraction] = {}
        for drawn, chance in chances.items():
            free = list_free(drawn, segment_count)
            for segment in free:
                longer[drawn | 1 << segment] = longer.get(drawn | 1 << segment, Fraction(0)) + chance / len(
                    free
                )
        chances = longer
    return chances


def list_free(drawn: int, segment_count: int) -> list[int]:
    """Returns the segments that can be drawn next: those that touch none of `drawn` (one bit each) on the
    circle."""
    full = (1 << segment_count) - 1
    left, right = drawn << 1 | drawn >> (segment_count - 1), drawn >> 1 | drawn << (segment_count - 1)
    free = full & ~(drawn | left | right)
    return [segment for segment in range(segment_count) if free >> segment & 1]


@lru_cache(maxsize=1024)
def list_hit_counts(segment_count: int, draws: int, spoiled: int) -> tuple[int, frozenset[HitCounts]]:
    """Returns how many cases there are, and for every placement of `spoiled` segments the numbers of hits in
    them. Placements that differ only by a rotation count as one, so segment 0 is always false."""
    chances = compute_set_chances(segment_count, draws)
    cases = lcm(*(chance.denominator for chance in chances.values()))
    sets = [(drawn, int(chance * cases)) for drawn, chance in chances.items()]
    found = set()
    for others in combinations(range(1, segment_count), spoiled - 1):
        placement = 1 | sum(1 << segment for segment in others)
        counts = [0] * (count_draws(draws, segment_count) + 1)
        for drawn, ways in sets:
            counts[(drawn & placement).bit_count()] += ways
        found.add(tuple(counts))
    return cases, frozenset(found)


def compute_worst_exact(segment_count: int, draws: int, spoiled: int, weights: Weights) -> Fraction:
    """Returns exactly the chance of escape of the best placement."""
    cases, all_counts = list_hit_counts(segment_count, draws, spoiled)
    best = max(sum(n * w for n, w in zip(counts, weights, strict=True)) for counts in all_counts)
    return Fraction(best, cases)
