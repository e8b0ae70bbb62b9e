"""From signed profiles to the limits of a task file."""

import tomllib
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account

from protocol.adapters.keys import AccountKey
from protocol.adapters.messages import write_profile
from protocol.spec.calibration_rules import Profile, merge_profiles
from protocol.spec.containers import Limits
from protocol.spec.errors import InvalidInput
from scripts.figures import build_container
from scripts.limit_policy import run_policy
from tests.protocol.spec.profiles import make_profile
from tests.scripts.network import fail
from tests.scripts.schemas import check


def write_three(folder: Path, **changes: object) -> tuple[list[Path], list[Profile]]:
    paths, profiles = [], []
    for number in (1, 2, 3):
        key = AccountKey(Account.from_key(bytes(31) + bytes([number])))
        change = changes if number == 3 else {}
        profiles.append(make_profile(number, operator=key.address.lower(), **change))
        paths.append(folder / f"{number}.json")
        write_profile(paths[-1], profiles[-1], key)
    return paths, profiles


def test_run_policy_writes_the_tables_of_a_task_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, profiles = write_three(tmp_path)
    found = check("policy", run_policy(Namespace(profiles=paths, out=tmp_path / "limits.toml")))
    text = (tmp_path / "limits.toml").read_text()
    assert text == capsys.readouterr().out and all(p.operator in text for p in profiles)
    tables, merged = tomllib.loads(text), merge_profiles(profiles)
    assert set(tables) == {"limits"}
    assert {name: int(value) for name, value in found["limits"].items()} == tables["limits"]
    assert build_container(Limits, tables["limits"], tmp_path) == merged


def test_run_policy_refuses_in_four_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, profiles = write_three(tmp_path, subject=replace(make_profile().subject, segment_steps=5))
    lines = fail(capsys, "policy", *map(str, paths))
    assert "profiles of different tasks" in lines[0] and profiles[2].operator in lines[0]


def test_run_policy_wants_every_signature(tmp_path: Path) -> None:
    paths, _ = write_three(tmp_path)
    paths[1].write_text(paths[1].read_text().replace('"segments":32', '"segments":33'))
    with pytest.raises(InvalidInput, match="the signature of"):
        run_policy(Namespace(profiles=paths, out=None))
