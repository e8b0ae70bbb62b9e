"""Which tolerance a task has."""

from touchstone.protocol.compute.tolerance.bit_for_bit import BitForBit
from touchstone.protocol.compute.tolerance.task_tolerance import Tolerance
from touchstone.protocol.compute.tolerance.within_limits import WithinLimits
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import Limits


def choose_tolerance(numeric_format: str, limits: Limits) -> Tolerance:
    """Returns the tolerance of a task: its limits, or no tolerance in an exact task."""
    return BitForBit(numeric_format) if numeric_format in PRODUCT_BITS else WithinLimits(limits)
