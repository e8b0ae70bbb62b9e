"""Draws operands on which a careless bound, or a careless machine, would fail: flat float32 values.

Ordinary numbers, all magnitudes, subnormals, exact powers of two, ties, signed zeros, values that cancel or
nearly overflow, and rows for sums in which rounding always goes one way. A generator fixes all of them.
"""

from collections.abc import Callable, Sequence
from math import inf, nan, prod

import torch
from torch import Generator, Tensor

from touchstone.protocol.spec.program_operations import Operation

INFINITY, ONE, NORMAL, SIGN = 0x7F800000, 0x3F800000, 0x00800000, -(1 << 31)
EDGES = torch.tensor([
    0.0, -0.0, 1.0, 2.0**-149, 2.0**-127, 2.0**-126 - 2.0**-149, 2.0**-126, 2.0**-125, 2.0**-100, 2.0**-24,
    3 * 2.0**-24, 1 - 2.0**-24, 1 + 2.0**-23, 3.0, 88.7, 103.3, 2.0**24 + 2, 2.0**127, 3.4028234663852886e38,
])  # fmt: skip
"""Zeros, neighbours of 1 and of the least normal number, and the ends of the range."""
NOT_FINITE = torch.tensor([inf, -inf, nan])


# Single values
def draw_integers(low: int, high: int, count: int, generator: Generator) -> Tensor:
    """Draws int64 [count], low <= x < high."""
    return torch.randint(low, high, (count,), generator=generator)


def draw_patterns(low: int, high: int, count: int, generator: Generator) -> Tensor:
    """Draws numbers of either sign whose magnitude has a bit pattern from `low` to below `high`."""
    sign = draw_integers(0, 2, count, generator) * SIGN
    return (draw_integers(low, high, count, generator) + sign).int().view(torch.float32)


def draw_ordinary(count: int, generator: Generator) -> Tensor:
    """Draws from the standard normal distribution."""
    return torch.randn(count, generator=generator)


def draw_wide(count: int, generator: Generator, exponent: int = 60) -> Tensor:
    """Draws normal numbers times a power of two between 2^-exponent and 2^exponent."""
    return draw_ordinary(count, generator) * draw_integers(-exponent, exponent + 1, count, generator).exp2()


def draw_powers(count: int, generator: Generator) -> Tensor:
    """Draws powers of two of either sign, over the whole normal range."""
    return (
        draw_patterns(1, 255, count, generator).view(torch.int32).bitwise_left_shift(23).view(torch.float32)
    )


def draw_whole(count: int, generator: Generator) -> Tensor:
    """Draws integers of up to 25 bits, whose sums and products are often ties."""
    return draw_integers(-(1 << 25), 1 << 25, count, generator).float()


def draw_edges(count: int, generator: Generator) -> Tensor:
    """Draws from EDGES, with either sign."""
    picked = EDGES[draw_integers(0, EDGES.numel(), count, generator)]
    return picked * (1 - 2 * draw_integers(0, 2, count, generator))


Draw = Callable[[int, Generator], Tensor]
FLAVOURS: tuple[Draw, ...] = (
    draw_ordinary,
    draw_wide,
    draw_powers,
    draw_whole,
    draw_edges,
    lambda count, generator: draw_patterns(0, INFINITY, count, generator),
    lambda count, generator: draw_patterns(0, 2 * NORMAL, count, generator),
    lambda count, generator: draw_patterns(INFINITY - (1 << 24), INFINITY, count, generator),
)
"""Kinds of values. The last three are any finite pattern, subnormals and their neighbours, and the largest
numbers."""


def draw_mixed(count: int, generator: Generator) -> Tensor:
    """Draws each value from another kind in FLAVOURS."""
    return _pick(torch.stack([draw(count, generator) for draw in FLAVOURS]), generator)


def draw_partners(a: Tensor, generator: Generator) -> Tensor:
    """Draws second operands: independent; equal; opposite, or one bit beside it; half an ulp (a tie of a
    sum); or such that the product is near 2^-126 or 2^128."""
    count = a.numel()
    beside = draw_integers(-1, 2, count, generator).int()
    half_ulp = a.view(torch.int32).bitwise_and(INFINITY).view(torch.float32) * 2.0**-24
    choices = [
        draw_mixed(count, generator), a, -a, (-a).view(torch.int32).add(beside).view(torch.float32), half_ulp,
        2.0**-126 / a * (1 + beside * 2.0**-23), 2.0**127 / a * 2,
    ]  # fmt: skip
    partners = _pick(torch.stack(choices), generator)
    return torch.where(partners.isfinite(), partners, draw_ordinary(count, generator))


def draw_conditions(count: int, generator: Generator) -> Tensor:
    """Draws values of which a third are not finite."""
    lost = NOT_FINITE[draw_integers(0, 3, count, generator)]
    return torch.where(draw_integers(0, 3, count, generator) == 0, lost, draw_mixed(count, generator))


def draw_thresholds(count: int, generator: Generator) -> Tensor:
    """Draws values that are not negative."""
    return draw_mixed(count, generator).abs()


def _pick(choices: Tensor, generator: Generator) -> Tensor:
    """Picks one of choices [n, count] for each place."""
    places = draw_integers(0, choices.shape[0], choices.shape[1], generator)
    return choices.gather(0, places.unsqueeze(0)).squeeze(0)


# Sweeps of a function's domain
SWEEPS: dict[Operation, tuple[tuple[float, float], ...]] = {
    Operation.EXPONENTIAL: ((2.0**-26, 104.5), (-104.5, -(2.0**-26)), (-88.0, -86.0), (88.5, 88.8)),
    Operation.SIGMOID: ((2.0**-26, 104.5), (-104.5, -(2.0**-26)), (-89.0, -86.0), (-17.5, -16.0)),
    Operation.LOGARITHM: ((2.0**-126, 3.4e38), (0.5, 2.0), (0.99, 1.01), (1e-3, 1e3)),
    Operation.RECIPROCAL_ROOT: ((2.0**-126, 3.4e38), (1.0, 4.0), (1e-12, 1e3)),
    Operation.SQUARE_ROOT: ((2.0**-149, 3.4e38), (1.0, 4.0), (1e-20, 1e3)),
}
"""Ranges (from, to) of one sign, in which all patterns are equally likely."""


def draw_sweep(operation: Operation, count: int, generator: Generator) -> Tensor:
    """Draws three quarters evenly over the ranges in SWEEPS, each at a random place in its share; the rest
    mixed."""
    ranges = SWEEPS[operation]
    share = 3 * count // (4 * len(ranges))
    parts = [_sweep(low, high, share, generator) for low, high in ranges]
    return torch.cat([*parts, draw_mixed(count - share * len(ranges), generator)])


def _sweep(low: float, high: float, count: int, generator: Generator) -> Tensor:
    first, last = (int(torch.tensor(x).view(torch.int32)) for x in (low, high))
    places = (torch.arange(count) + torch.rand(count, generator=generator, dtype=torch.float64)) / count
    return (first + (places * (last - first)).long()).int().view(torch.float32)


# Rows of sums
DrawRows = Callable[[int, int, Generator], Tensor]


def _flat(draw: Draw) -> DrawRows:
    return lambda rows, terms, generator: draw(rows * terms, generator).view(rows, terms)


def _join(rows: int, terms: int, generator: Generator, sign: float) -> Tensor:
    """Draws rows whose second half repeats the first, times `sign`."""
    x = torch.randn(rows, terms, generator=generator)
    half = terms // 2
    x[:, half : 2 * half] = sign * x[:, :half]
    return x


def _stick(rows: int, terms: int, generator: Generator) -> Tensor:
    """Draws one large term among many of half its ulp. Added in order of size, each is a tie that is lost."""
    scale = draw_integers(-20, 20, rows, generator).exp2().unsqueeze(1)
    x = (scale * 2.0**-24).expand(rows, terms).clone()
    place = draw_integers(0, 2, rows, generator) * draw_integers(0, terms, rows, generator)
    return x.scatter_(1, place.unsqueeze(1), scale)


def _dwarf(rows: int, terms: int, generator: Generator) -> Tensor:
    """Draws small terms between two huge ones that cancel."""
    x = torch.randn(rows, terms, generator=generator)
    if terms > 2:
        x[:, 0], x[:, -1] = 1e12, -1e12
    return x


ROWS: tuple[DrawRows, ...] = (
    _flat(draw_ordinary),
    _flat(lambda count, generator: draw_ordinary(count, generator).abs()),
    lambda rows, terms, generator: _join(rows, terms, generator, -1.0),
    lambda rows, terms, generator: _join(rows, terms, generator, 1.0),
    _stick,
    _dwarf,
    _flat(draw_whole),
    _flat(lambda count, generator: draw_wide(count, generator, 30)),
    _flat(lambda count, generator: draw_patterns(0, 2 * NORMAL, count, generator)),
    _flat(lambda count, generator: draw_integers(-1, 2, count, generator) * torch.tensor(2.0**-63)),
)
"""Kinds of rows: ordinary, of one sign, cancelling, repeated (times a cancelling row they cancel), sticky,
dwarfed, ties, of all sizes, subnormal, and zeros with products near the least normal number."""


def draw_rows(shape: Sequence[int], terms: int, generator: Generator) -> Tensor:
    """Draws float32 of `shape`, whose last dimensions hold the `terms` values of a sum, with mixed kinds of
    rows."""
    rows = prod(shape) // terms
    kinds = draw_integers(0, len(ROWS), rows, generator)
    result = torch.empty(rows, terms)
    for kind, draw in enumerate(ROWS):
        is_kind = kinds == kind
        result[is_kind] = draw(int(is_kind.sum()), terms, generator)
    return result.view(tuple(shape))
