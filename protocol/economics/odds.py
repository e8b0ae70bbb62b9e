"""The chance that an audit misses a false claim: every size of cheat, with own seats among the auditors.

The chance is that of the placement of spoiled segments that is best for the cheat.
`audit_draws.draw_circle_segments` never draws two neighbours. So a cheat that spoils every second segment
escapes more often than 1 - (1 - f)^q says. Once a right segment is drawn, the two spoiled ones beside it
are safe. Up to EXACT_SEGMENTS segments every placement is tried; above that, two bounds hold for all
placements.

    hits K     how many of a claim's drawn segments are spoiled
    weight     weights[k]: the chance that a cheat gets away with k hits. Escape = sum of P(K = k) weights[k]

A cheat may own seats among the auditors. A draw's primary and reserves are three places of one permutation
of the pool, and no two draws of a claim share a place. So the cheat's seats fall on them without
replacement (hypergeometric). A draw is accepted by its primary, or by both reserves.

The size of a false claim is its length and the number of its spoiled segments. A claim may be of any whole
number of segments from `compute_least_segments` on. A short one has as many draws as a long one and moves
the model as much, but saves compute that no auditor checks. So all lengths count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb, lcm

from touchstone.protocol.spec.audit_draws import RANKS, count_draws
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import LATE_RATE_ONE

EXACT_SEGMENTS = 12
"""Up to so many segments every placement is tried: at most 2,048 of them beside 105 sets of segments."""
Weights = tuple[Fraction, ...]
"""Chances by the number of hits, 0 first. None above 1."""
HitCounts = tuple[int, ...]
"""By the number of hits: in how many of equally likely cases."""


# --- Exact: every placement ---------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def compute_set_chances(segment_count: int, draws: int) -> dict[int, Fraction]:
    """Every set of segments that can be drawn (a bit each), with its chance.

    The draw goes on as `draw_circle_segments` does: each next segment is uniform among those that are not
    drawn and have no drawn neighbour."""
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
    """The segments that can be drawn next: those that touch none of `drawn` (a bit each) on the circle."""
    full = (1 << segment_count) - 1
    left, right = drawn << 1 | drawn >> (segment_count - 1), drawn >> 1 | drawn << (segment_count - 1)
    free = full & ~(drawn | left | right)
    return [segment for segment in range(segment_count) if free >> segment & 1]


@lru_cache(maxsize=1024)
def list_hit_counts(segment_count: int, draws: int, spoiled: int) -> tuple[int, frozenset[HitCounts]]:
    """How many cases there are, and for every placement of `spoiled` segments how the hits share them.
    Placements that only turn on the circle are one, so segment 0 is always spoiled."""
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
    """The escape of the best placement, exactly."""
    cases, all_counts = list_hit_counts(segment_count, draws, spoiled)
    best = max(sum(n * w for n, w in zip(counts, weights, strict=True)) for counts in all_counts)
    return Fraction(best, cases)


# --- Bounds: all placements of any number of segments -------------------------------------------------------
def bound_by_steps(segment_count: int, drawn: int, spoiled: int, weights: Sequence[Fraction]) -> Fraction:
    """No placement escapes more often than this (`drawn`: how many segments are drawn).

    After i draws that met k spoiled segments, the i drawn ones block at most 2 i neighbours. So at least
    j - k - 2 i spoiled segments are still free. With a neighbours shared by two drawn segments,
    j - k - 2 i + a of n - 3 i + a free ones are spoiled, which is the least share for a = 0. So each draw
    hits with chance (j - k - 2 i) / (n - 3 i) or more, whatever was drawn before. Hits that come with exactly
    these chances are no more than the real ones: while both counts are equal, the real one grows at least as
    often. A weight counts as the largest of those for as many hits or more, so that more hits never help."""
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
    """No placement in a claim of `least_segments` to `segment_count` segments escapes more often than this.
    Sharper than `bound_by_steps` where few segments are spoiled.

    The weight of k hits is at most w0 - (w0 - w1) k + c k (k - 1) / 2, for the least c of which that is true.
    On average k is exactly m j / n, because each segment is drawn equally often. Two given segments are both
    drawn with chance at most the sum over i < k of 2 / (n (n - 3 k)): one is drawn i-th with chance 1 / n,
    and whatever came between, the k-th is one of at least n - 3 k free ones."""
    slope = weights[0] - weights[1]
    bends = ((weights[k] - weights[0] + slope * k) / comb(k, 2) for k in range(2, drawn + 1))
    bend = max(bends, default=Fraction(0))
    both = 2 * sum((Fraction(k, least_segments - 3 * k) for k in range(1, drawn)), start=Fraction(0))
    pairs = comb(spoiled, 2) * both / least_segments
    return weights[0] - slope * Fraction(drawn * spoiled, segment_count) + max(bend, Fraction(0)) * pairs


def compute_worst_escape(
    least_segments: int, segment_count: int, draws: int, spoiled: int, weights: Weights
) -> Fraction:
    """At most so often a claim of `least_segments` to `segment_count` segments escapes of which `spoiled` or
    more are spoiled, wherever they lie. Exact for one size up to EXACT_SEGMENTS.

    `weights` has one entry more than a claim of `least_segments` has draws. Larger claims have as many draws
    or more, of which only so many are counted."""
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
        return (
            by_steps  # The average of k is a least one in larger claims, so it may only help where hits hurt.
        )
    return min(by_steps, bound_by_pairs(least_segments, segment_count, drawn, spoiled, weights))


POOLS_TRIED = 64
"""So many pool sizes from the least on are computed exactly; a bound holds for all larger ones."""
DECIDING = (0, 1, 3, 1)
"""Of a draw's three seats 0, 1, 2 or 3 are the cheat's: in how many ways do they accept it? One must be the
primary; any two do, because they are the primary or both reserves."""


def count_owned(share: Fraction, pool: int) -> int:
    """How many seats of a pool a cheat has that owns at most `share` of them."""
    return int(share * pool)


@lru_cache(maxsize=256)
def _count_deciding(audits: int) -> tuple[int, ...]:
    """In how many ways i own seats among the 3 places of each of `audits` draws accept all of them, by i."""
    ways = [1]
    for _ in range(audits):
        longer = [0] * (len(ways) + RANKS)
        for i, count in enumerate(ways):
            for own, more in enumerate(DECIDING):
                longer[i + own] += count * more
        ways = longer
    return tuple(ways)


def compute_deciding_exact(owned: int, pool: int, audits: int) -> Fraction:
    """Chance that `owned` of `pool` seats accept `audits` draws of one claim, whatever the others say."""
    rest = pool - RANKS * audits
    if not 0 <= owned <= pool or rest < 0:
        raise InvalidInput(
            what="no such pool",
            expected=f"0 to {pool} own seats, at least {RANKS * audits} in all",
            actual=f"{owned} of {pool}",
            remedy="Draw from at least three seats for each draw of a claim.",
        )
    ways = _count_deciding(audits)
    hits = sum(count * comb(rest, owned - i) for i, count in enumerate(ways) if i <= owned)
    return Fraction(hits, comb(pool, owned))


@lru_cache(maxsize=1024)
def compute_deciding_chance(share: Fraction, least_pool: int, audits: int) -> Fraction:
    """The same for a cheat that owns at most `share` of a pool of `least_pool` seats or more: the worst size.

    Beyond the sizes that are tried: of an honest primary's two reserves the second is own less often once the
    first is, so both are with chance at most (K / (V - 1))^2 <= (s V / (V - 1))^2, which falls with V. Draws
    of one claim share no seat, and own seats that stand at one draw are missing at the others, so all draws
    are decided at most as often as if each were on its own."""
    last = least_pool + POOLS_TRIED
    tried = (compute_deciding_exact(count_owned(share, v), v, audits) for v in range(least_pool, last))
    both = min(share * last / (last - 1), Fraction(1)) ** 2
    return max(*tried, (share + (1 - share) * both) ** audits)


def compute_blind_chance(share: Fraction, audits: int) -> Fraction:
    """Chance that no honest seat looks at any of `audits` draws of a claim: all primaries are the cheat's.
    Without replacement it is less in any pool."""
    return share**audits


def compute_fee_chance(share: Fraction, least_pool: int) -> Fraction:
    """Least chance that a draw which serves only the cheat's own auditors costs it the fee of UNSERVED: it
    does unless own auditors accept it.

    An own primary accepts at once, and then no word counts any more. Two own reserves leave one honest word
    of UNSERVED. In all other cases the primary and a reserve are honest. Both words count, whatever the other
    reserve says first: in a draw that has failed an UNSERVED counts until its time is over."""
    return 1 - compute_deciding_chance(share, least_pool, 1)


def compute_paid_votes(share: Fraction, least_pool: int) -> Fraction:
    """At most so many votes of a draw are the cheat's and paid, on average: the primary alone where it
    accepts, else those of own reserves."""
    reserve = min(share * least_pool / (least_pool - 1), Fraction(1))
    return share + (1 - share) * 2 * reserve


SINGLE_SIZES = 32
"""Sizes up to this are taken one by one, larger ones in spans of a sixteenth."""
CHANCE_BITS = 32
"""Chances of being caught are rounded down to so many bits: their powers would have thousands of digits."""


@dataclass(frozen=True)
class Sampling:
    """How much of a claim is looked at. late_chance: c in 65,536ths; pool: the least number of verifiers;
    owned: s, the share of auditors that a cheat may own; detection: d, the chance that an honest auditor sees
    a false segment that it replays; least_segments: of a claim."""

    segment_count: int
    draws: int
    late_chance: int
    pool: int
    owned: Fraction
    detection: Fraction = Fraction(1)
    least_segments: int = 1


@dataclass(frozen=True)
class Cheat:
    """A false claim. segments, spoiled: the most of the claim's, the least that are false; audits: its draws;
    hits: drawn spoiled segments on average; caught: p, that an honest auditor sees it; voided: p1, that it
    is not accepted because of that; accepted: that own auditors accept whatever is drawn of the spoiled
    segments; paid: the most of a round's pay that the claim earns; computed: the least of a round's compute
    that it takes."""

    segments: int
    spoiled: int
    audits: int
    hits: Fraction
    caught: Fraction
    voided: Fraction
    accepted: Fraction
    paid: Fraction
    computed: Fraction


def list_spans(least: int, most: int) -> Iterator[tuple[int, int]]:
    """Sizes from `least` to `most` in spans (first, last). The largest size is a span by itself."""
    first = least
    while first < most:
        last = min(most - 1, first + max(0, first - SINGLE_SIZES // 2) // (SINGLE_SIZES // 2))
        yield first, last
        first = last + 1
    yield most, most


@lru_cache(maxsize=64)
def list_cheats(sampling: Sampling) -> tuple[Cheat, ...]:
    """Every false claim. What stands in one holds for all sizes of its spans."""
    return tuple(
        _compute_cheat(sampling, (max(first, few), last), (few, many))
        for first, last in list_spans(sampling.least_segments, sampling.segment_count)
        for few, many in list_spans(1, last)
    )


def _compute_cheat(sampling: Sampling, sizes: tuple[int, int], spoiled: tuple[int, int]) -> Cheat:
    (least, most), (few, many) = sizes, spoiled
    audits = count_draws(sampling.draws, least)
    deciding = tuple(
        compute_deciding_chance(sampling.owned, sampling.pool, k) if k else Fraction(1)
        for k in range(audits + 1)
    )
    blind = _weigh_blind(sampling, most, audits, few)
    escapes = [compute_worst_escape(least, most, sampling.draws, few, one) for one in (deciding, blind)]
    voided, caught = (_round_down(1 - min(escape, Fraction(1))) for escape in escapes)
    return Cheat(
        segments=most,
        spoiled=few,
        audits=audits,
        hits=Fraction(audits * few, most),
        caught=_round_down(sampling.detection * max(caught, voided)),
        voided=_round_down(sampling.detection * voided),
        accepted=1 - voided,
        paid=Fraction(most, sampling.segment_count),
        computed=Fraction(max(0, least - many), sampling.segment_count),
    )


def _weigh_blind(sampling: Sampling, segments: int, audits: int, spoiled: int) -> Weights:
    """Chance by hits that no honest auditor looks: neither a primary, nor a late primary at one of the
    segments that were not drawn."""
    late = Fraction(sampling.late_chance, LATE_RATE_ONE) * (1 - sampling.owned)
    undrawn = segments - audits
    return tuple(
        compute_blind_chance(sampling.owned, k) * (1 - late * Fraction(max(0, spoiled - k), max(1, undrawn)))
        for k in range(audits + 1)
    )


def _round_down(chance: Fraction) -> Fraction:
    return Fraction(int(chance * (1 << CHANCE_BITS)), 1 << CHANCE_BITS)
