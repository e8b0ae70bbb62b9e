"""The comparison of both referees finds none that differ, and would find one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from lab.benchmarks import referee_vectors
from lab.benchmarks.referee_vectors import compare_verdicts, generate_cases
from lab.vectors.referee_cases import Case
from protocol.spec.program import BOUNDED_OPERATIONS

CASES = 3_000


def test_compare_verdicts_finds_no_difference(tmp_path: Path) -> None:
    report = compare_verdicts(CASES, 1, tmp_path / "anvil.log")
    assert report["differences"] == 0 and report["cases"] >= CASES
    for operation in BOUNDED_OPERATIONS:
        assert report["verdicts"].get(f"{operation.name} fault", 0) > 0
        assert report["verdicts"].get(f"{operation.name} honest", 0) > 0


def test_compare_verdicts_reports_each_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(count: int, seed: int) -> Iterator[Case]:
        for place, case in enumerate(islice(generate_cases(count, seed), count)):
            yield replace(case, is_fault=case.is_fault != (place % 10 == 0))

    monkeypatch.setattr(referee_vectors, "generate_cases", spoil)
    report = compare_verdicts(100, 2, tmp_path / "anvil.log")
    assert (report["cases"], report["differences"]) == (100, 10)
    assert "on chain" in report["first_differences"][0]


def test_generate_cases_repeats_itself() -> None:
    assert list(generate_cases(200, 3)) == list(generate_cases(200, 3)) != list(generate_cases(200, 4))
