"""The compiled sums and functions, against `spec/exact.py` on patterns of all kinds."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from touchstone.protocol.compute.program.exact import function_loops, product_families, sum_loops
from touchstone.protocol.compute.program.exact.product_families import (
    FAMILIES,
    Shape,
    Side,
    choose_family,
    force_family,
    multiply_bytes,
    multiply_doubles,
)
from touchstone.protocol.compute.program.exact.product_loops import split_planes
from touchstone.protocol.spec import exact_elementwise, exact_series, exact_sums

EDGES = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x42ADFFFF, 0x42AE0000, 0x42B17218, 0x42B17219, 0x42CFF1B4,
     0x42FFFFFF, 0x43000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x3F3504F3, 0x3F3504F4,
     0x3FB504F3, 0x3FB504F4],
    np.uint32,
)  # fmt: skip


def draw_patterns() -> Any:
    chance = np.random.default_rng(4)
    moderate = (8 * chance.standard_normal(3000)).astype(np.float32).view(np.uint32)
    anything = chance.integers(0, 1 << 32, 3000, dtype=np.uint32)
    return np.concatenate([EDGES, EDGES | np.uint32(1 << 31), moderate, anything])


@pytest.mark.parametrize(
    ("loop", "rule"),
    [
        (function_loops.take_exponentials, exact_series.take_exponential),
        (function_loops.take_sigmoids, exact_series.take_sigmoid),
        (function_loops.take_logarithms, exact_series.take_logarithm),
    ],
)
def test_functions_give_the_bits_of_the_specification(
    loop: Callable[..., None], rule: Callable[[int], int]
) -> None:
    patterns = draw_patterns()
    out = np.empty(len(patterns), np.float32)
    loop(patterns.view(np.float32), patterns.view(np.int32), out, out.view(np.int32))
    found = [exact_elementwise.canonicalize(int(bits)) for bits in out.view(np.uint32)]
    assert found == [rule(int(bits)) for bits in patterns]


@pytest.mark.parametrize(
    ("loop", "rule"),
    [
        (function_loops.choose_largest, exact_elementwise.choose_largest),
        (function_loops.choose_smallest, exact_elementwise.choose_smallest),
    ],
)
@pytest.mark.parametrize("is_one", [False, True])
def test_choices_give_the_bits_of_the_specification(
    loop: Callable[..., None], rule: Callable[[tuple[int, int]], int], is_one: bool
) -> None:
    a = draw_patterns()
    for others in [np.array([bits]) for bits in a[: 2 * len(EDGES)]] if is_one else [np.roll(a, 1)]:
        b = others.astype(np.uint32)
        own = a[: 2 * len(EDGES)] if is_one else a
        out = np.empty(len(own), np.float32)
        loop(own.view(np.float32), b.view(np.float32), out)
        found = [exact_elementwise.canonicalize(int(bits)) for bits in out.view(np.uint32)]
        pairs = zip(own, np.broadcast_to(b, own.shape), strict=True)
        assert found == [rule((int(x), int(y))) for x, y in pairs]


def test_sums_give_the_bits_of_the_specification() -> None:
    patterns = draw_patterns()
    rows = patterns[: 6000 // 40 * 40].reshape(-1, 40).copy()
    rows[5] = rows[6] & np.uint32(0x807FFFFF)
    rows[7] = np.uint32(1 << 31)
    out = np.empty(len(rows), np.float32)
    flat = rows.reshape(-1)
    sizes, strides = np.array([len(rows)]), np.array([40])
    sum_loops.sum_rows(flat.view(np.float32), flat, 0, sizes, strides, 40, out)
    found = [exact_elementwise.canonicalize(int(bits)) for bits in out.view(np.uint32)]
    assert found == [exact_sums.add_terms([int(bits) for bits in row]) for row in rows]


ALONG, ACROSS = Side(3, False), Side(5, True)


@pytest.fixture(autouse=True)
def _chosen_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(product_families, "has_byte_products", lambda: True)
    monkeypatch.setattr(product_families, "_chosen", {})
    force_family(None)
    yield
    force_family(None)


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("left", [ALONG, Side(3, True)])
@pytest.mark.parametrize("right", [ACROSS, Side(5, False)])
def test_both_families_give_the_exact_sums(planes: int, batch: int, left: Side, right: Side) -> None:
    shape = Shape(batch, left, right, 64, planes)
    a, b = product_families._draw_extremes(shape)
    results = [product_families._finish(multiply, (a, b), shape) for multiply in FAMILIES.values()]
    assert np.array_equal(results[0], results[1])
    words = [product_families._widen(values, side, shape) for values, side in ((a, left), (b, right))]
    exact = torch.einsum("brk,bck->brc", *words).to(torch.float32).reshape(-1)
    assert np.array_equal(results[0], exact.numpy())


def test_the_longest_sum_of_extremes_is_exact() -> None:
    shape = Shape(1, Side(2, False), Side(2, False), 4096, 2)
    limit = torch.full((2 * 4096,), 16319, dtype=torch.int32)
    planes = torch.empty(2 * limit.numel(), dtype=torch.int8)
    split_planes(limit.numpy(), 4096, 2, planes.numpy())
    for multiply in FAMILIES.values():
        found = product_families._finish(multiply, (planes, planes), shape)
        assert found.tolist() == [float(np.float32(4096 * 16319**2))] * 4


def test_bytes_are_taken_where_the_processor_has_them_and_they_are_right() -> None:
    assert choose_family(Shape(1, ALONG, ALONG, 64, 2)) is multiply_bytes


def test_float64_is_taken_where_sums_of_bytes_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    product = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: product(a, b).clamp(max=1 << 15))
    assert choose_family(Shape(1, ALONG, ALONG, 64, 2)) is multiply_doubles


def _saturate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What processors without VNNI do: products of a + 128 with b, two at a time, cut off at int16."""
    products = (a.long() + 128).unsqueeze(2) * b.long().unsqueeze(0)
    pairs = (products[:, 0::2] + products[:, 1::2]).clamp(-(1 << 15), (1 << 15) - 1)
    return (pairs.sum(1) - 128 * b.long().sum(0)).to(torch.int32)


@pytest.mark.parametrize("terms", [2, 4, 8])
@pytest.mark.parametrize("planes", [1, 2])
def test_float64_is_taken_for_small_products_too_where_pairs_saturate(
    monkeypatch: pytest.MonkeyPatch, planes: int, terms: int
) -> None:
    """Whose random samples may all lie inside, while real values do not."""
    monkeypatch.setattr(torch, "_int_mm", _saturate)
    for rows in range(2, 5):
        for turned in (False, True):
            shape = Shape(1, Side(2, False), Side(rows, turned), terms, planes)
            assert choose_family(shape) is multiply_doubles, shape


def test_bytes_are_never_taken_for_one_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch._int_mm leaves the memory of such a product as it was: by chance it may hold what is right."""
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: a.int() @ b.int())
    assert choose_family(Shape(1, Side(4, False), Side(6, False), 1, 1)) is multiply_doubles


def test_float64_is_taken_where_the_processor_has_no_products_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(product_families, "has_byte_products", lambda: False)
    assert choose_family(Shape(1, ALONG, ALONG, 64, 1)) is multiply_doubles


def test_whole_integers_are_multiplied_as_float64() -> None:
    force_family("bytes")
    assert choose_family(Shape(1, ALONG, ALONG, 64, 0)) is multiply_doubles
