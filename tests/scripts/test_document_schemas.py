"""docs/schemas says what the types of the documents say."""

from pathlib import Path

import pytest

from tools import document_schemas


def test_the_schemas_of_the_manual_are_made_of_the_types() -> None:
    assert document_schemas.main(["--check"]) == 0


def test_a_schema_that_differs_is_named_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(document_schemas, "SCHEMAS", tmp_path)
    assert document_schemas.main([]) == 0
    (tmp_path / "status.json").write_text("{}\n")
    (tmp_path / "gone.json").write_text("{}\n")
    (tmp_path / "task-halt.json").unlink()
    assert document_schemas.main(["--check"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == ["gone.json", "status.json", "task-halt.json"]
    assert document_schemas.main([]) == 0
    assert document_schemas.main(["--check"]) == 0 and not (tmp_path / "gone.json").exists()
