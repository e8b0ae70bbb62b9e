"""Limits straight from measured distances, without the profiles of several operators."""

from collections.abc import Sequence
from fractions import Fraction

from protocol.compute.audit.calibrate import FLOORS, KernelConfiguration, count_floor_units
from protocol.compute.audit.compare import Distances, Floors
from protocol.spec.calibration_rules import make_limits
from protocol.spec.containers import Limits
from protocol.spec.errors import InvalidInput


def list_configurations(capabilities: Sequence[str]) -> tuple[KernelConfiguration, ...]:
    """Six, or what there is on a processor with one kind of vector instructions: each of threads, oneDNN and
    `capabilities` (best first) in all its values; others at once, as on another machine."""
    best, second, last = capabilities[0], capabilities[1 % len(capabilities)], capabilities[-1]
    every = (
        KernelConfiguration(1, True, best),
        KernelConfiguration(2, True, best),
        KernelConfiguration(1, False, best),
        KernelConfiguration(1, True, second),
        KernelConfiguration(1, False, last),
        KernelConfiguration(2, False, last),
    )
    return tuple(dict.fromkeys(every))


def find_maxima(distances: Sequence[Distances]) -> tuple[float, float, float]:
    """The largest (first_moment, second_moment, weights) over all honest pairs measured."""
    if not distances:
        raise InvalidInput(
            what="nothing was measured", expected="distances of at least one pair", actual=0,
            remedy="Run the calibration first.",
        )  # fmt: skip
    return (
        max(d.first_moment for d in distances),
        max(d.second_moment for d in distances),
        max(d.weights for d in distances),
    )


def propose_limits(distances: Sequence[Distances], floors: Floors = FLOORS) -> Limits:
    """Limits from honest distances that were measured with the same `floors`, by the rule
    of `policy.make_limits`: raises InvalidInput as it does."""
    first, second, weights = map(Fraction, find_maxima(distances))
    return make_limits((first, second, weights), count_floor_units(floors))
