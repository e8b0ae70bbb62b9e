"""Profiles: canonical bytes, what is refused, and the limits that several give."""

import json
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import pytest

from tests.protocol.spec.profiles import SUBJECT, make_profile
from touchstone.protocol.spec.calibration_profile import MAX_ITEMS, compute_profile_digest, encode_profile
from touchstone.protocol.spec.calibration_rules import compute_maxima, make_limits, merge_profiles
from touchstone.protocol.spec.errors import InvalidInput


def test_encode_profile_is_canonical() -> None:
    profile = make_profile()
    text = encode_profile(profile)
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()
    assert compute_profile_digest(profile) == sha256(text).digest()
    assert compute_profile_digest(profile) != compute_profile_digest(replace(profile, segments=33))


def measure(**changes: Any) -> dict[str, Any]:
    first, *others = make_profile().measurements
    return {"measurements": (replace(first, **changes), *others)}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"version": 2}, "profile.version"),
        ({"operator": "0x" + "G" * 40}, "profile.operator"),
        ({"operator": "0x" + "AB" * 20}, "profile.operator"),
        ({"machine": "x" * 201}, "profile.machine"),
        ({"machine": "a\nb"}, "profile.machine"),
        ({"machine": "\u00e9"}, "profile.machine"),
        ({"segments": -1}, "profile.segments"),
        ({"segments": 1 << 160}, "profile.segments"),
        ({"subject": replace(SUBJECT, numeric_format="x" * 201)}, "profile.subject.numeric_format"),
        ({"configurations": ("a",)}, "profile.configurations"),
        ({"configurations": ("a", "a")}, "profile.configurations"),
        ({"configurations": ("a",) * (MAX_ITEMS + 1)}, "profile.configurations"),
        ({"configurations": ("a", "b\0")}, "profile.configurations[1]"),
        ({"floors": (1, 2)}, "profile.floors"),
        ({"measurements": ()}, "profile.measurements"),
        (measure(quantity="loss"), "profile.measurements[0]"),
        (measure(stage="night"), "profile.measurements[0]"),
        (measure(tensor_class="bias"), "profile.measurements[0]"),
        (measure(pairs=0), "profile.measurements[0]"),
        (measure(quantiles=(1, 2, 3, 5, 4)), "profile.measurements[0]"),
        (measure(quantiles=(1, 2)), "profile.measurements[0]"),
        (measure(quantiles=(1, 2, 3, 4, -5)), "profile.measurements[0].quantiles[4]"),
    ],
)
def test_encode_profile_names_what_is_wrong(change: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        encode_profile(replace(make_profile(), **change))
    assert refusal.value.where == where


def test_encode_profile_refuses_a_place_that_is_measured_twice() -> None:
    profile = make_profile()
    twice = replace(profile, measurements=(*profile.measurements, profile.measurements[0]))
    with pytest.raises(InvalidInput):
        encode_profile(twice)


def test_merge_profiles_follows_the_rule() -> None:
    profiles = [make_profile(n) for n in (1, 2, 3)]
    maxima = compute_maxima(profiles[0])
    assert maxima == (Fraction(5, 1 << 20), Fraction(10, 1 << 20), Fraction(15, 1 << 20))
    assert merge_profiles(profiles) == make_limits(maxima, (10, 20, 30))


@pytest.mark.parametrize(
    "other",
    [
        replace(SUBJECT, training="cd" * 32),
        replace(SUBJECT, numeric_format="exact15"),
        replace(SUBJECT, segment_steps=5),
    ],
)
def test_merge_profiles_refuses_another_task(other: object) -> None:
    with pytest.raises(InvalidInput, match="profiles of different tasks"):
        merge_profiles([make_profile(1), make_profile(2), make_profile(3, subject=other)])


def test_merge_profiles_refuses_other_floors_and_none() -> None:
    with pytest.raises(InvalidInput, match="floors"):
        merge_profiles([make_profile(1), make_profile(2, floors=(1, 2, 3)), make_profile(3)])
    with pytest.raises(InvalidInput, match="operators"):
        merge_profiles([])
