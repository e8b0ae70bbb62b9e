"""Defines a calibration profile: an operator's measurements on a task's own segments.

It has whole numbers only, so that every reader sees the same values: distances count 2^-64, floors 2^-149, as
limits do. Its canonical bytes are JSON with sorted keys and no spaces. `adapters/messages.py` reads the
files.
"""

import json
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from hashlib import sha256
from typing import Any

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.training_codec import encode_training

QUANTITIES = ("first moment", "second moment", "weights")
PROFILE_VERSION = 1
MAX_PROFILE_BYTES = 1 << 20
"""The most bytes of a profile: more than the bounds on its parts allow."""
MAX_ITEMS = 1024
"""The most items of any list in a profile."""
MAX_TEXT = 200
"""The most characters of any text in a profile."""
MAX_INTEGER = 1 << 160
QUANTILES = (Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(999, 1000), Fraction(1))
"""The shares at which `Measurement.quantiles` are taken; the last is the maximum."""
TENSOR_CLASSES = ("embedding", "attention", "mlp", "norm", "head")
STAGES = ("zero moments", "warm-up", "middle", "end")


@dataclass(frozen=True)
class Subject:
    """The task that was measured. Profiles with the same subject may be merged. `training` is the SHA-256 of
    the canonical training spec in hex; the spec names model, data, optimizer, schedule and program."""

    training: str
    numeric_format: str
    parameters: int
    inner_steps: int
    segment_steps: int


@dataclass(frozen=True)
class Measurement:
    """The largest distances of pairs of configurations, for one class of tensors and one stage of training.
    `quantiles` are over `pairs` pairs, at QUANTILES, in units of 2^-64, rounded up."""

    quantity: str
    tensor_class: str
    stage: str
    pairs: int
    quantiles: tuple[int, ...]


@dataclass(frozen=True)
class Profile:
    """The content that an operator signs. `operator` is its account, `0x` and 40 lower-case digits. `machine`
    and `libraries` are for people. `configurations` are names, each with what distinguishes this kind of
    machine. `floors` are eps_m and floor_v in units of 2^-149, tau_r in units of 2^-64."""

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
    """Returns the subject of a task: its training and the length of segments, without money or limits."""
    training, terms = spec.training, spec.terms
    digest = sha256(encode_training(training)).hexdigest()
    sizes = (terms.parameter_count, terms.inner_steps, terms.segment_steps)
    return Subject(digest, training.numeric_format, *sizes)


def encode_profile(profile: Profile) -> bytes:
    """Returns the canonical bytes of a profile. Raises InvalidInput, naming the field, if the profile breaks
    a rule."""
    _require_sound(profile)
    return json.dumps(asdict(profile), sort_keys=True, separators=(",", ":")).encode()


def compute_profile_digest(profile: Profile) -> bytes:
    """Returns the SHA-256 of the canonical bytes, which the operator signs."""
    return sha256(encode_profile(profile)).digest()


def _require_small(value: Any, where: str) -> None:
    """Raises InvalidInput unless every number, text and list is within bounds, at any depth."""
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
            remedy="Ask its operator to write it again with `touchstone calibrate`.",
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
