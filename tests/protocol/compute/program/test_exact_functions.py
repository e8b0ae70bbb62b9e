"""The compiled sums and functions, against `spec/exact.py` on patterns of all kinds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from protocol.compute.program import exact_functions as functions
from protocol.spec import exact

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
        (functions.take_exponentials, exact.take_exponential),
        (functions.take_sigmoids, exact.take_sigmoid),
        (functions.take_logarithms, exact.take_logarithm),
    ],
)
def test_functions_give_the_bits_of_the_specification(
    loop: Callable[..., None], rule: Callable[[int], int]
) -> None:
    patterns = draw_patterns()
    out = np.empty(len(patterns), np.float32)
    loop(patterns.view(np.float32), patterns.view(np.int32), out, out.view(np.int32))
    found = [exact.canonicalize(int(bits)) for bits in out.view(np.uint32)]
    assert found == [rule(int(bits)) for bits in patterns]


@pytest.mark.parametrize(
    ("loop", "rule"),
    [
        (functions.choose_largest, exact.choose_largest),
        (functions.choose_smallest, exact.choose_smallest),
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
        found = [exact.canonicalize(int(bits)) for bits in out.view(np.uint32)]
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
    functions.sum_rows(flat.view(np.float32), flat, 0, sizes, strides, 40, out)
    found = [exact.canonicalize(int(bits)) for bits in out.view(np.uint32)]
    assert found == [exact.add_terms([int(bits) for bits in row]) for row in rows]
