"""The report and the page of the benchmark `training`."""

from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks import training
from lab.benchmarks.training import (
    LINES,
    MEANINGS,
    PAGE,
    QUICK,
    fill_table,
    format_page,
    format_value,
    run,
)


def test_every_line_is_in_the_report_and_null_where_its_part_was_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, Any] = {"ratio": 1.25, "losses": {}, "steps": 4}
    monkeypatch.setattr(training, "compare_synchronous", lambda *_: found)
    report = run(QUICK, ("long",))
    assert report["parts"] == ["long"] and report["loss_vs_synchronous"] == 1.25
    assert all(report[line] is None for line in LINES if line != "loss_vs_synchronous")


def test_the_table_stands_between_the_marks_and_can_be_filled_again(tmp_path: Path) -> None:
    page = tmp_path / "training.md"
    page.write_text(PAGE.read_text())
    fill_table(page, {"tokens_vs_plain": {"1M": 0.912345, "30M": None}})
    once = page.read_text()
    assert f"| {MEANINGS['tokens_vs_plain']} | 1M 0.912, 30M not measured |" in once
    assert "## Method" in once and once.startswith(PAGE.read_text()[:50])
    fill_table(page, {"tokens_vs_plain": {"1M": 0.912345, "30M": None}})
    assert page.read_text() == once


def test_the_page_says_what_ratios_are_of_and_which_peer_is_missing() -> None:
    run = {"tokens_s": 12_345.6, "outer_s": 0.25, "outer_bytes": None, "peak_bytes": 5e8, "heldout": 3.0}
    runs = {"30M": {"touchstone": [run, {**run, "outer_s": 0.75}], "hivemind": []}}
    by_format = {"1M": {"float32": 1.1, "exact15": 0.52}}
    text = format_page({"runs": runs, "left_out": {"hivemind": "x"}, "tokens_vs_plain_by_format": by_format})
    assert "| 30M, touchstone | 12,346 | 0.5 | not measured | 500 | 3 |" in text
    assert "exact program, over those of plain PyTorch | 1M 0.52 |" in text
    assert "| 30M, hivemind | not measured |" in text and "hivemind is missing" in text and "cores" in text


def test_every_line_has_its_meaning() -> None:
    assert MEANINGS.keys() == set(LINES)
    assert format_value(0.0) == "0"
