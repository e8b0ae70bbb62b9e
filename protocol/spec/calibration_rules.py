"""Makes a task's limits out of honest distances, and says how many operators must have measured.

    distances --> largest of each quantity --> never below a least --> times a margin --> limits

The submitter of a task chooses its limits. This module makes limits that honest hardware keeps, from profiles
that operators measured (`scripts/calibration/measuring.py`) and signed (`calibration_profile.py`). Meanings
and units: docs/spec.md, section 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from touchstone.protocol.spec.calibration_profile import QUANTITIES, Profile
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import TAU_FRACTION_BITS
from touchstone.protocol.spec.task_spec import Limits

MARGIN = 10
"""Limits are this many times the honest maximum, to allow for hardware that was not measured. Anything beyond
the limits counts as false."""
MIN_OPERATORS = 3
"""The least number of operators: three, because if two differ, no rule can tell which one is the outlier."""
MIN_CONFIGURATIONS = 12
"""The least number of different ways to compute, over all operators together."""
MIN_SEGMENTS = 32
"""The least number of start states of each operator. The largest distance of fewer means little
(docs/decisions/0014-calibration.md)."""
"""The segments that an operator replays by default, because ill-conditioned ones are left out of a
profile."""
OUTLIER_RATIO = 10
"""An operator is an outlier above this many times the median of the operators. Noise that others do not see
comes from a broken machine, or from an operator that wants wide limits."""
LEAST_MAXIMUM = Fraction(1, 1 << 22)
"""The least distance that matters: a few roundings of float32."""

Maxima = tuple[Fraction, Fraction, Fraction]
"""The largest distances that were measured: of first moment, second moment and weights, in the scales of
docs/spec.md, section 6."""
Floors = tuple[int, int, int]
"""The floors of the measurement: eps_m and floor_v in units of 2^-149, tau_r in units of 2^-64."""


@dataclass(frozen=True)
class Evidence:
    """The measurements of one operator (an address): maxima over all pairs of its configurations, their
    names, and the number of start states."""

    operator: str
    maxima: Maxima
    configurations: frozenset[str]
    segments: int


def make_limits(maxima: Maxima, floors: Floors) -> Limits:
    """Returns the limits: for each quantity the largest distance (at least LEAST_MAXIMUM), times the margin.

    Raises InvalidInput if the noise is so large that the limits would not constrain a solver."""
    if max(maxima) * MARGIN >= 1:
        raise InvalidInput(
            what="honest machines differ too much to be told from false ones",
            expected=f"every distance below 1/{MARGIN}",
            actual=tuple(map(float, maxima)),
            where=f"({', '.join(QUANTITIES)})",
            remedy="Warm up after every start from zero moments (inner_warmup_steps), or shorten segments.",
        )
    raised = (max(value, LEAST_MAXIMUM) for value in maxima)
    tau_m, tau_v, tau_w = (ceil(value * MARGIN * (1 << TAU_FRACTION_BITS)) for value in raised)
    eps_m, floor_v, tau_r = floors
    return Limits(tau_m, eps_m, tau_v, floor_v, tau_w, tau_r)


def merge_evidence(evidence: Sequence[Evidence], floors: Floors) -> Limits:
    """Returns limits that hold for all operators, made from the largest distances that any operator saw.

    Raises InvalidInput if there is too little evidence, saying what is missing, or if an operator is an
    outlier, naming it. The submitter then finds out why, or leaves that operator out."""
    _require_enough(evidence)
    if outliers := find_outliers(evidence):
        raise InvalidInput(
            what="operators whose machines differ far more than all others",
            expected=f"maxima of at most {OUTLIER_RATIO} times the median of the operators",
            actual="; ".join(outliers),
            remedy="Have them measure again, or merge without their profiles.",
        )
    first, second, weights = zip(*(item.maxima for item in evidence), strict=True)
    return make_limits((max(first), max(second), max(weights)), floors)


def find_outliers(evidence: Sequence[Evidence]) -> list[str]:
    """Returns the operators beyond OUTLIER_RATIO, each with the quantity and the ratio."""
    found = []
    for place, quantity in enumerate(QUANTITIES):
        middle = sorted(item.maxima[place] for item in evidence)[(len(evidence) - 1) // 2]
        for item in evidence:
            if item.maxima[place] > OUTLIER_RATIO * max(middle, LEAST_MAXIMUM):
                ratio = float(item.maxima[place] / max(middle, LEAST_MAXIMUM))
                found.append(f"{item.operator}: {quantity}, {ratio:.3g} times the median")
    return found


def _require_enough(evidence: Sequence[Evidence]) -> None:
    operators = [item.operator for item in evidence]
    if twice := sorted({name for name in operators if operators.count(name) > 1}):
        raise _refuse_evidence("each operator once", f"{', '.join(twice)} more than once")
    if len(operators) < MIN_OPERATORS:
        raise _refuse_evidence(f"at least {MIN_OPERATORS} operators", len(operators))
    names = {name for item in evidence for name in item.configurations}
    if len(names) < MIN_CONFIGURATIONS:
        raise _refuse_evidence(f"at least {MIN_CONFIGURATIONS} different configurations", len(names))
    for item in evidence:
        if len(item.configurations) < 2:
            raise _refuse_evidence("at least 2 configurations of each operator", item.operator)
        if item.segments < MIN_SEGMENTS:
            counted = f"{item.segments} of {item.operator}"
            raise _refuse_evidence(f"at least {MIN_SEGMENTS} segments of each operator", counted)


def _refuse_evidence(expected: str, actual: object) -> InvalidInput:
    return InvalidInput(
        what="there are too few measurements for limits",
        expected=expected,
        actual=actual,
        remedy="Collect more: other operators run `touchstone calibrate` for the same task.",
    )


def compute_maxima(profile: Profile) -> Maxima:
    """Returns the largest distance of each quantity, over classes and stages."""
    first, second, weights = (
        max(item.quantiles[-1] for item in profile.measurements if item.quantity == name)
        for name in QUANTITIES
    )
    one = 1 << TAU_FRACTION_BITS
    return Fraction(first, one), Fraction(second, one), Fraction(weights, one)


def merge_profiles(profiles: Sequence[Profile]) -> Limits:
    """Returns the limits of a task from the profiles of several operators, by `merge_evidence`. Raises
    InvalidInput for profiles of different subjects or floors, for too few, and for outliers."""
    for profile in profiles[1:]:
        for name in ("subject", "floors"):
            first, other = getattr(profiles[0], name), getattr(profile, name)
            if other != first:
                raise InvalidInput(
                    what="profiles of different tasks",
                    expected=f"{name} {first}, as {profiles[0].operator}",
                    actual=other,
                    where=profile.operator,
                    remedy="Merge profiles of one task: same training, format and k.",
                )
    evidence = [
        Evidence(p.operator, compute_maxima(p), frozenset(p.configurations), p.segments) for p in profiles
    ]
    eps_m, floor_v, tau_r = profiles[0].floors if profiles else (0, 0, 0)
    floors: Floors = (eps_m, floor_v, tau_r)
    return merge_evidence(evidence, floors)
