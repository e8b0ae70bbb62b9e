"""Whether a segment multiplies noise.

Limits rest on what honest replays of a task's segments differ by. Now and then a segment multiplies a
difference in the last bit of a weight ten thousandfold. This happens mostly at the first position of a
sequence, in the first steps after a merge. Two honest machines then part far beyond any limits made from
other segments (docs/decisions/0024-conditioning.md). In numerical analysis such a problem is
ill-conditioned (Higham, "Accuracy and Stability of Numerical Algorithms", section 1.6).

A machine that replays such a segment can tell by itself. It trains the segment again from weights that are
shaken in their last bit, and sees how far its own two results lie apart. That distance is the segment's *own
noise*. The usual own noise is the median over the task's segments (`find_usual`).
"""

from collections.abc import Sequence
from statistics import median

from touchstone.protocol.compute.tolerance.compare import Distances
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM

ILL_CONDITIONED_RATIO = 32
"""Times the median over a task's segments: own noise above it is that of an ill-conditioned segment. Of 35
segments after a merge all but two lay below 11 times it, those two above 200 times
(docs/decisions/0024-conditioning.md)."""


def find_usual(own_noise: Sequence[Distances]) -> Distances:
    """Returns the median over the segments of a task, for each quantity; at least the smallest value that
    limits can express."""
    rows = [(noise.first_moment, noise.second_moment, noise.weights) for noise in own_noise]
    first, second, weights = (max(median(values), float(LEAST_MAXIMUM)) for values in zip(*rows, strict=True))
    return Distances(first, second, weights, 0, 0, 0)


def is_well_conditioned(noise: Distances, usual: Distances) -> bool:
    """Returns whether limits may rest on a segment with this own noise."""
    pairs = (
        (noise.first_moment, usual.first_moment),
        (noise.second_moment, usual.second_moment),
        (noise.weights, usual.weights),
    )
    return all(own <= ILL_CONDITIONED_RATIO * middle for own, middle in pairs)
