"""Judges whether elements differ by more than honest hardware may, one by one, in integers. Twin:
`Tolerance.sol`.

Rules: docs/spec.md, section 6. Replays start from the committed state, so noise does not accumulate. The
replayer's second moment and weight set the scale. There is no division and no float: values are integers of
2^-149, so the chain and a node reach the same answer. Every finite element can be judged: a magnitude above
2^64 counts as 2^64. All intermediate results stay below 2^256. `compute/tolerance/compare.py` measures; this
module judges.
"""

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import is_finite, to_units, unpack_bits
from touchstone.protocol.spec.params import (
    LEARNING_RATE_FRACTION_BITS,
    LEARNING_RATE_SUM_MAX,
    MAGNITUDE_LIMIT_UNITS,
    SQRT_SHIFT_BITS,
    TAU_FRACTION_BITS,
    UNIT_EXPONENT,
)
from touchstone.protocol.spec.task_spec import Limits

ROOT_TO_UNITS_SHIFT = (-UNIT_EXPONENT - SQRT_SHIFT_BITS) // 2
"""The shift that brings a root to units of 2^-149: 53, because the root of v' * 2^43 is in units of 2^-96."""
LARGE_ROOT_SHIFT = TAU_FRACTION_BITS // 2
"""The shift for large roots: 32, because for a v' above 2^64 the root of v' / 2^64, which is exact, is taken
and multiplied by 2^32."""
RATE_TO_UNITS_SHIFT = -UNIT_EXPONENT - TAU_FRACTION_BITS - LEARNING_RATE_FRACTION_BITS
"""The shift that brings tauW * L from units of 2^-128 to 2^-149: 21."""


class Element(NamedTuple):
    """One element of a state as float32 bits."""

    weight: int
    first_moment: int
    second_moment: int


class StateLeaf(NamedTuple):
    """The leaves at one place of the state's three tensors: little-endian float32 bytes of equal length."""

    weights: bytes
    first_moment: bytes
    second_moment: bytes


def to_cut_units(bits: int) -> int:
    """Returns a value in units of 2^-149, cut at 2^64. Cut values are never farther apart than the values, so
    no honest element is worse off."""
    return max(-MAGNITUDE_LIMIT_UNITS, min(MAGNITUDE_LIMIT_UNITS, to_units(bits)))


def compute_root_up(second_moment_units: int) -> int:
    """Returns the least integer r with r^2 >= |v'| * 2^43: sqrt(|v'|) in units of 2^-96, rounded up. From
    2^64 on it is 2^32 times the root of |v'| / 2^64, rounded up, so that a large v still allows a large m. At
    most 2^160."""
    if second_moment_units >= MAGNITUDE_LIMIT_UNITS:
        return compute_root_up(second_moment_units >> 2 * LARGE_ROOT_SHIFT) << LARGE_ROOT_SHIFT
    scaled = second_moment_units << SQRT_SHIFT_BITS
    root = isqrt(scaled)
    return root if root * root == scaled else root + 1


def compute_allowances(replayed: Element, learning_rate_sum: int, limits: Limits) -> tuple[int, int, int]:
    """Returns the largest |dW|, |dm|, |dv| that the limits allow, in whole units of 2^-149.

    `replayed` is finite; `learning_rate_sum` counts 2^-64, capped at 2^128 - 1."""
    magnitude, second_moment = (abs(to_cut_units(bits)) for bits in (replayed.weight, replayed.second_moment))
    rate = min(learning_rate_sum, LEARNING_RATE_SUM_MAX)
    root = compute_root_up(abs(to_units(replayed.second_moment))) << ROOT_TO_UNITS_SHIFT
    weight = (limits.tau_w * rate << RATE_TO_UNITS_SHIFT) + _scale_by_tau(limits.tau_r, magnitude)
    first = _scale_by_tau(limits.tau_m, root + limits.eps_m)
    second = _scale_by_tau(limits.tau_v, second_moment) + limits.floor_v
    return weight, first, second


def _scale_by_tau(tau: int, units: int) -> int:
    """Returns floor(tau * units / 2^64), computed in two parts, because the whole product may exceed
    2^256."""
    high, low = divmod(units, 1 << TAU_FRACTION_BITS)
    return tau * high + (tau * low >> TAU_FRACTION_BITS)


def is_within(claimed: Element, replayed: Element, learning_rate_sum: int, limits: Limits) -> bool:
    """Returns whether all three differences of two finite elements stay inside the limits (equality is
    inside)."""
    allowances = compute_allowances(replayed, learning_rate_sum, limits)
    distances = (abs(to_cut_units(a) - to_cut_units(b)) for a, b in zip(claimed, replayed, strict=True))
    return all(distance <= allowed for distance, allowed in zip(distances, allowances, strict=True))


def does_element_exceed(claimed: Element, replayed: Element, learning_rate_sum: int, limits: Limits) -> bool:
    """Returns whether an element exceeds the limits. It does if a difference is too large, if only the
    claimed v is below zero, or if a number is not finite (which no hashed state can have)."""
    if not all(map(is_finite, (*claimed, *replayed))):
        return True
    # The root of such a v is NaN. A step from it would lose the weight, however small v is.
    if to_units(claimed.second_moment) < 0 <= to_units(replayed.second_moment):
        return True
    return not is_within(claimed, replayed, learning_rate_sum, limits)


def does_leaf_exceed(claimed: StateLeaf, replayed: StateLeaf, learning_rate_sum: int, limits: Limits) -> bool:
    """Returns whether an element of a leaf exceeds the limits."""
    pairs = zip(_elements(claimed), _elements(replayed), strict=True)
    return any(does_element_exceed(a, b, learning_rate_sum, limits) for a, b in pairs)


def _elements(leaf: StateLeaf) -> Sequence[Element]:
    sizes = [len(data) for data in leaf]
    if len(set(sizes)) != 1 or sizes[0] == 0:
        raise InvalidInput(
            what="the three leaves differ in size",
            expected="three equal sizes above 0",
            actual=sizes,
            remedy="Open the same index of all three tensors.",
        )
    return [Element(*bits) for bits in zip(*map(unpack_bits, leaf), strict=True)]
