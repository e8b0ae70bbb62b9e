"""Profiles as files: signed by their operator, or refused."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from protocol.adapters.keys import AccountKey
from protocol.adapters.operator_profiles import MAX_FILE_BYTES, read_profile, write_profile
from protocol.spec.calibration_rules import Profile
from protocol.spec.errors import InvalidInput
from tests.protocol.spec.profiles import make_profile


def dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


KEY = AccountKey(Account.from_key(bytes(31) + b"\x07"))


@pytest.fixture
def profile() -> Profile:
    return make_profile(operator=KEY.address.lower())


@pytest.fixture
def path(tmp_path: Path, profile: Profile) -> Path:
    write_profile(tmp_path / "profile.json", profile, KEY)
    return tmp_path / "profile.json"


def test_read_profile_gives_back_what_was_signed(path: Path, profile: Profile) -> None:
    assert read_profile(path) == profile


def test_read_profile_asks_to_check_the_path_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_profile(tmp_path / "missing.json")
    assert (refusal.value.actual, refusal.value.remedy) == ("no such file", "Check the path.")


def test_read_profile_refuses_a_changed_figure(path: Path) -> None:
    value = json.loads(path.read_text())
    value["profile"]["segments"] += 1
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match="the signature of"):
        read_profile(path)


def test_read_profile_refuses_the_signature_of_another(path: Path, tmp_path: Path) -> None:
    other = AccountKey(Account.from_key(bytes(31) + b"\x08"))
    write_profile(tmp_path / "other", make_profile(operator=other.address.lower()), other)
    value = json.loads(path.read_text())
    value["signature"] = json.loads((tmp_path / "other").read_text())["signature"]
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match="the signature of"):
        read_profile(path)


@pytest.mark.parametrize(
    "signature", ["", "zz", 5, None, *(encode(bytes(n)) for n in (0, 63, 64, 65)), encode(b"\xff" * 64)]
)
def test_read_profile_refuses_a_malformed_signature(path: Path, signature: object) -> None:
    value = json.loads(path.read_text())
    value["signature"] = signature
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match="not a signed calibration profile"):
        read_profile(path)


def set_field(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_field("segments", to=1.5), "segments"),
        (set_field("segments", to=True), "segments"),
        (set_field("segments", to="5"), "segments"),
        (set_field("segments", to=-1), "segments"),
        (set_field("subject", to=[]), "subject"),
        (set_field("measurements", 0, "quantiles", to=[1, 2, 3, 4, "5"]), "quantiles"),
        (set_field("configurations", to=["a", "b\x1b"]), "configurations"),
        (set_field("more", to=1), "something more"),
        (set_field("subject", "more", to=1), "something more"),
    ],
)
def test_read_profile_names_the_field(path: Path, change: Callable[[Any], None], said: str) -> None:
    value = json.loads(path.read_text())
    change(value["profile"])
    path.write_text(dump(value))
    with pytest.raises(InvalidInput, match=f"calibration profile.*{said}"):
        read_profile(path)


def test_read_profile_takes_one_form_only(path: Path, profile: Profile) -> None:
    text = path.read_text()
    twice = text.replace('"version":1', '"version":1,"version":1')
    for other in (" " + text, json.dumps(json.loads(text)), twice):
        assert other != text
        path.write_text(other)
        with pytest.raises(InvalidInput, match="another form"):
            read_profile(path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 100_000, '{"profile": {}, "signature": "", "x": 1}', " " * (MAX_FILE_BYTES + 1)],
)
def test_read_profile_refuses_what_is_no_profile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="calibration profile"):
        read_profile(path)


def test_write_profile_signs_only_for_its_own_operator(tmp_path: Path, profile: Profile) -> None:
    with pytest.raises(InvalidInput, match="the key of"):
        write_profile(tmp_path / "profile.json", replace(profile, operator="0x" + "11" * 20), KEY)
    assert not list(tmp_path.iterdir())


def test_write_profile_replaces_nothing(path: Path, profile: Profile) -> None:
    with pytest.raises(InvalidInput, match=r"a file is there.*another --out"):
        write_profile(path, profile, KEY)
