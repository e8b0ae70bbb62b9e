"""From honest distances to a task's limits: an operator's profile, and the rule over several.

From honest distances to a task's limits: the rule, and how many operators' measurements it takes.

    distances --> largest of each quantity --> never below a least --> times a margin --> limits

The submitter of a task chooses its limits. Here is how limits are made that honest hardware keeps, from
profiles that operators measured and signed (`compute/audit/distance_survey.py`). Meanings and units:
docs/spec.md, section 6.

A calibration profile: what one operator's machine showed on a task's own segments, and its canonical
bytes.

Whole numbers only, so that every reader sees the same values: distances count 2^-64, floors 2^-149, as limits
do. The bytes are JSON with sorted keys and no spaces. `adapters/signed_profiles.py` has the files.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from hashlib import sha256
from math import ceil
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import TAU_FRACTION_BITS
from touchstone.protocol.spec.task_spec import Limits, TaskSpec
from touchstone.protocol.spec.training_codec import encode_training

MARGIN = 10
"""Times the honest maximum, for hardware that was not measured: what lies beyond is called false."""
MIN_OPERATORS = 3
"""Where only two differ, no rule can tell which one is the outlier."""
MIN_CONFIGURATIONS = 12
"""different ways to compute, over all operators together."""
MIN_SEGMENTS = 32
"""start states of each operator: the largest distance of fewer says little
(docs/decisions/0014-calibration.md)."""
DEFAULT_SEGMENTS = MIN_SEGMENTS + 16
"""What an operator replays unless told otherwise: ill-conditioned segments are left out of a profile."""
OUTLIER_RATIO = 10
"""Times the median of the operators: noise that the others do not see comes from a broken machine, or
from an operator that wants wide limits."""
LEAST_MAXIMUM = Fraction(1, 1 << 22)
"""The least distance that makes a difference: a few roundings of float32."""

Maxima = tuple[Fraction, Fraction, Fraction]
"""The largest distances of first moment, second moment and weights, in the scales of section 6."""
Floors = tuple[int, int, int]
"""eps_m and floor_v in units of 2^-149, tau_r in units of 2^-64: those that the distances were measured
with."""
QUANTITIES = ("first moment", "second moment", "weights")


@dataclass(frozen=True)
class Evidence:
    """What one operator (an address) measured: maxima over all pairs of its configurations, their names, and
    how many start states."""

    operator: str
    maxima: Maxima
    configurations: frozenset[str]
    segments: int


def make_limits(maxima: Maxima, floors: Floors) -> Limits:
    """Each quantity's largest distance, or LEAST_MAXIMUM where that is larger, times the margin.

    Raises InvalidInput where the noise is so large that the limits would bind no solver."""
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


# --- Several operators --------------------------------------------------------------------------------------
def merge_evidence(evidence: Sequence[Evidence], floors: Floors) -> Limits:
    """Limits that hold for all operators: those of the largest distance that any of them saw.

    Raises InvalidInput where the evidence is too little, with what is missing, or where an operator is an
    outlier, with its name. The submitter of the task then finds out why, or leaves that operator out."""
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
    """Operators beyond OUTLIER_RATIO, each with quantity and ratio."""
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
        what="the profiles are too little to rest limits on",
        expected=expected,
        actual=actual,
        remedy="Collect more: other operators run `touchstone calibrate` for the same task.",
    )


PROFILE_VERSION = 1
MAX_PROFILE_BYTES = 1 << 20
"""More than the bounds on its parts let any have."""
MAX_ITEMS = 1024
"""of any list."""
MAX_TEXT = 200
"""characters of any text."""
MAX_INTEGER = 1 << 160
QUANTILES = (Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(999, 1000), Fraction(1))
"""What `Measurement.quantiles` are; the last is the maximum."""
TENSOR_CLASSES = ("embedding", "attention", "mlp", "norm", "head")
STAGES = ("zero moments", "warm-up", "middle", "end")


@dataclass(frozen=True)
class Subject:
    """What was measured. Profiles with the same subject may be merged. training: SHA-256 of the canonical
    training spec, in hexadecimal digits; it names model, data, optimizer, schedule and program."""

    training: str
    numeric_format: str
    parameters: int
    inner_steps: int
    segment_steps: int


@dataclass(frozen=True)
class Measurement:
    """Largest distances of pairs, within one class of tensors and one stage of training: `quantiles` over
    `pairs` pairs, at QUANTILES, in units of 2^-64, rounded up."""

    quantity: str
    tensor_class: str
    stage: str
    pairs: int
    quantiles: tuple[int, ...]


@dataclass(frozen=True)
class Profile:
    """What an operator signs. operator: its account, `0x` and 40 lower-case digits; machine, libraries: for
    people; configurations: names, each with what tells this kind of machine from others; floors: eps_m and
    floor_v in units of 2^-149, tau_r in units of 2^-64."""

    version: int
    operator: str
    subject: Subject
    machine: str
    libraries: str
    configurations: tuple[str, ...]
    segments: int
    floors: tuple[int, ...]
    measurements: tuple[Measurement, ...]


def compute_subject(spec: TaskSpec) -> Subject:
    """The subject of a task: of what is trained and how long segments are, not of money or limits."""
    training, terms = spec.training, spec.terms
    digest = sha256(encode_training(training)).hexdigest()
    sizes = (terms.parameter_count, terms.inner_steps, terms.segment_steps)
    return Subject(digest, training.numeric_format, *sizes)


# --- Canonical bytes ----------------------------------------------------------------------------------------
def encode_profile(profile: Profile) -> bytes:
    """Canonical bytes. Raises InvalidInput, with the field, for a profile that breaks a rule."""
    _require_sound(profile)
    return json.dumps(asdict(profile), sort_keys=True, separators=(",", ":")).encode()


def compute_profile_digest(profile: Profile) -> bytes:
    """SHA-256 of the canonical bytes: what is signed."""
    return sha256(encode_profile(profile)).digest()


def _require_small(value: Any, where: str) -> None:
    """Every number, text and list within bounds, at any depth."""
    if isinstance(value, int):
        _require(0 <= value < MAX_INTEGER, value, where, "0 .. 2^160 - 1")
    elif isinstance(value, str):
        is_short = len(value) <= MAX_TEXT and value.isascii() and value.isprintable()
        _require(is_short, value, where, f"up to {MAX_TEXT} printable ASCII characters")
    elif isinstance(value, tuple):
        _require(len(value) <= MAX_ITEMS, value, where, f"up to {MAX_ITEMS} items")
        for number, item in enumerate(value):
            _require_small(item, f"{where}[{number}]")
    else:
        for field in fields(value):
            _require_small(getattr(value, field.name), f"{where}.{field.name}")


def _require(holds: bool, value: object, where: str, expected: str) -> None:
    if not holds:
        raise InvalidInput(
            what="not a calibration profile",
            expected=expected,
            actual=repr(value)[:MAX_TEXT],
            where=where,
            remedy="Have its operator write it anew with `touchstone calibrate`.",
        )


def _require_sound(profile: Profile) -> None:
    _require_small(profile, "profile")
    _require(profile.version == PROFILE_VERSION, profile.version, "profile.version", str(PROFILE_VERSION))
    digits = profile.operator.removeprefix("0x")
    is_address = len(digits) == 40 and profile.operator.startswith("0x") and set(digits) <= _DIGITS
    _require(is_address, profile.operator, "profile.operator", "0x and 40 lower-case digits")
    names = profile.configurations
    _require(2 <= len(set(names)) == len(names), names, "profile.configurations", "two or more, each once")
    _require(len(profile.floors) == 3, profile.floors, "profile.floors", "eps_m, floor_v, tau_r")
    for number, item in enumerate(profile.measurements):
        _require_measurement(item, f"profile.measurements[{number}]")
    places = [(item.quantity, item.tensor_class, item.stage) for item in profile.measurements]
    missing = [name for name in QUANTITIES if name not in {place[0] for place in places}]
    is_whole = not missing and len(set(places)) == len(places)
    _require(is_whole, missing or places, "profile.measurements", "each quantity, and each place once")


def _require_measurement(item: Measurement, where: str) -> None:
    for value, known in (
        (item.quantity, QUANTITIES),
        (item.tensor_class, TENSOR_CLASSES),
        (item.stage, STAGES),
    ):
        _require(value in known, value, where, f"one of {known}")
    values = item.quantiles
    is_rising = len(values) == len(QUANTILES) and list(values) == sorted(values)
    _require(is_rising and item.pairs >= 1, values, where, f"{len(QUANTILES)} rising values of pairs")


_DIGITS = frozenset("0123456789abcdef")


# --- To limits ----------------------------------------------------------------------------------------------
def compute_maxima(profile: Profile) -> Maxima:
    """The largest distance of each quantity, over classes and stages."""
    first, second, weights = (
        max(item.quantiles[-1] for item in profile.measurements if item.quantity == name)
        for name in QUANTITIES
    )
    one = 1 << TAU_FRACTION_BITS
    return Fraction(first, one), Fraction(second, one), Fraction(weights, one)


def merge_profiles(profiles: Sequence[Profile]) -> Limits:
    """The limits of a task from what several operators measured, by the rule above. Raises
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
