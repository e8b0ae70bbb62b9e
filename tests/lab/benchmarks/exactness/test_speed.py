"""Ratios of steps to plain PyTorch's."""

import pytest

from lab.benchmarks.exactness import speed
from lab.benchmarks.exactness.speed import FLOAT64, compare_speed
from protocol.spec.containers import ModelConfig
from protocol.spec.params import PRODUCT_BITS


def test_every_format_has_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(speed.SIZES, "tiny", ModelConfig(256, 16, 40, 1, 2, 2, 128))
    ratios = compare_speed("tiny", 1)
    assert ratios.keys() == {"float32", *PRODUCT_BITS, FLOAT64}
    assert all(ratio > 0 for ratio in ratios.values())
