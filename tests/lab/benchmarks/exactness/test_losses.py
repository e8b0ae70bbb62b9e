"""Losses of exact formats beside those of float32, and the picture."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.benchmarks.exactness import losses
from lab.benchmarks.exactness.losses import compare_losses, draw_losses
from lab.benchmarks.exactness.walking import Walk, Way, list_ways

PLAN = {"0.2M": (("float32", "exact8", "exact15"), 20)}


def tell(way: Way, folder: Path, job: Walk) -> list[tuple[str, float]]:
    """A worker that computes nothing: seeds lie 0.1 apart, and 8 bits learn worse."""
    worse = 0.3 * (job.run.numeric_format == "exact8")
    return [("", 2.0 + 0.1 * job.run.seed + worse) for _ in range(job.steps)]


def test_a_mean_loss_may_differ_by_the_spread_of_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "start_worker", tell)
    found = compare_losses(PLAN, 5, list_ways()[0], tmp_path)["0.2M"]
    assert found["float32"]["allowed"] == pytest.approx(0.2)
    assert found["exact15"]["is_as_good"] and found["exact15"]["distance"] == 0
    assert not found["exact8"]["is_as_good"] and found["exact8"]["distance"] == pytest.approx(0.3)
    monkeypatch.setattr(losses, "BUILD", tmp_path)
    picture = ElementTree.fromstring(draw_losses({"0.2M": found}, "x").read_text())
    lines = [one for one in picture.iter() if one.get("stroke-width") == "1.6"]
    assert len(lines) == len(PLAN["0.2M"][0])
