"""The compiled loops beside plain PyTorch: the same bits on any state, any bytes, any number of claims."""

import numpy as np
import pytest
import torch
from torch import Tensor

from protocol.compute.outer import outer_tensors
from protocol.compute.outer.outer_tensors import OuterState, count_delta_bytes, decode_delta, encode_delta
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.float32 import float_to_bits, nearest
from tests.protocol.compute.outer import torch_outer

RATES = [(0.7, 0.9), (1.0, 0.0), (2.0**-140, 0.5), (3e38, 0.999)]
SPECIAL = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFBFFFFF, 0x3F800000, 0xBF7FFFFF,
]  # fmt: skip
"""Zeros, subnormals, the least and the largest normal numbers, infinities, NaN that are quiet and not."""


def draw_state(count: int, seed: int) -> Tensor:
    """Any bit patterns, half of them special ones."""
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 1 << 32, count, np.uint32)
    special = np.array(SPECIAL, np.uint32)[generator.integers(0, len(SPECIAL), count)]
    return torch.from_numpy(np.where(generator.random(count) < 0.5, patterns, special).view(np.float32))


def draw_delta(count: int, seed: int) -> bytes:
    """Any bytes; exponents above 220 are among them, and so is -128."""
    return np.random.default_rng(seed).bytes(count_delta_bytes(count))


def draw_near(count: int, seed: int, byte: int) -> bytes:
    """All blocks have one exponent: their sums cancel and round."""
    blocks = np.frombuffer(draw_delta(count, seed), np.uint8).reshape(-1, 65).copy()
    blocks[:, 0] = byte
    return blocks.tobytes()


def to_bits(flat: Tensor) -> list[int]:
    return flat.view(torch.int32).tolist()


def require_same(state: OuterState, deltas: list[bytes], rate: float, factor: float) -> None:
    rates = float_to_bits(nearest(rate)), float_to_bits(nearest(factor))
    before = to_bits(state.weights), to_bits(state.momentum)
    after = outer_tensors.merge(state, deltas, *rates)
    weights, momentum = torch_outer.merge(state.weights, state.momentum, deltas, *rates)
    assert to_bits(after.weights) == to_bits(weights)
    assert to_bits(after.momentum) == to_bits(momentum)
    assert (to_bits(state.weights), to_bits(state.momentum)) == before


# --- Outer step ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("claims", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("rates", RATES)
def test_any_state_and_any_bytes_are_merged_as_by_plain_operations(
    claims: int, rates: tuple[float, float]
) -> None:
    count = 5000
    state = OuterState(draw_state(count, claims), draw_state(count, 100 + claims))
    require_same(state, [draw_delta(count, 200 + one) for one in range(claims)], *rates)


@pytest.mark.parametrize("byte", [0, 1, 20, 120, 149, 219, 220, 221, 255])
def test_claims_of_one_scale_are_merged_as_by_plain_operations(byte: int) -> None:
    """Sums of subnormals, means that round, sums that cancel to zero."""
    count, scale = 3000, 2.0 ** (min(byte, 220) - 149)
    generator = torch.Generator().manual_seed(byte)
    weights, momentum = (torch.randn(count, generator=generator) * 100 * scale for _ in range(2))
    for claims in (1, 2, 3, 7):
        deltas = [draw_near(count, 10 * byte + one, byte) for one in range(claims)]
        require_same(OuterState(weights, momentum), deltas, 0.7, 0.9)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1500])
def test_the_pieces_of_a_merge_make_no_difference(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_tensors, "PIECE_ELEMENTS", 512)
    state = OuterState(torch.linspace(-1, 1, count), torch.linspace(2, 3, count))
    require_same(state, [draw_near(count, one, 140 + one) for one in range(3)], 0.7, 0.9)


def test_the_order_of_claims_is_that_of_the_list() -> None:
    state = OuterState(torch.zeros(2000), torch.zeros(2000))
    deltas = [draw_near(2000, one, 120 + 9 * one) for one in range(4)]
    require_same(state, deltas, 0.7, 0.9)
    require_same(state, deltas[::-1], 0.7, 0.9)


def test_a_scale_that_no_encoding_has_gives_zeros_without_a_sign() -> None:
    """-0 of M and -0 of the mean would be -0, which is another root."""
    state = OuterState(torch.zeros(256), torch.full((256,), -0.0))
    require_same(state, [bytes([221]) + bytes([0xFF] * 64) + bytes(195)], 0.7, 0.9)


def test_bytes_are_read_where_they_lie() -> None:
    """Mapped bytes may be written to, bytes may not; both are left as they are."""
    data = draw_delta(700, 1)
    mapped = bytearray(data)
    state = OuterState(torch.ones(700), torch.ones(700))
    rates = float_to_bits(0.5), float_to_bits(0.5)
    after = [outer_tensors.merge(state, [one, one], *rates) for one in (data, memoryview(mapped))]
    assert torch.equal(after[0].weights, after[1].weights) and mapped == data
    assert to_bits(decode_delta(memoryview(mapped), 700)) == to_bits(torch_outer.decode(data, 700))


def test_tensors_of_another_kind_are_refused() -> None:
    """A compiled loop would read past their end, or round otherwise."""
    flat = torch.zeros(512)
    wrong = [torch.zeros(511), torch.zeros(512, dtype=torch.float64), torch.zeros(2, 256), torch.zeros(1)]
    for other in wrong:
        with pytest.raises(InvalidInput, match="one size"):
            encode_delta(flat, other)
        with pytest.raises(InvalidInput, match="one size"):
            outer_tensors.merge(OuterState(flat, other), [bytes(520)], 0, 0)
    with pytest.raises(ProtocolFault, match="length"):
        outer_tensors.merge(OuterState(flat, flat), [bytes(520), bytes(519)], 0, 0)


# --- Pseudo-gradient ----------------------------------------------------------------------------------------
def require_same_encoding(before: Tensor, after: Tensor) -> None:
    expected = torch_outer.encode(before, after)
    if isinstance(expected, str):
        with pytest.raises(ProtocolFault, match="out of range") as caught:
            encode_delta(before, after)
        assert caught.value.actual == expected
    else:
        assert encode_delta(before, after) == expected


@pytest.mark.parametrize("byte", [0, 1, 2, 17, 18, 19, 22, 23, 24, 25, 120, 149, 200, 219, 220, 221])
def test_blocks_of_every_scale_are_encoded_as_by_plain_operations(byte: int) -> None:
    """Multiples of half a quantum: each second one is a tie; largest elements just inside and outside."""
    unit = 2.0 ** (max(byte, 1) - 150)
    halves = np.random.default_rng(byte).integers(-254, 255, 64 * 40)
    halves[::64] = np.repeat([252, 253, 254, 255], 10) * np.resize([1, -1], 40)
    before = torch.from_numpy((halves * unit).astype(np.float32))
    for shift in (0.0, unit / 4, -unit / 4):
        require_same_encoding(before + shift, torch.zeros(len(halves)))
        require_same_encoding(torch.zeros(len(halves)), before + shift)


@pytest.mark.parametrize("seed", range(8))
def test_any_differences_are_encoded_as_by_plain_operations(seed: int) -> None:
    """Of bit patterns whose exponents are anything in a block; now and then all are zeros."""
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 1 << 32, 64 * 300, np.uint32) & np.uint32(0xFFFFFF | 0x80000000)
    fields = generator.integers(0, np.repeat(generator.integers(1, 220, 300), 64)).astype(np.uint32)
    values = torch.from_numpy((patterns & np.uint32(0x807FFFFF) | fields << np.uint32(23)).view(np.float32))
    values[64:128], values[128:192] = 0.0, -0.0
    require_same_encoding(values, torch.zeros(len(values)))
    require_same_encoding(values, values.roll(1))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1500])
def test_what_is_missing_in_the_last_leaf_is_zeros(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_tensors, "PART_ELEMENTS", 512)
    require_same_encoding(torch.linspace(-1, 1, count), torch.linspace(3, -7, count))


@pytest.mark.parametrize("place", [0, 70, 639])
@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan"), 3e23, -3.1e23, 3e38])
def test_what_is_out_of_range_is_said_as_before(bad: float, place: int) -> None:
    before, after = torch.zeros(640), torch.zeros(640)
    before[place] = bad
    require_same_encoding(before, after)
    before[(place + 64) % 640] = 3.3e25
    require_same_encoding(before, after)
    require_same_encoding(after + 3e38, after - 3e38)
