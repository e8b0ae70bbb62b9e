"""Limits from honest distances: margins, the least, and whose word is enough."""

from dataclasses import replace
from fractions import Fraction

import pytest

from touchstone.protocol.spec.calibration_rules import (
    LEAST_MAXIMUM,
    MARGIN,
    MIN_CONFIGURATIONS,
    MIN_OPERATORS,
    MIN_SEGMENTS,
    OUTLIER_RATIO,
    Evidence,
    find_outliers,
    make_limits,
    merge_evidence,
)
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import MIN_TAU

FLOORS = (10, 20, 30)
ONE = 1 << 64
NOISE = Fraction(1, 1 << 16)


def make_evidence(
    count: int = MIN_OPERATORS, segments: int = MIN_SEGMENTS, each: int = MIN_CONFIGURATIONS // MIN_OPERATORS
) -> list[Evidence]:
    return [
        Evidence(f"0x{n:040x}", (NOISE, NOISE, NOISE), frozenset(f"{n}-{i}" for i in range(each)), segments)
        for n in range(count)
    ]


def test_make_limits_multiplies_each_quantity_by_the_margin() -> None:
    made = make_limits((NOISE, 2 * NOISE, 3 * NOISE), FLOORS)
    assert (made.tau_m, made.tau_v, made.tau_w) == tuple(n * MARGIN * ONE >> 16 for n in (1, 2, 3))
    assert (made.eps_m, made.floor_v, made.tau_r) == FLOORS


def test_make_limits_rounds_up_in_favour_of_the_honest() -> None:
    assert make_limits((Fraction(1, 3000), NOISE, NOISE), FLOORS).tau_m == -(-10 * ONE // 3000)


def test_make_limits_raises_them_to_more_than_the_least_that_tasks_may_have() -> None:
    made = make_limits((Fraction(0), NOISE, LEAST_MAXIMUM), FLOORS)
    assert made.tau_m == made.tau_w == MARGIN * ONE >> 22
    assert made.tau_m > MIN_TAU


def test_make_limits_refuses_noise_as_large_as_the_values() -> None:
    with pytest.raises(InvalidInput, match="differ too much"):
        make_limits((NOISE, Fraction(1, MARGIN), NOISE), FLOORS)


# Several operators
def test_merge_evidence_takes_the_largest_of_all() -> None:
    evidence = make_evidence()
    evidence[0] = replace(evidence[0], maxima=(2 * NOISE, NOISE, NOISE))
    evidence[2] = replace(evidence[2], maxima=(NOISE, NOISE, 5 * NOISE))
    assert merge_evidence(evidence, FLOORS) == make_limits((2 * NOISE, NOISE, 5 * NOISE), FLOORS)


@pytest.mark.parametrize(
    ("evidence", "missing"),
    [
        ([], f"at least {MIN_OPERATORS} operators"),
        (make_evidence(MIN_OPERATORS - 1, each=9), f"at least {MIN_OPERATORS} operators"),
        (make_evidence(segments=MIN_SEGMENTS - 1), f"at least {MIN_SEGMENTS} segments"),
        (make_evidence(each=3), f"at least {MIN_CONFIGURATIONS} different configurations"),
        ([*make_evidence(), make_evidence()[0]], "each operator once"),
        ([*make_evidence(), make_evidence(4, each=1)[3]], "at least 2 configurations of each"),
    ],
)
def test_merge_evidence_says_what_is_missing(evidence: list[Evidence], missing: str) -> None:
    with pytest.raises(InvalidInput, match=missing):
        merge_evidence(evidence, FLOORS)


def test_merge_evidence_counts_the_same_machine_once() -> None:
    same = [replace(item, configurations=frozenset("abcdef")) for item in make_evidence()]
    with pytest.raises(InvalidInput, match="different configurations.*got 6"):
        merge_evidence(same, FLOORS)


@pytest.mark.parametrize("quantity", range(3))
def test_merge_evidence_names_an_operator_that_widens_the_limits(quantity: int) -> None:
    evidence = make_evidence()
    maxima = [NOISE] * 3
    maxima[quantity] = OUTLIER_RATIO * NOISE
    evidence[1] = replace(evidence[1], maxima=(maxima[0], maxima[1], maxima[2]))
    assert find_outliers(evidence) == []
    maxima[quantity] += Fraction(1, 1 << 60)
    evidence[1] = replace(evidence[1], maxima=(maxima[0], maxima[1], maxima[2]))
    with pytest.raises(InvalidInput, match=evidence[1].operator):
        merge_evidence(evidence, FLOORS)


def test_find_outliers_two_of_four_hide_nothing() -> None:
    """The lower median: half of the operators together cannot move it to their side."""
    evidence = make_evidence(4)
    evidence[2:] = [replace(item, maxima=(NOISE * 99, NOISE, NOISE)) for item in evidence[2:]]
    assert len(find_outliers(evidence)) == 2


def test_find_outliers_ignores_noise_that_changes_no_limit() -> None:
    quiet = [replace(item, maxima=(Fraction(0), NOISE, NOISE)) for item in make_evidence()]
    quiet[0] = replace(quiet[0], maxima=(LEAST_MAXIMUM, NOISE, NOISE))
    assert find_outliers(quiet) == []
