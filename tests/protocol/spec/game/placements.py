"""Exact odds that a false claim is detected, for any placement of what is spoiled: what the bounds of
`protocol/economics/escape_bounds.py` are measured against."""

from collections.abc import Collection, Iterator
from fractions import Fraction
from itertools import combinations
from math import comb

from touchstone.protocol.economics.escape_bounds import compute_worst_escape
from touchstone.protocol.economics.owned_auditors import compute_blind_chance
from touchstone.protocol.economics.placement_odds import Weights, list_free
from touchstone.protocol.spec.audit_draws import count_draws
from touchstone.protocol.spec.params import LATE_RATE_ONE

NOTHING = Fraction(0)


# Any placement
def compute_hits(segment_count: int, draws: int, spoiled: Collection[int]) -> Weights:
    """Chances that 0, 1, 2, ... drawn segments are spoiled.

    By recurrence over the set of drawn segments: the next one is uniform among those that touch none. The
    order in which a set came about does not matter for what follows."""
    draws, placement = count_draws(draws, segment_count), sum(1 << segment for segment in set(spoiled))
    chances: dict[int, Fraction] = {0: Fraction(1)}
    for _ in range(draws - 1):
        chances = _draw_once(chances, segment_count)
    hits = [Fraction(0)] * (draws + 1)
    for drawn, chance in chances.items():
        met, free = (drawn & placement).bit_count(), list_free(drawn, segment_count)
        good = sum(placement >> segment & 1 for segment in free)
        hits[met + 1] += chance * good / len(free)
        hits[met] += chance * (len(free) - good) / len(free)
    return tuple(hits)


def _draw_once(chances: dict[int, Fraction], segment_count: int) -> dict[int, Fraction]:
    longer: dict[int, Fraction] = {}
    for drawn, chance in chances.items():
        free = list_free(drawn, segment_count)
        for segment in free:
            key = drawn | 1 << segment
            longer[key] = longer.get(key, Fraction(0)) + chance / len(free)
    return longer


def compute_escape(
    segment_count: int,
    draws: int,
    spoiled: Collection[int],
    late_chance: int = 0,
    owned: Fraction = NOTHING,
) -> Fraction:
    """Chance that nobody honest looks at a spoiled segment, late audit included. A cheat owns a share `owned`
    of the auditors. late_chance: c in 65,536ths, of one segment that was not drawn before."""
    hits = compute_hits(segment_count, draws, spoiled)
    size, undrawn = len(set(spoiled)), segment_count - count_draws(draws, segment_count)
    late = Fraction(late_chance, LATE_RATE_ONE) * (1 - owned) / max(1, undrawn)
    ways = (p * compute_blind_chance(owned, k) * (1 - late * (size - k)) for k, p in enumerate(hits) if p)
    return sum(ways, start=Fraction(0))


# Searching for the worst
def list_plausible_placements(segment_count: int, spoiled: int) -> Iterator[frozenset[int]]:
    """Placements that a cheat would try: one run, every second segment, pairs, every third, evenly spread."""
    patterns = ((1,), (2,), (1, 2), (1, 3), (3,), (2, 3))
    for steps in patterns:
        yield _walk(segment_count, spoiled, steps)
    yield frozenset(i * segment_count // spoiled for i in range(spoiled))


def _walk(segment_count: int, spoiled: int, steps: tuple[int, ...]) -> frozenset[int]:
    """`spoiled` segments by steps round the circle; where one is taken, the next free one."""
    taken: set[int] = set()
    place = 0
    for i in range(spoiled):
        while place % segment_count in taken:
            place += 1
        taken.add(place % segment_count)
        place += steps[i % len(steps)]
    return frozenset(taken)


def find_worst_placement(segment_count: int, draws: int, spoiled: int) -> tuple[frozenset[int], Fraction]:
    """The plausible placement that is hit least often, and the chance that none of it is drawn."""
    tried = ((one, compute_escape(segment_count, draws, one)) for one in _list_tried(segment_count, spoiled))
    return max(tried, key=lambda pair: pair[1])


def _list_tried(segment_count: int, spoiled: int) -> Iterator[frozenset[int]]:
    """All placements where they are few, else the plausible ones."""
    if comb(segment_count, spoiled) <= 1_000:
        yield from (frozenset(one) for one in combinations(range(segment_count), spoiled))
    else:
        yield from list_plausible_placements(segment_count, spoiled)


def bound_escape(segment_count: int, draws: int, spoiled: int) -> Fraction:
    """What no placement of this size escapes more often, where a hit always detects."""
    weights = (Fraction(1), *[NOTHING] * count_draws(draws, segment_count))
    return compute_worst_escape(segment_count, segment_count, draws, spoiled, weights)
