"""The published odds of a cheat: exact chances that a draw meets what it spoiled, as fractions. Nothing here
is sampled.

`draw.py` is uniform over the sets of q non-adjacent segments out of n, so a chance is a count of sets over a
count of sets. A detected segment means: a drawn auditor's honest replay differs beyond the limits.
"""

from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from itertools import combinations
from math import comb, prod

from protocol.spec.errors import InvalidInput
from protocol.spec.params import LATE_RATE_ONE, MIN_VERIFIERS

EXACT_SEGMENTS = 10
"""Up to so many segments every choice of what to spoil is tried; above, a bound holds for all of them."""
CERTAIN = Fraction(1)


def count_draws(segment_count: int, draws: int) -> int:
    """How many sets of `draws` non-adjacent segments there are: C(n - q + 1, q)."""
    return comb(segment_count - draws + 1, draws)


def count_overlaps(segment_count: int, draws: int, spoiled: Collection[int]) -> list[int]:
    """How many of those sets contain exactly 0, 1, ..., q spoiled segments, by a recurrence over the
    segments.

    last[j][k]: sets of size j with k spoiled ones that contain the previous segment; free: those that do
    not."""
    _require_segments(segment_count, spoiled)
    size = draws + 1
    free, last = _make_table(size), _make_table(size)
    free[0][0] = 1
    for segment in range(segment_count):
        is_spoiled, taken = int(segment in spoiled), _make_table(size)
        for j in range(1, size):
            for k in range(is_spoiled, size):
                taken[j][k] = free[j - 1][k - is_spoiled]
        free = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(free, last, strict=True)]
        last = taken
    return [a + b for a, b in zip(free[draws], last[draws], strict=True)]


def _make_table(size: int) -> list[list[int]]:
    return [[0] * size for _ in range(size)]


def count_clean_draws(segment_count: int, draws: int, spoiled: Collection[int]) -> int:
    """How many of those sets touch no spoiled segment."""
    return count_overlaps(segment_count, draws, spoiled)[0]


def compute_escape_probability(
    segment_count: int,
    draws: int,
    spoiled: Collection[int],
    late_rate: int = 0,
    seen: Fraction = CERTAIN,
) -> Fraction:
    """Chance that neither the draw nor, with chance late_rate / 65536, a late audit of an undrawn segment
    meets one of the spoiled segments (distinct indices below n). seen: chance that an auditor who meets one
    sees and tells it."""
    counts = count_overlaps(segment_count, draws, spoiled)
    size = len(set(spoiled))
    return _weigh(counts, count_draws(segment_count, draws), segment_count - draws, size, late_rate, seen)


def _weigh(
    counts: list[int], total: int, undrawn: int, spoiled: int, late_rate: int, seen: Fraction
) -> Fraction:
    """counts: sets by how many spoiled segments they contain. All that the draw met must stay unseen."""
    late = Fraction(late_rate, LATE_RATE_ONE) * seen / undrawn if undrawn else Fraction(0)
    ways = ((1 - seen) ** k * (1 - late * (spoiled - k)) * count for k, count in enumerate(counts) if count)
    return sum(ways, start=Fraction(0)) / total


def compute_detection_probability(
    segment_count: int,
    draws: int,
    spoiled: Collection[int],
    late_rate: int = 0,
    seen: Fraction = CERTAIN,
) -> Fraction:
    """Chance that at least one spoiled segment is audited and seen: one minus the chance of escape."""
    return 1 - compute_escape_probability(segment_count, draws, spoiled, late_rate, seen)


def compute_least_detection(
    segment_count: int, draws: int, count: int, late_rate: int = 0, seen: Fraction = CERTAIN
) -> Fraction:
    """Detection of the `count` segments that are best to spoil. Exact up to 10 segments; above that the
    larger of two lower bounds: that of the best single segment, and that of draws without the rule against
    neighbours, of which this one keeps the share C(n - q + 1, q) / C(n, q)."""
    if segment_count <= EXACT_SEGMENTS:
        choices = combinations(range(segment_count), count)
        return min(
            compute_detection_probability(segment_count, draws, one, late_rate, seen) for one in choices
        )
    # The segment beside an end is drawn least: sets that contain it skip both neighbours.
    total = count_draws(segment_count, draws)
    drawn = count_draws(segment_count - 3, draws - 1)
    single = 1 - _weigh([total - drawn, drawn], total, segment_count - draws, 1, late_rate, seen)
    clean = segment_count - count
    counts = [comb(count, k) * comb(clean, draws - k) for k in range(draws + 1)]
    return max(single, 1 - _weigh(counts, total, segment_count - draws, count, late_rate, seen))


def _require_segments(segment_count: int, spoiled: Collection[int]) -> None:
    outside = sorted(segment for segment in spoiled if not 0 <= segment < segment_count)
    if outside:
        raise InvalidInput(
            what="no such segment",
            expected=f"0 .. {segment_count - 1}",
            actual=outside,
            remedy="Count segments from 0.",
        )


def compute_owned_majority(share: Fraction, most_verifiers: int) -> Fraction:
    """Chance that a party who owns at most `share` of the verifiers decides one draw alone: the primary is
    its own and accepts, or both reserves are and outvote it. The worst of all enrolments of up to
    `most_verifiers`."""
    return max(_list_majorities(share, max(most_verifiers, MIN_VERIFIERS)))


def _list_majorities(share: Fraction, most_verifiers: int) -> Iterator[Fraction]:
    for count in range(MIN_VERIFIERS, most_verifiers + 1):
        owned = share * count // 1
        reserves = Fraction(owned * (owned - 1), (count - 1) * (count - 2))
        yield Fraction(owned, count) + Fraction(count - owned, count) * reserves


def compute_owned_reveals(share: Fraction, most_verifiers: int) -> Fraction:
    """Of one draw of a claim that serves only its partners: how many of them reveal and are paid, on average
    and in the worst enrolment. The first auditor alone where it is one, else those among the reserves."""
    found = []
    for count in range(MIN_VERIFIERS, max(most_verifiers, MIN_VERIFIERS) + 1):
        owned = share * count // 1
        found.append(Fraction(owned, count) + Fraction(count - owned, count) * Fraction(2 * owned, count - 1))
    return max(found)


def compute_undrawn_probability(verifier_count: int, audits: int) -> Fraction:
    """Chance that one given verifier is the primary of none of `audits` draws (each draw is on its own and
    uniform)."""
    if verifier_count < 1 or audits < 0:
        raise InvalidInput(
            what="impossible enrolment",
            expected="at least one verifier and no negative count of audits",
            actual=f"{verifier_count} verifiers, {audits} audits",
            remedy="Count the enrolled verifiers again.",
        )
    return Fraction(verifier_count - 1, verifier_count) ** audits


def compute_luck(escapes: Iterable[Fraction]) -> Fraction:
    """Chance that at least one of several independent cheats is never met, given each one's chance of
    escaping.

    A run that expects all of them to be caught fails by bad luck with this probability."""
    return 1 - prod((1 - escape for escape in escapes), start=Fraction(1))
