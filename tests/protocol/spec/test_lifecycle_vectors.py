"""The scripts for both twins are current, and hold what they promise."""

import json
from pathlib import Path

import pytest

from tests.protocol.spec import lifecycle_vectors
from tests.protocol.spec.lifecycle_vectors import FILES, FOLDER, main, render

SILENT_CALLS = {
    "sealBeacon", "commit", "sealDraw", "openStart", "commitReplay", "openEnd", "reveal", "sealLeaves",
    "openLeaves", "compareLeaves", "sealLate",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FILES))
def test_vectors_are_current(name: str) -> None:
    assert (FOLDER / name).read_text() == render(FILES[name]()), "run ./dev vectors"


def test_check_tells_a_stale_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle_vectors, "FOLDER", tmp_path)
    assert main(["--check"]) == 1
    assert main([]) == 0 and main(["--check"]) == 0
    (tmp_path / "dispute.json").write_text("{}")
    assert main(["--check"]) == 1


def test_every_missed_call_is_tried_too_late() -> None:
    scripts = json.loads((FOLDER / "round.json").read_text())["scripts"]
    late = {
        step["call"] for script in scripts for step in script["steps"] if step["error"] == "OutsideWindow"
    }
    assert late >= SILENT_CALLS


def test_blocks_rise_and_every_script_settles() -> None:
    for script in json.loads((FOLDER / "round.json").read_text())["scripts"]:
        blocks = [step["block"] for step in script["steps"]]
        assert blocks == sorted(blocks)
        assert len(script["settledSlots"]) == script["cast"]["solvers"]
