"""Tells whether a segment multiplies noise.

Limits rest on how far honest replays of a task's segments differ. Some segments multiply a difference in the
last bit of a weight ten thousandfold, mostly at the first position of a sequence, in the first steps after a
merge. Two honest machines then differ by far more than limits from other segments allow
(docs/decisions/0024-conditioning.md). Numerical analysis calls such a problem ill-conditioned (Higham,
"Accuracy and Stability of Numerical Algorithms", section 1.6).

A machine can measure this alone. It trains the segment a second time from weights that are changed in their
last bit, and compares its two results. Their distance is the segment's *own noise*. The usual own noise is
the median over the task's segments (`find_usual`).
"""

from collections.abc import Sequence
from statistics import median

from touchstone.protocol.compute.tolerance.compare import Distances
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM

ILL_CONDITIONED_RATIO = 32
"""A segment is ill-conditioned if its own noise exceeds this many times the median of the task's segments. Of
35 segments after a merge, all but two were below 11 times, those two above 200 times
(docs/decisions/0024-conditioning.md)."""


def find_usual(own_noise: Sequence[Distances]) -> Distances:
    """Returns the usual own noise of a task: for each quantity the median over the segments, but at least the
    smallest value that limits can express."""
    rows = [(noise.first_moment, noise.second_moment, noise.weights) for noise in own_noise]
    first, second, weights = (max(median(values), float(LEAST_MAXIMUM)) for values in zip(*rows, strict=True))
    return Distances(first, second, weights, 0, 0, 0)


def is_well_conditioned(noise: Distances, usual: Distances) -> bool:
    """Returns whether limits may use a segment with this own noise."""
    pairs = (
        (noise.first_moment, usual.first_moment),
        (noise.second_moment, usual.second_moment),
        (noise.weights, usual.weights),
    )
    return all(own <= ILL_CONDITIONED_RATIO * middle for own, middle in pairs)
