"""Which tolerance a task has."""

from touchstone.protocol.compute.tolerance.bit_for_bit import BitForBit
from touchstone.protocol.compute.tolerance.task_tolerance import Tolerance
from touchstone.protocol.compute.tolerance.within_limits import WithinLimits
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import Limits, TaskSpec


def get_tolerance(spec: TaskSpec) -> Tolerance:
    """Returns the tolerance of a task."""
    return choose_tolerance(spec.training.numeric_format, spec.terms.limits)


def choose_tolerance(numeric_format: str, limits: Limits) -> Tolerance:
    """Returns the limits as a tolerance, or in an exact format none."""
    return BitForBit(numeric_format) if numeric_format in PRODUCT_BITS else WithinLimits(limits)
