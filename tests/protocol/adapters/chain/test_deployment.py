"""The deployment file is read as it was written, and a bad one is refused with the field."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.adapters.anvil import make_deployment
from touchstone.protocol.adapters.chain.deployment import (
    GAME_CONTRACTS,
    read_game_deployment,
    write_game_deployment,
)
from touchstone.protocol.spec.errors import InvalidInput

DEPLOYMENT = make_deployment(31337, [f"0x{number:040x}" for number in range(0xA0, 0xB0)])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deployments" / "31337.json"
    write_game_deployment(path, DEPLOYMENT)
    assert read_game_deployment(path) == DEPLOYMENT
    assert [entry.name for entry in path.parent.iterdir()] == ["31337.json"]


def test_the_keys_are_those_of_solidity() -> None:
    assert list(json.loads(DEPLOYMENT.to_json())) == [
        "chainId", "token", "referee", "randomness", "vault", "game", "tasks", "seats",
        "rounds", "votes", "settlement", "queries", "disputes", "steps", "evidence", "contests", "shares",
        "deployBlock",
    ]  # fmt: skip


def test_contracts_are_found_by_name() -> None:
    assert DEPLOYMENT.contracts()["BlockRandomness"] == DEPLOYMENT.randomness
    assert set(DEPLOYMENT.contracts()) == set(GAME_CONTRACTS.values())


def test_addresses_become_lower_case(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(DEPLOYMENT.to_json().replace("0x" + 38 * "0" + "a0", "0x" + 38 * "0" + "A0"))
    assert read_game_deployment(path) == DEPLOYMENT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vault", "0x12"),
        ("vault", None),
        ("token", 5),
        ("chainId", "1"),
        ("deployBlock", 1.5),
        ("rounds", "x" * 42),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, key: str, value: Any) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({**json.loads(DEPLOYMENT.to_json()), key: value}))
    with pytest.raises(InvalidInput, match=f"{path}.*{key}"):
        read_game_deployment(path)


def test_an_unknown_or_missing_field_is_named(tmp_path: Path) -> None:
    path, whole = tmp_path / "d.json", json.loads(DEPLOYMENT.to_json())
    path.write_text(json.dumps({**whole, "ruler": whole["vault"]}))
    with pytest.raises(InvalidInput, match="ruler"):
        read_game_deployment(path)
    del whole["queries"]
    path.write_text(json.dumps(whole))
    with pytest.raises(InvalidInput, match="queries"):
        read_game_deployment(path)


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "\xff"])
def test_a_missing_or_broken_file_is_said(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "d.json"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    with pytest.raises(InvalidInput, match="deployment file"):
        read_game_deployment(path)
