"""The comparison of both referees finds none that differ, and would find one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from lab.benchmarks.referee_vectors import (
    EXACT_KINDS,
    compare_verdicts,
    generate_cases,
    generate_exact_cases,
)
from tools.vectors.referee_inputs import Case
from touchstone.protocol.spec.exact_elementwise import NAN
from touchstone.protocol.spec.float32 import INFINITY, SIGN_BIT
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, QUANTIZED_LIMITS, Operation

Generate = Callable[[int, int], Iterator[Case]]
CASES = 3_000


def test_compare_verdicts_finds_no_difference(tmp_path: Path) -> None:
    report = compare_verdicts(generate_cases(CASES, 1), 1, tmp_path / "anvil.log")
    assert report["differences"] == 0 and report["cases"] >= CASES
    for operation in BOUNDED_OPERATIONS:
        assert report["verdicts"].get(f"{operation.name} fault", 0) > 0
        assert report["verdicts"].get(f"{operation.name} honest", 0) > 0


def test_compare_verdicts_finds_no_difference_in_exact_programs(tmp_path: Path) -> None:
    draws = CASES // 3
    report = compare_verdicts(generate_exact_cases(draws, 1), 1, tmp_path / "anvil.log")
    assert report["differences"] == 0 and report["cases"] >= 2 * draws
    assert report["verdicts"]["all honest"] >= draws
    for name in (*(one.name for one in Operation if one is not Operation.PRODUCT_SUM), *EXACT_KINDS):
        assert report["verdicts"].get(f"{name} fault", 0) > 0
        assert report["verdicts"].get(f"{name} honest", 0) > 0


def test_exact_cases_have_what_only_a_cheat_claims() -> None:
    cases = list(generate_exact_cases(CASES, 1))
    values = {bits for case in cases if not case.bits for term in case.terms for bits in term}
    assert {0, SIGN_BIT, 1, INFINITY, NAN, 0xFFFFFFFF} <= values
    assert {len(case.terms) for case in cases} >= {0, 1, 31, 4096}
    products = [case for case in cases if case.operation is Operation.QUANTIZED_PRODUCT_SUM]
    assert any(abs(a) > QUANTIZED_LIMITS[case.bits] for case in products for a, *_ in case.terms)


@pytest.mark.parametrize("generate", [generate_cases, generate_exact_cases])
def test_compare_verdicts_reports_each_difference(tmp_path: Path, generate: Generate) -> None:
    cases = [
        replace(case, is_fault=case.is_fault != (place % 10 == 0))
        for place, case in enumerate(islice(generate(100, 2), 100))
    ]
    report = compare_verdicts(cases, 2, tmp_path / "anvil.log")
    assert (report["cases"], report["differences"]) == (100, 10)
    assert "on chain" in report["first_differences"][0]


@pytest.mark.parametrize("generate", [generate_cases, generate_exact_cases])
def test_generate_cases_repeats_itself(generate: Generate) -> None:
    assert list(generate(200, 3)) == list(generate(200, 3)) != list(generate(200, 4))
