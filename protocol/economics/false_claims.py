"""Lists every size of a false claim, with its chances to be seen, voided or accepted.

The size of a false claim is its length and the number of its false segments. A claim has any number of
segments from `compute_least_segments` on. A short one has as many draws as a long one and moves the model as
much, but saves compute that no auditor checks. So all lengths count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from touchstone.protocol.economics.escape_bounds import compute_worst_escape
from touchstone.protocol.economics.owned_auditors import compute_blind_chance, compute_deciding_chance
from touchstone.protocol.economics.placement_odds import Weights
from touchstone.protocol.spec.audit_draws import count_draws
from touchstone.protocol.spec.params import LATE_RATE_ONE

SINGLE_SIZES = 32
"""Sizes up to this are listed one by one, larger ones in spans of a sixteenth."""
CHANCE_BITS = 32
"""Chances of being caught are rounded down to this many bits, because their powers would have thousands of
digits."""


@dataclass(frozen=True)
class Sampling:
    """How much of a claim is audited. `late_chance` is c in 65,536ths, `pool` the least number of verifiers.
    `owned` is s, the share of auditors that a cheat may own. `detection` is d, the chance that an honest
    auditor detects a false segment that it replays. `least_segments` is the least length of a claim."""

    segment_count: int
    draws: int
    late_chance: int
    pool: int
    owned: Fraction
    detection: Fraction = Fraction(1)
    least_segments: int = 1


@dataclass(frozen=True)
class Cheat:
    """A false claim. `segments` is the most of the claim's segments, `spoiled` the least that are false,
    `audits` its draws, `hits` the average number of drawn false segments. `caught` is p, the chance that an
    honest auditor sees that the claim is false. `voided` is p1, the chance that audits therefore do not
    accept it. `accepted` is the chance that the cheat's own auditors accept all drawn false segments. `paid`
    is the largest share of a round's pay that the claim earns, `computed` the least share of a round's
    compute that it takes."""

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
    """Splits sizes from `least` to `most` into spans (first, last). The largest size is a span by itself."""
    first = least
    while first < most:
        last = min(most - 1, first + max(0, first - SINGLE_SIZES // 2) // (SINGLE_SIZES // 2))
        yield first, last
        first = last + 1
    yield most, most


@lru_cache(maxsize=64)
def list_cheats(sampling: Sampling) -> tuple[Cheat, ...]:
    """Returns every kind of false claim. The fields of each are bounds for all sizes in its spans."""
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
    """Returns, by the number of hits, the chance that no honest auditor looks: neither a primary, nor a late
    primary at an undrawn segment."""
    late = Fraction(sampling.late_chance, LATE_RATE_ONE) * (1 - sampling.owned)
    undrawn = segments - audits
    return tuple(
        compute_blind_chance(sampling.owned, k) * (1 - late * Fraction(max(0, spoiled - k), max(1, undrawn)))
        for k in range(audits + 1)
    )


def _round_down(chance: Fraction) -> Fraction:
    return Fraction(int(chance * (1 << CHANCE_BITS)), 1 << CHANCE_BITS)
