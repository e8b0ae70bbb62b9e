"""What the training step and the outer step rely on in torch, beyond its documentation."""

import struct
from fractions import Fraction
from math import isqrt
from threading import Thread

import pytest
import torch

from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.spec import float32


def bits_of(x: torch.Tensor) -> list[int]:
    return [value & 0xFFFFFFFF for value in x.view(torch.int32).tolist()]


def draw_positive(count: int) -> torch.Tensor:
    """Positive finite float32 of every exponent, subnormals included."""
    patterns = torch.randint(
        1, 0x7F800000, (count,), generator=torch.Generator().manual_seed(1), dtype=torch.int32
    )
    return patterns.view(torch.float32)


def test_a_square_root_through_float64_is_correctly_rounded() -> None:
    x = draw_positive(3000)
    for value, root in zip(x.tolist(), x.double().sqrt().float().tolist(), strict=True):
        exact = Fraction(
            isqrt(int(Fraction(value) * 2**298)), 2**149
        )  # 100 bits and more below the last place
        assert float32.bits_to_float(float32.round_to_bits(exact + Fraction(1, 2**160))) == root


@pytest.mark.parametrize("scalar", [float32.nearest(0.9), float32.nearest(0.7), 3.0])
def test_a_python_scalar_is_rounded_to_float32_once(scalar: float) -> None:
    x, bits = draw_positive(2000), float32.float_to_bits(scalar)
    assert bits_of(x * scalar) == [float32.multiply(a, bits) for a in bits_of(x)]
    assert bits_of(x + scalar) == [float32.add(a, bits) for a in bits_of(x)]


def test_division_by_a_tensor_is_correctly_rounded() -> None:
    x, y = draw_positive(2000), draw_positive(2000).flip(0)
    expected = [float32.divide(a, b) for a, b in zip(bits_of(x), bits_of(y), strict=True)]
    assert bits_of(x / y) == expected


def test_round_is_half_to_even() -> None:
    halves = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 126.5], dtype=torch.float64)
    assert halves.round().tolist() == [-2, -2, 0, 0, 2, 2, 126]


def test_tensors_lie_in_memory_as_little_endian_float32() -> None:
    values = [1.5, -0.0, 2.0**-149, 3.4028234663852886e38]
    assert bytes(torch.tensor(values).view(torch.uint8).tolist()) == struct.pack("<4f", *values)


def test_new_threads_inherit_the_pinned_kernels() -> None:
    pin_kernels(1)
    seen: list[object] = []

    def get_view() -> None:
        seen.append(torch.get_num_threads())
        seen.append(float(torch.tensor([2.0**-148]) * 0.5))
        seen.append(torch.are_deterministic_algorithms_enabled())

    thread = Thread(target=get_view)
    thread.start()
    thread.join()
    assert seen == [1, 2.0**-149, True]
