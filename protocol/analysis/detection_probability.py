"""Exact odds that a false claim is detected, for any placement of what is spoiled.

`protocol/spec/game/odds.py` holds what joining asks: the worst placement up to 12 segments, and bounds above.
Here any given placement is computed, so that the bounds can be judged and a page can show figures.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb

from protocol.spec.audit_draw import count_draws
from protocol.spec.errors import InvalidInput
from protocol.spec.game.cheats import Cheat, Sampling, list_cheats
from protocol.spec.game.odds import Weights, compute_worst_escape, list_free
from protocol.spec.game.owned import compute_blind_chance, compute_deciding_chance
from protocol.spec.params import LATE_RATE_ONE

STATES_MAX = 100_000
"""Sets of drawn segments that are gone on from, at most: of 64 segments there are 42,000 sets of three."""
NOTHING = Fraction(0)


# --- Any placement ------------------------------------------------------------------------------------------
def compute_hits(segment_count: int, draws: int, spoiled: Collection[int]) -> Weights:
    """Chances that 0, 1, 2, ... drawn segments are spoiled.

    By recurrence over the set of drawn segments: the next one is uniform among those that touch none. The
    order in which a set came about does not matter for what follows."""
    drawn = count_draws(draws, segment_count)
    _require_placement(segment_count, spoiled)
    if comb(segment_count, drawn - 1) > STATES_MAX:
        raise InvalidInput(
            what="too many sets of drawn segments",
            expected=f"at most {STATES_MAX}",
            actual=comb(segment_count, drawn - 1),
            remedy="Use the bounds of protocol/spec/game/odds.py.",
        )
    return _compute_hits(segment_count, drawn, sum(1 << segment for segment in set(spoiled)))


def _compute_hits(segment_count: int, draws: int, placement: int) -> Weights:
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


def compute_acceptance(
    segment_count: int, draws: int, spoiled: Collection[int], owned: Fraction, least_pool: int
) -> Fraction:
    """Chance that a false claim is accepted before the merge: no drawn segment is spoiled, or own auditors
    decide each draw of one."""
    hits = compute_hits(segment_count, draws, spoiled)
    deciding = [Fraction(1), *(compute_deciding_chance(owned, least_pool, k) for k in range(1, len(hits)))]
    return sum((p * weight for p, weight in zip(hits, deciding, strict=True)), start=Fraction(0))


def _require_placement(segment_count: int, spoiled: Collection[int]) -> None:
    outside = sorted(segment for segment in spoiled if not 0 <= segment < segment_count)
    if outside or not spoiled:
        raise InvalidInput(
            what="no such placement",
            expected=f"segments 0 to {segment_count - 1}, at least one",
            actual=outside or "none",
            remedy="Count segments from 0.",
        )


# --- Searching for the worst --------------------------------------------------------------------------------
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


@dataclass(frozen=True)
class EscapeRow:
    """Escapes of one size. naive: (1 - f)^q, as if segments were drawn independently; found: of the worst
    placement that was found; bound: no placement escapes more often."""

    segments: int
    draws: int
    spoiled: int
    naive: Fraction
    found: Fraction
    bound: Fraction


@lru_cache(maxsize=256)
def compute_escape_row(segment_count: int, draws: int, spoiled: int) -> EscapeRow:
    """For a page: what a hit always detects."""
    weights = (Fraction(1), *[NOTHING] * count_draws(draws, segment_count))
    return EscapeRow(
        segment_count,
        draws,
        spoiled,
        (1 - Fraction(spoiled, segment_count)) ** draws,
        find_worst_placement(segment_count, draws, spoiled)[1],
        compute_worst_escape(segment_count, segment_count, draws, spoiled, weights),
    )


def find_least_detected(sampling: Sampling) -> Cheat:
    """The false claim, of all lengths, that is detected least often."""
    return min(list_cheats(sampling), key=lambda cheat: cheat.caught)
