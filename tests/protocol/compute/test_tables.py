from fractions import Fraction
from math import cos, pi, sin

import pytest
import torch

from protocol.compute.model.reference_model import build_tables, compute_cos_sin, compute_frequency
from protocol.spec.containers import ModelConfig
from protocol.spec.float32 import nearest


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.5, pi / 4, pi / 2, 1.0, 3.14, 127.0, 4095.0, 100_000.5])
def test_cos_sin_agrees_with_the_library(angle: float) -> None:
    cosine, sine = compute_cos_sin(Fraction(angle))
    assert float(cosine) == pytest.approx(cos(angle), abs=1e-15)
    assert float(sine) == pytest.approx(sin(angle), abs=1e-15)


@pytest.mark.parametrize("i", range(16))
def test_frequency_is_the_float32_nearest_to_the_power(i: int) -> None:
    assert compute_frequency(10_000.0, i, 32) == nearest(10_000.0 ** (-i / 16))


def test_tables_hold_one_row_a_position() -> None:
    config = ModelConfig(256, 32, 48, 1, 2, 2, 9, rope_theta=500.0)
    tables = build_tables(config)
    assert tables.cos_TN.shape == tables.sin_TN.shape == (9, 8)
    assert torch.equal(tables.cos_TN[0], torch.ones(8)) and torch.equal(tables.sin_TN[0], torch.zeros(8))
    angle = nearest(5 * compute_frequency(500.0, 3, 16))
    assert float(tables.cos_TN[5, 3]) == nearest(cos(angle))
    assert float(tables.sin_TN[5, 3]) == nearest(sin(angle))
