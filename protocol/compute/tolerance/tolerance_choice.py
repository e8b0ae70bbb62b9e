"""Chooses the tolerance of a task."""

from touchstone.protocol.compute.tolerance.bit_for_bit import BitForBit
from touchstone.protocol.compute.tolerance.task_tolerance import Tolerance
from touchstone.protocol.compute.tolerance.within_limits import WithinLimits
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import Limits, TaskSpec


def get_tolerance(spec: TaskSpec) -> Tolerance:
    """Returns the tolerance of a task."""
    return choose_tolerance(spec.training.numeric_format, spec.terms.limits)


def choose_tolerance(numeric_format: str, limits: Limits) -> Tolerance:
    """Returns a tolerance with these limits; in an exact format, one without limits."""
    return BitForBit(numeric_format) if numeric_format in PRODUCT_BITS else WithinLimits(limits)
