"""Pseudo-gradient and outer step: the definition, its edges, and the processor as a second opinion."""

from fractions import Fraction
from math import isinf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from touchstone.protocol.spec import float32, outer_update, pseudo_gradient
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault

ETA, MU = float32.float_to_bits(float32.nearest(0.7)), float32.float_to_bits(float32.nearest(0.9))
FINITE = st.integers(0, (1 << 32) - 1).filter(float32.is_finite)
EDGE = float32.float_to_bits(127.0 * 2.0**71)


def bits(value: float) -> int:
    return float32.float_to_bits(float32.nearest(value))


@given(st.lists(st.integers(0, EDGE).flatmap(lambda b: st.sampled_from([b, b | 1 << 31])), max_size=64))
@example([EDGE])
@example([1])
@example([bits(127.0), bits(0.5), bits(1.5), bits(2.5)])
def test_quantisation_is_the_definition(head: list[int]) -> None:
    block = head + [0] * (64 - len(head))
    values = [float32.to_fraction(b) for b in block]
    exponent, quanta = pseudo_gradient.quantise_block(block)
    largest = max(map(abs, values))
    assert largest <= 127 * Fraction(2) ** exponent
    assert exponent == -149 or largest > 127 * Fraction(2) ** (exponent - 1)
    assert quanta == [round(value / Fraction(2) ** exponent) for value in values]
    assert pseudo_gradient.decode_block(pseudo_gradient.encode_block(exponent, quanta)) == (exponent, quanta)


@pytest.mark.parametrize("difference", [EDGE + 1, 0x7F7FFFFF, 0x7F800000])
def test_a_diverged_pseudo_gradient_is_cut_off(difference: int) -> None:
    """A hostile program moves a weight by 3e38: the honest solver has to be able to claim that."""
    small = [bits(2.5 * 2.0**71), bits(3.5 * 2.0**71), bits(2.0**70)]
    exponent, quanta = pseudo_gradient.quantise_block([difference, difference | 1 << 31, *small] + [0] * 59)
    assert (exponent, quanta) == (71, [127, -127, 2, 4, 0] + [0] * 59)


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=40))
@example([(0x7F7FFFFF, 0xFF7FFFFF), (0xFF7FFFFF, 0x7F7FFFFF), (EDGE + 1, 0)])
def test_every_finite_state_has_an_encoding(pairs: list[tuple[int, int]]) -> None:
    pairs = (pairs + [(0, 0)] * 41)[:41] * 7
    start, end = (float32.pack_bits([pair[side] for pair in pairs[:256]]) for side in (0, 1))
    leaf = pseudo_gradient.compute_delta_leaf(start, end)
    for (a, b), value in zip(pairs, pseudo_gradient.decode_delta_leaf(leaf), strict=False):
        exact = float32.to_fraction(a) - float32.to_fraction(b)
        assert float32.to_fraction(value) * exact >= 0


@pytest.mark.parametrize("bad", [0x7F800000, 0xFF800000, 0x7FC00000])
@pytest.mark.parametrize("side", [0, 1])
def test_weights_that_are_not_finite_have_no_encoding(bad: int, side: int) -> None:
    leaves = [bytes(1024), bytes(1024)]
    leaves[side] = float32.pack_bits([0] * 255 + [bad])
    with pytest.raises(ProtocolFault, match="not finite"):
        pseudo_gradient.compute_delta_leaf(*leaves)


@given(st.integers(-128, 127), st.integers(-149, 71))
def test_every_byte_has_an_exact_value(quantum: int, exponent: int) -> None:
    value = pseudo_gradient.dequantise(quantum, exponent)
    assert float32.to_fraction(value) == quantum * Fraction(2) ** exponent
    assert value != 1 << 31


def test_decoding_is_total() -> None:
    assert pseudo_gradient.decode_block(b"\xdc" + b"\x80" * 64) == (71, [-128] * 64)
    for scale in (221, 255):
        assert pseudo_gradient.decode_block(bytes([scale]) + b"\x80" * 64) == (-149, [0] * 64)
    with pytest.raises(InvalidInput, match="expected 65, got 64"):
        pseudo_gradient.decode_block(bytes(64))


def test_a_delta_leaf_brings_the_final_weights_back_within_half_a_quantum() -> None:
    rng = np.random.default_rng(3)
    start = rng.standard_normal(256).astype("<f4")
    end = (start + rng.standard_normal(256).astype("<f4") * 1e-3).astype("<f4")
    leaf = pseudo_gradient.compute_delta_leaf(start.tobytes(), end.tobytes())
    assert len(leaf) == 260
    decoded = np.array(pseudo_gradient.decode_delta_leaf(leaf), dtype=np.uint32).view(np.float32)
    for block in range(4):
        part = slice(64 * block, 64 * block + 64)
        quantum = 2.0 ** (leaf[65 * block] - 149)
        assert np.abs(decoded[part] - (start - end)[part]).max() <= quantum / 2


def processor_step(weight: int, momentum: int, deltas: list[int]) -> tuple[int, int]:
    """The same formula in numpy float32, one operation a line."""
    w, m, eta, mu = (np.uint32(b).view(np.float32) for b in (weight, momentum, ETA, MU))
    values = np.array(deltas, dtype=np.uint32).view(np.float32)
    total = values[0]
    for value in values[1:]:
        total = np.float32(total + value)
    mean = np.float32(total / np.float32(len(deltas)))
    new_m = np.float32(np.float32(mu * m) + mean)
    inner = np.float32(mean + np.float32(mu * new_m))
    new_w = np.float32(w - np.float32(eta * inner))
    if isinf(new_w) or isinf(new_m):
        return weight, momentum
    return int(new_w.view(np.uint32)), int(new_m.view(np.uint32))


DELTAS = st.builds(pseudo_gradient.dequantise, st.integers(-128, 127), st.integers(-149, 71))


@given(FINITE, FINITE, st.lists(DELTAS, min_size=1, max_size=8))
@example(0x80000000, 0, [0])
@example(bits(1.0), 0, [pseudo_gradient.dequantise(-128, 71)] * 64)
@example(0x7F7FFFFF, bits(-(2.0**125)), [bits(-(2.0**113))])
def test_the_outer_step_equals_the_processor(weight: int, momentum: int, deltas: list[int]) -> None:
    with np.errstate(all="ignore"):
        expected = processor_step(weight, momentum, deltas)
    assert outer_update.compute_outer_element(weight, momentum, deltas, ETA, MU) == expected


def test_an_element_that_leaves_the_finite_numbers_is_kept() -> None:
    weight, momentum = bits(1.0), 0x7F7FFFFF
    assert outer_update.compute_outer_element(weight, momentum, [0x73000000] * 2, ETA, bits(1.0)) == (
        weight,
        momentum,
    )


def test_no_claim_is_the_identity() -> None:
    assert outer_update.compute_outer_element(5, 7, [], ETA, MU) == (5, 7)
    weights, momentum = float32.pack_bits([bits(0.5)] * 256), float32.pack_bits([bits(0.25)] * 256)
    assert outer_update.compute_outer_leaf(weights, momentum, [], ETA, MU) == (weights, momentum)


def test_nesterov_moves_as_the_paper_says() -> None:
    """A constant pseudo-gradient of 1 moves by eta (1 + mu), then more: 1.33, 1.897, 2.4073."""
    weight, momentum, moves = 0, 0, []
    for _ in range(3):
        before = weight
        weight, momentum = outer_update.compute_outer_element(weight, momentum, [bits(1.0)], ETA, MU)
        moves.append(float32.bits_to_float(before) - float32.bits_to_float(weight))
    assert moves == pytest.approx([1.33, 1.897, 2.4073], rel=1e-6)


def test_the_order_of_claims_matters_and_is_kept() -> None:
    small, one = bits(2.0**-24), bits(1.0)
    assert outer_update.compute_mean([one, small, small]) != outer_update.compute_mean([small, small, one])


@pytest.mark.parametrize("count", [0, 65])
def test_means_of_no_or_too_many_claims_are_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 64"):
        outer_update.compute_mean([0] * count)


def test_leaves_step_element_by_element() -> None:
    weights = float32.pack_bits([bits(i / 7) for i in range(256)])
    momentum = float32.pack_bits([bits(i / 1_000) for i in range(256)])
    leaf = pseudo_gradient.compute_delta_leaf(weights, momentum)
    new_weights, new_momentum = outer_update.compute_outer_leaf(weights, momentum, [leaf, leaf], ETA, MU)
    values = pseudo_gradient.decode_delta_leaf(leaf)
    expected = outer_update.compute_outer_element(bits(200 / 7), bits(0.2), [values[200]] * 2, ETA, MU)
    assert (float32.unpack_bits(new_weights)[200], float32.unpack_bits(new_momentum)[200]) == expected
    with pytest.raises(InvalidInput, match="state leaf"):
        outer_update.compute_outer_leaf(weights[:-4], momentum, [leaf], ETA, MU)
