"""Both ways to multiply quantized matrices, and the choice between them."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from protocol.compute.program import product_families
from protocol.compute.program.exact_loops import split_planes
from protocol.compute.program.product_families import (
    FAMILIES,
    Shape,
    Side,
    choose_family,
    force_family,
    multiply_bytes,
    multiply_doubles,
)

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
