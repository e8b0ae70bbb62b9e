"""A taste of the campaign: no honest element is outside, every planted lie is found."""

import json
import subprocess
import sys
from typing import Any

import pytest

from lab.benchmarks.reports import BUILD
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS

KINDS = {kind.name for kind in BOUNDED_OPERATIONS}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    subprocess.run([sys.executable, "-m", "lab.benchmarks.honest", "--short"], cwd=BUILD.parent, check=True)
    content: dict[str, Any] = json.loads((BUILD / "honest-short" / "report.json").read_text())
    return content


def test_no_honest_element_is_outside(report: dict[str, Any]) -> None:
    assert report["outside"] == report["misrounded"] == report["convicted"] == 0
    assert not report["traces"]["faults"] and report["traces"]["count"] == 2
    assert len(report["configurations"]) == 2
    assert set(report["kinds_in_single_nodes"]) == set(report["kinds_in_traces"]) == KINDS
    assert all(kind["elements"] >= 10_000 and kind["judged"] for kind in report["kinds"].values())
    assert all(0 <= kind["worst_ratio"] <= 1 for kind in report["kinds"].values())


def test_every_planted_lie_is_found(report: dict[str, Any]) -> None:
    planted = report["planted"]
    assert planted["missed"] == [] and planted["found"] == planted["tried"] > 300
    assert set(planted["per_kind"]) == KINDS
    for kind in planted["per_kind"].values():
        tried = {lie.partition(": ")[2] for lie, tally in kind["lies"].items() if tally["tried"]}
        assert "error" in tried and len(tried) >= 4
