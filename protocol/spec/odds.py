"""The published odds of a cheat: exact chances that a draw meets what it spoiled, as fractions. Nothing here
is sampled.

`draw.py` is uniform over the sets of q non-adjacent segments out of n, so a chance is a count of sets over a
count of sets. A detected segment means: a drawn auditor's honest replay differs beyond the limits.
"""

from collections.abc import Collection, Iterable
from fractions import Fraction
from math import comb, prod

from protocol.spec.errors import InvalidInput
from protocol.spec.params import LATE_RATE_ONE


def count_draws(segment_count: int, draws: int) -> int:
    """How many sets of `draws` non-adjacent segments there are: C(n - q + 1, q)."""
    return comb(segment_count - draws + 1, draws)


def count_clean_draws(segment_count: int, draws: int, spoiled: Collection[int]) -> int:
    """How many of those sets touch no spoiled segment, by a recurrence over the segments.

    last[j]: sets of size j that contain the previous segment; free[j]: those that do not."""
    _require_segments(segment_count, spoiled)
    free, last = [1] + [0] * draws, [0] * (draws + 1)
    for segment in range(segment_count):
        taken = [0] * (draws + 1) if segment in spoiled else [0, *free[:draws]]
        free, last = [a + b for a, b in zip(free, last, strict=True)], taken
    return free[draws] + last[draws]


def compute_escape_probability(
    segment_count: int, draws: int, spoiled: Collection[int], late_rate: int = 0
) -> Fraction:
    """Chance that neither the draw nor, with chance late_rate / 65536, a late audit of an undrawn segment
    meets one of the spoiled segments (distinct indices below n)."""
    missed = Fraction(count_clean_draws(segment_count, draws, spoiled), count_draws(segment_count, draws))
    undrawn = segment_count - draws
    if undrawn == 0:
        return missed
    # Where the draw missed, every spoiled segment is among the undrawn ones.
    return missed * (1 - Fraction(late_rate, LATE_RATE_ONE) * Fraction(len(set(spoiled)), undrawn))


def compute_detection_probability(
    segment_count: int, draws: int, spoiled: Collection[int], late_rate: int = 0
) -> Fraction:
    """Chance that at least one spoiled segment is audited: one minus the chance of escape."""
    return 1 - compute_escape_probability(segment_count, draws, spoiled, late_rate)


def _require_segments(segment_count: int, spoiled: Collection[int]) -> None:
    outside = sorted(segment for segment in spoiled if not 0 <= segment < segment_count)
    if outside:
        raise InvalidInput(
            what="no such segment",
            expected=f"0 .. {segment_count - 1}",
            actual=outside,
            remedy="Count segments from 0.",
        )


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
