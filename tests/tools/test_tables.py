"""Enumerations and numbers of the contracts are those of the specification."""

from enum import IntEnum
from pathlib import Path

import pytest

from tools import tables


def test_the_committed_file_is_made_of_the_specification() -> None:
    assert tables.main(["--check"]) == 0


def test_a_file_that_differs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "GameTables.sol"
    monkeypatch.setattr(tables, "FILE", copy)
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.main(["--check"]) == 1
    assert "GameTables.sol differs" in capsys.readouterr().err
    assert tables.main([]) == 0 and tables.main(["--check"]) == 0
    copy.write_text(copy.read_text().replace("SILENCES_LEAST = 3", "SILENCES_LEAST = 4"))
    assert tables.main(["--check"]) == 1


def test_an_enumeration_with_a_gap_is_none() -> None:
    """A gap would give every later member another number on the chain."""
    gap = IntEnum("gap", {"FIRST": 1, "THIRD": 3})
    with pytest.raises(AssertionError):
        tables._render_enum("Gap", gap)
