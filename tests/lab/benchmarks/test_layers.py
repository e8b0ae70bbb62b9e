"""A taste of the campaign: what claimants with other kernels plant is found, and little is fetched for it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from lab.benchmarks.layers import LIES
from lab.benchmarks.reports import BUILD


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    subprocess.run([sys.executable, "-m", "lab.benchmarks.layers", "--short"], cwd=BUILD.parent, check=True)
    content: dict[str, Any] = json.loads((BUILD / "layers-short" / "report.json").read_text())
    (found,) = [one["summary"] for one in content.values() if "summary" in one]
    return found  # type: ignore[no-any-return]


def test_an_honest_claimant_is_not_accused(summary: dict[str, Any]) -> None:
    assert not summary["honest"]["accused"]
    assert 0.1 < summary["honest"]["share"] < 0.25


def test_every_lie_is_found_and_little_is_fetched(summary: dict[str, Any]) -> None:
    lies = summary["all"]
    assert lies["found"] == lies["lies"] == 3 * len(LIES)
    assert lies["most"] < summary["honest"]["share"]
    assert lies["median"] < 0.15
