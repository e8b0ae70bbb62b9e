import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.protocol.compute.outer import torch_outer
from tests.training_setting import list_configurations
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.compute.digest import build_tensor_tree, tensor_bytes
from touchstone.protocol.compute.outer import nesterov_step, pseudo_gradients
from touchstone.protocol.compute.outer.nesterov_step import OuterState, begin_outer, merge
from touchstone.protocol.compute.outer.pseudo_gradients import count_delta_bytes, decode_delta, encode_delta
from touchstone.protocol.spec import outer_update as reference
from touchstone.protocol.spec import pseudo_gradient
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.float32 import float_to_bits, nearest, unpack_bits
from touchstone.protocol.spec.params import LEAF_ELEMENTS

RATE, MOMENTUM = float_to_bits(nearest(0.7)), float_to_bits(nearest(0.9))
finite_floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
leaves = st.lists(finite_floats, min_size=1, max_size=40).map(lambda values: (values + [0.0] * 41)[:41] * 7)
delta_leaves = st.binary(min_size=1, max_size=65).map(lambda data: (data.ljust(65, b"\x05")) * 4)


def as_leaf(flat: torch.Tensor) -> bytes:
    return bytes(tensor_bytes(flat))


def noise(count: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * scale


@settings(max_examples=30)
@given(leaves, leaves)
def test_delta_equals_the_reference(before: list[float], after: list[float]) -> None:
    a, b = torch.tensor(before[:256]), torch.tensor(after[:256])
    delta = encode_delta(a, b)
    assert delta == pseudo_gradient.compute_delta_leaf(as_leaf(a), as_leaf(b))
    assert unpack_bits(as_leaf(decode_delta(delta, 256))) == pseudo_gradient.decode_delta_leaf(delta)


@pytest.mark.parametrize("scale", [1e-44, 2.0**-140, 2.0**-126, 1e-20, 1e-3, 1.0, 1e6, 1e20, 1e23, 7e37])
def test_delta_equals_the_reference_at_every_scale(scale: float) -> None:
    a, b = noise(256, 1, scale), noise(256, 2, scale)
    assert encode_delta(a, b) == pseudo_gradient.compute_delta_leaf(as_leaf(a), as_leaf(b))


@pytest.mark.parametrize(
    "largest", [127.0, 126.5, 63.5, 127.0000076, 64.0, 2.0**-149, 127 * 2.0**-149, 128 * 2.0**-149, 0.0]
)
def test_the_edges_of_a_scale_equal_the_reference(largest: float) -> None:
    a = torch.zeros(256)
    a[3], a[4], a[5] = largest, largest / 2, -largest / 254
    assert encode_delta(a, torch.zeros(256)) == pseudo_gradient.compute_delta_leaf(as_leaf(a), bytes(1024))


@settings(max_examples=25)
@given(leaves, leaves, st.lists(delta_leaves, max_size=4))
def test_merge_equals_the_reference_whatever_was_committed(
    w: list[float], m: list[float], deltas: list[bytes]
) -> None:
    weights, momentum = torch.tensor(w[:256]), torch.tensor(m[:256])
    merged = merge(OuterState(weights, momentum), deltas, RATE, MOMENTUM)
    expected = reference.compute_outer_leaf(as_leaf(weights), as_leaf(momentum), deltas, RATE, MOMENTUM)
    assert (as_leaf(merged.weights), as_leaf(merged.momentum)) == expected


@pytest.mark.parametrize("count", [1, 63, 64, 65, 255, 256])
def test_what_a_claim_has_behind_the_last_element_is_in_no_leaf(count: int) -> None:
    """A contest may lead to the last leaf, where the contract computes as the reference does."""
    weights, momentum = noise(count, 5), noise(count, 6)
    deltas = [encode_delta(noise(256, 7 + one), noise(256, 9 + one)) for one in range(2)]
    merged = merge(OuterState(weights, momentum), deltas, RATE, MOMENTUM)
    before = (build_tensor_tree(flat).open_leaf(0)[0] for flat in (weights, momentum))
    after = (build_tensor_tree(flat).open_leaf(0)[0] for flat in (merged.weights, merged.momentum))
    expected = reference.compute_outer_leaf(next(before), next(before), deltas, RATE, MOMENTUM, count)
    assert tuple(after) == expected


def test_elements_that_would_overflow_stay_as_they_are() -> None:
    huge = torch.full((256,), 3.4e38)
    deltas = [encode_delta(torch.full((256,), -(2.0**77)), torch.zeros(256))]
    merged = merge(OuterState(huge, -huge), deltas, float_to_bits(2.0), float_to_bits(1.0))
    expected = reference.compute_outer_leaf(
        as_leaf(huge), as_leaf(-huge), deltas, float_to_bits(2.0), float_to_bits(1.0)
    )
    assert (as_leaf(merged.weights), as_leaf(merged.momentum)) == expected
    assert torch.equal(merged.weights, huge)


def test_a_vector_that_fills_no_whole_leaf_is_padded() -> None:
    a, b = noise(300, 3), noise(300, 4)
    delta = encode_delta(a, b)
    assert len(delta) == count_delta_bytes(300) == 520
    assert decode_delta(delta, 300).shape == (300,)
    assert torch.allclose(decode_delta(delta, 300), a - b, atol=float((a - b).abs().max()) / 127)
    assert not any(delta[260 + 1 + 300 - 256 :])


def test_constant_deltas_move_as_the_paper_says() -> None:
    state, delta = begin_outer(torch.zeros(256)), encode_delta(torch.full((256,), -1.0), torch.zeros(256))
    moved = []
    for _ in range(4):
        after = merge(state, [delta, delta], RATE, MOMENTUM)
        moved.append(float((after.weights - state.weights)[0]))
        state = after
    assert moved == pytest.approx([1.33, 1.897, 2.4073, 2.86657], rel=1e-5)


def test_no_claims_change_nothing() -> None:
    state = OuterState(noise(10, 1), noise(10, 2))
    assert merge(state, [], RATE, MOMENTUM) is state


def test_the_order_of_shards_counts() -> None:
    big, zero = noise(4096, 1, 1e7), torch.zeros(4096)
    deltas = [encode_delta(noise(4096, 2), zero), encode_delta(big, zero), encode_delta(zero, big)]
    forward, backward = (
        merge(begin_outer(torch.zeros(4096)), d, RATE, MOMENTUM) for d in (deltas, deltas[::-1])
    )
    assert not torch.equal(forward.weights, backward.weights)


def test_another_length_is_refused() -> None:
    with pytest.raises(ProtocolFault, match="length"):
        decode_delta(bytes(259), 256)


@pytest.mark.parametrize("far", [3.1e23, -3.1e23, 3e38, -3e38])
def test_a_diverged_training_has_a_delta(far: float) -> None:
    """An honest solver claims whatever finite weights a program leads it to: cut off at 127 * 2^71."""
    most = 127 * 2.0**71
    values = decode_delta(encode_delta(torch.full((300,), far), torch.zeros(300)), 300)
    assert set(values.tolist()) == {most if far > 0 else -most}
    apart = encode_delta(torch.full((300,), far), torch.full((300,), -far))
    assert torch.equal(decode_delta(apart, 300), values)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_have_no_delta(bad: float) -> None:
    for place in (0, 70, 299):
        spoiled = torch.zeros(300)
        spoiled[place] = bad
        for pair in ((spoiled, torch.zeros(300)), (torch.zeros(300), spoiled), (spoiled, spoiled)):
            with pytest.raises(ProtocolFault, match=f"not finite.*element {place}"):
                encode_delta(*pair)


def test_too_many_claims_are_refused() -> None:
    with pytest.raises(InvalidInput):
        merge(begin_outer(torch.zeros(1)), [bytes(260)] * 65, RATE, MOMENTUM)


MERGE_PROGRAM = """
import sys
from hashlib import sha256
import torch
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.digest import build_tensor_tree, tensor_bytes
from touchstone.protocol.compute.outer.nesterov_step import OuterState, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.spec.float32 import float_to_bits, nearest
pin_kernels(int(sys.argv[1]), sys.argv[2] == "1")
def grid(seed, scale):
    return ((torch.arange(200_000) * (2 * seed + 40503) % 65521).float() - 32760.5) * scale
deltas = [encode_delta(grid(i, 1e-5), grid(i + 9, 1.1e-5)) for i in range(3)]
rates = float_to_bits(nearest(0.7)), float_to_bits(nearest(0.9))
state = merge(OuterState(grid(20, 1e-6), grid(21, 1e-7)), deltas, *rates)
print(sha256(b"".join(deltas) + tensor_bytes(state.weights) + tensor_bytes(state.momentum)).hexdigest())
"""


def run_merge(threads: int, onednn: bool, capability: str) -> str:
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", MERGE_PROGRAM, str(threads), str(int(onednn))]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_merge_gives_the_same_bits_on_every_kernel() -> None:
    kernels = list_configurations(list_cpu_capabilities())
    digests = {run_merge(one.threads, one.onednn, one.cpu_capability) for one in kernels}
    assert len(digests) == 1 and len(digests.pop().strip()) == len(sha256().hexdigest())


def test_a_delta_is_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = torch.randn(1500), torch.randn(1500)
    whole = encode_delta(before, after)
    monkeypatch.setattr(pseudo_gradients, "PART_ELEMENTS", 2 * LEAF_ELEMENTS)
    assert encode_delta(before, after) == whole


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
    after = nesterov_step.merge(state, deltas, *rates)
    weights, momentum = torch_outer.merge(state.weights, state.momentum, deltas, *rates)
    assert to_bits(after.weights) == to_bits(weights)
    assert to_bits(after.momentum) == to_bits(momentum)
    assert (to_bits(state.weights), to_bits(state.momentum)) == before


# Outer step
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
    monkeypatch.setattr(nesterov_step, "PIECE_ELEMENTS", 512)
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
    after = [nesterov_step.merge(state, [one, one], *rates) for one in (data, memoryview(mapped))]
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
            nesterov_step.merge(OuterState(flat, other), [bytes(520)], 0, 0)
    with pytest.raises(ProtocolFault, match="length"):
        nesterov_step.merge(OuterState(flat, flat), [bytes(520), bytes(519)], 0, 0)


# Pseudo-gradient
def require_same_encoding(before: Tensor, after: Tensor) -> None:
    assert encode_delta(before, after) == torch_outer.encode(before, after)


@pytest.mark.parametrize("byte", [0, 1, 2, 17, 18, 19, 22, 23, 24, 25, 120, 149, 200, 219, 220, 221, 230])
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
    monkeypatch.setattr(pseudo_gradients, "PART_ELEMENTS", 512)
    require_same_encoding(torch.linspace(-1, 1, count), torch.linspace(3, -7, count))


@pytest.mark.parametrize("place", [0, 70, 639])
@pytest.mark.parametrize("far", [3e23, -3.1e23, 3e38, -3.4e38])
def test_what_is_cut_off_is_encoded_as_by_plain_operations(far: float, place: int) -> None:
    before, after = torch.zeros(640), torch.zeros(640)
    before[place] = far
    require_same_encoding(before, after)
    before[(place + 64) % 640] = 3.3e25
    require_same_encoding(before, after)
    require_same_encoding(after + 3e38, after - 3e38)
