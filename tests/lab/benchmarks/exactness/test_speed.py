"""Ratios of steps to plain PyTorch's, and of audits to training."""

import pytest

from lab.benchmarks.exactness import speed
from lab.benchmarks.exactness.speed import FLOAT64, compare_speed, measure_audits
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.step.plain_decoder import DecoderConfig


def test_every_format_has_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(speed.SIZES, "tiny", DecoderConfig(256, 16, 40, 1, 2, 2, 128))
    ratios = compare_speed("tiny", 1)
    assert ratios.keys() == {"float32", *PRODUCT_BITS, FLOAT64}
    assert all(ratio > 0 for ratio in ratios.values())


def test_an_audit_moves_the_start_the_last_weights_and_the_pseudo_gradient() -> None:
    found = measure_audits("exact15", None, 1)
    least = 1 + 1 / 3 + 260 / 256 / 12
    assert least < found["states_moved"] < 1.03 * least, "and little else"
    assert 0 < found["replay"] < found["time"] and found["training_and_hash"] > 1
