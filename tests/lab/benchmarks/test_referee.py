"""Gas of proofs of product sums, on a model that is small enough for a test."""

import pytest

from lab.benchmarks import referee
from lab.benchmarks.referee import measure_sums
from touchstone.step.plain_decoder import DecoderConfig


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referee, "MODEL", DecoderConfig(256, 128, 128, 1, 2, 2, 64))
    monkeypatch.setattr(referee, "SEQUENCES", 2)
    monkeypatch.setattr(referee, "TOKENS", 64)


def test_proofs_of_exact_sums_have_factors_of_two_and_four_bytes() -> None:
    with_floor = measure_sums("exact15", (128,), "prague")["sum128"]
    without = measure_sums("exact15", (128,))["sum128"]
    for gas in (with_floor, without):
        assert 0 < gas["median"] <= gas["largest"]
        assert gas["largest"] == max(gas["largest of 2 bytes"], gas["largest of 4 bytes"])
    assert with_floor["median"] > without["median"]


def test_proofs_of_float32_have_factors_of_four_bytes() -> None:
    gas = measure_sums("float32", (128,))["sum128"]
    assert gas.keys() == {"median", "largest", "largest of 4 bytes"}
