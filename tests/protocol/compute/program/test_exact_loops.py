"""The compiled loops over rows and planes, against `spec/exact.py`."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from touchstone.protocol.compute.program.exact import product_loops, quantizing_loops
from touchstone.protocol.compute.program.exact.product_families import Shape, Side, multiply_doubles
from touchstone.protocol.spec import exact_sums
from touchstone.protocol.spec.float32 import round_to_bits
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS

FIELDS = (0, 1, 2, 5, 10, 20, 126, 127, 250, 254)


@pytest.mark.parametrize("bits", sorted(QUANTIZED_LIMITS))
def test_scales_of_all_exponents_and_of_significands_at_the_limit(bits: int) -> None:
    limit = QUANTIZED_LIMITS[bits]
    edge = (2 * limit + 1) << (23 - limit.bit_length())
    for field in FIELDS:
        for significand in (1 << 23, edge - 1, edge, edge + 1, (1 << 24) - 1):
            pattern = (field << 23) | (significand & 0x7FFFFF)
            found = quantizing_loops.choose_scale(np.int32(pattern), limit, limit.bit_length())
            assert int(np.float32(found).view(np.uint32)) == exact_sums.choose_scale([pattern], bits)


def test_integers_are_rounded_to_the_even_neighbour() -> None:
    for value in (0.5, 1.5, 2.5, -0.5, -1.5, 16318.5, 524286.5, -524285.5, 0.49999997, -0.0):
        scale = round_to_bits(Fraction(1))
        expected = exact_sums.quantize(round_to_bits(Fraction(value)), scale, 20)
        assert quantizing_loops.quantize_one(np.float32(value), np.float32(1.0)) == expected


def test_planes_are_split_and_joined_again() -> None:
    words = np.arange(-16319, 16320, dtype=np.int32)
    planes = np.empty(2 * len(words), np.int8)
    product_loops.split_planes(words, 257, 2, planes)
    low = planes[257:514].tolist()
    assert min(low) >= -64 and max(low) <= 63
    joined = np.empty_like(words)
    product_loops.join_planes(planes, 257, joined)
    assert np.array_equal(joined, words)


def test_rows_are_found_by_their_number() -> None:
    sizes, strides = np.array([2, 3, 4]), np.array([100, 7, 1])
    assert [quantizing_loops.find_base(row, sizes, strides, 5) for row in (0, 3, 4, 23)] == [5, 8, 12, 122]


@pytest.mark.parametrize("across", [1, 2])
def test_a_zero_sum_is_plus_zero_whichever_a_library_gives(across: int) -> None:
    """MKL gives -0 for a product of one term, -1 times 0, from some sizes on."""
    sums, out = np.array([-0.0, 0.0, -1.0]), np.empty(6, np.float32)
    one = np.ones(3, np.float32)
    product_loops.finish_sums(sums, one, one.astype(np.float64), 1, 3, out, 0, 6, across)
    assert out.view(np.uint32)[: 3 * across : across].tolist() == [0, 0, 0xBF800000]
    minus, zero = torch.full((16, 1), -1, dtype=torch.int32), torch.zeros(300, dtype=torch.int32)
    shape = Shape(1, Side(16, False), Side(300, False), 1, 0)
    for finish in multiply_doubles(minus.view(-1), zero, shape):
        made = np.empty(16 * 300, np.float32)
        finish(np.ones(16, np.float32), np.ones(300), 16, 300, made, 0, 300, 1)
        assert not made.view(np.uint32).any()
