"""Profiles: canonical bytes, what is refused, and the limits that several give."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from protocol.spec.errors import InvalidInput
from protocol.spec.policy import make_limits
from protocol.spec.profile import (
    MAX_ITEMS,
    MAX_PROFILE_BYTES,
    compute_maxima,
    compute_profile_digest,
    decode_profile,
    encode_profile,
    merge_profiles,
)
from tests.protocol.spec.profiles import SUBJECT, make_profile


def dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def test_decode_profile_gives_back_what_was_encoded() -> None:
    profile = make_profile()
    assert decode_profile(encode_profile(profile)) == profile
    assert compute_profile_digest(profile) != compute_profile_digest(replace(profile, segments=33))


def set_field(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (set_field("version", to=2), "profile.version"),
        (set_field("operator", to="0x" + "G" * 40), "profile.operator"),
        (set_field("operator", to="0x" + "AB" * 20), "profile.operator"),
        (set_field("machine", to="x" * 201), "profile.machine"),
        (set_field("machine", to="a\nb"), "profile.machine"),
        (set_field("segments", to=-1), "profile.segments"),
        (set_field("segments", to=1.5), "profile.segments"),
        (set_field("segments", to=True), "profile.segments"),
        (set_field("segments", to=1 << 160), "profile.segments"),
        (set_field("more", to=1), "profile"),
        (set_field("subject", "format", to="x"), "profile.subject"),
        (set_field("subject", to=[]), "profile.subject"),
        (set_field("configurations", to=["a"]), "profile.configurations"),
        (set_field("configurations", to=["a", "a"]), "profile.configurations"),
        (set_field("configurations", to=["a"] * (MAX_ITEMS + 1)), "profile.configurations"),
        (set_field("floors", to=[1, 2]), "profile.floors"),
        (set_field("measurements", to=[]), "profile.measurements"),
        (set_field("measurements", 0, "quantity", to="loss"), "profile.measurements[0]"),
        (set_field("measurements", 0, "stage", to="night"), "profile.measurements[0]"),
        (set_field("measurements", 0, "tensor_class", to="bias"), "profile.measurements[0]"),
        (set_field("measurements", 0, "pairs", to=0), "profile.measurements[0]"),
        (set_field("measurements", 0, "quantiles", to=[1, 2, 3, 5, 4]), "profile.measurements[0]"),
        (set_field("measurements", 0, "quantiles", to=[1, 2]), "profile.measurements[0]"),
    ],
)
def test_decode_profile_names_what_is_wrong(change: Callable[[Any], None], where: str) -> None:
    value = json.loads(encode_profile(make_profile()))
    change(value)
    with pytest.raises(InvalidInput) as refusal:
        decode_profile(dump(value))
    assert refusal.value.where == where


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"NaN",
        b"\xff",
        b"[" * 100_000,
        b" " * (MAX_PROFILE_BYTES + 1),
        b" " + encode_profile(make_profile()),
        encode_profile(make_profile()).replace(b'"version":1', b'"version":1,"version":1'),
    ],
)
def test_decode_profile_refuses_every_other_form(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_profile(data)


def test_decode_profile_refuses_a_place_that_is_measured_twice() -> None:
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
        replace(SUBJECT, numeric_format="bf16"),
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
