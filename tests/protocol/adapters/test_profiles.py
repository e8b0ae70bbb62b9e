"""Profiles as files: signed by their operator, or refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account

from protocol.adapters.keys import AccountKey
from protocol.adapters.profiles import MAX_FILE_BYTES, read_profile, write_profile
from protocol.spec.errors import InvalidInput
from protocol.spec.profile import Profile
from tests.protocol.spec.profiles import make_profile

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


def test_read_profile_refuses_a_changed_figure(path: Path) -> None:
    value = json.loads(path.read_text())
    value["profile"]["segments"] += 1
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="the signature of"):
        read_profile(path)


def test_read_profile_refuses_the_signature_of_another(path: Path, tmp_path: Path) -> None:
    other = AccountKey(Account.from_key(bytes(31) + b"\x08"))
    write_profile(tmp_path / "other", make_profile(operator=other.address.lower()), other)
    value = json.loads(path.read_text())
    value["signature"] = json.loads((tmp_path / "other").read_text())["signature"]
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="the signature of"):
        read_profile(path)


@pytest.mark.parametrize("signature", ["", "0x", "zz", 5, "0x" + "00" * 65, "0x" + "ff" * 65])
def test_read_profile_refuses_a_malformed_signature(path: Path, signature: object) -> None:
    value = json.loads(path.read_text())
    value["signature"] = signature
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="not a signed calibration profile"):
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
    with pytest.raises(InvalidInput, match="a file is there"):
        write_profile(path, profile, KEY)
