"""The signed residual of an audit, reduced to a few numbers that the ledger adds up.

    claimed - replayed, in accept limits --> cosines with fixed directions, a sketch on drawn ones, its size

The drawn directions follow from a seed that nobody knew before the claim was committed (the draw's): each
element has one of SKETCH_BUCKETS buckets and a sign, one byte of a SHAKE-256 stream (a count sketch:
Charikar, Chen and Farach-Colton, ICALP 2002), so that a sketch costs one hashed byte an element whatever the
number of directions, and the product of two sketches of the same round is the product of the two residuals,
give or take an eighth of their norms.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import shake_256
from math import sqrt
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from protocol.compute.compare import compute_allowances
from protocol.compute.room import relax
from protocol.compute.step import PiecewiseState, TrainingState
from protocol.spec.containers import Limits
from protocol.spec.hashing import hash_words
from protocol.spec.ledger import QUANTITIES, SKETCH_BUCKETS, Projection

TAG_RESIDUAL = "touchstone.residual"
PART_ELEMENTS = 1 << 16
"""Elements that are sketched at a time; each part has a stream of its own."""
MOST_LIMITS = 2.0**20
"""Residuals are cut here: what is further off is rejected, and its size says nothing more."""
LEAST_NORM = 1e-30
"""Residuals are divided by no less: those of equal states are all zero."""


Vectors = tuple[Tensor, Tensor, Tensor]
"""Of W, m and v."""


def compute_residuals(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> Vectors:
    """(claimed - replayed) / what `limits` allow, for W, m and v: float32, within -1 .. 1 where they are
    kept. `learning_rate_sum` in units of 2^-64. As large as a state: `reduce_residuals` holds none."""
    weights, first, second = (torch.empty_like(vector) for vector in replayed.vectors)
    parts = iterate_residuals(claimed, replayed, learning_rate_sum, limits)
    for part, found in zip(_list_parts(replayed.elements), parts, strict=True):
        weights[part], first[part], second[part] = found
    return weights, first, second


def iterate_residuals(
    claimed: PiecewiseState, replayed: PiecewiseState, learning_rate_sum: int, limits: Limits
) -> Iterator[Vectors]:
    """The same, PART_ELEMENTS at a time, fewer in the last part."""
    for part in _list_parts(replayed.elements):
        theirs, mine = (state.cut(part.start, part.stop) for state in (claimed, replayed))
        yield _compute_part(theirs, mine, learning_rate_sum, limits)
        relax()


def _compute_part(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> Vectors:
    allowances = compute_allowances(replayed, learning_rate_sum, limits)
    triples = zip(claimed.vectors, replayed.vectors, allowances, strict=True)
    weights, first, second = (_divide(*triple) for triple in triples)
    return weights, first, second


def _divide(claimed: Tensor, replayed: Tensor, allowed: Tensor) -> Tensor:
    apart = (claimed.double() - replayed.double()).nan_to_num_(nan=float("inf"))
    # 0 / 0 = 0
    return apart.div_(allowed).nan_to_num_(nan=0.0).clamp_(-MOST_LIMITS, MOST_LIMITS).float()


# --- Reduced ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ReducedResiduals:
    """What is left of an audit's residuals. Of W, m and v, in accept limits: distances, the largest element;
    norms, L2, a millionth off at most."""

    distances: tuple[float, ...]
    norms: tuple[float, ...]
    projections: tuple[Projection, ...]


def reduce_residuals(
    claimed: PiecewiseState,
    replayed: PiecewiseState,
    start: PiecewiseState,
    learning_rate_sum: int,
    limits: Limits,
    seed: bytes,
    past: "PastResiduals | None" = None,
) -> ReducedResiduals:
    """The residuals of an audit whose replay began at `start`, reduced while they are computed: a part of the
    states is held at a time. `learning_rate_sum` in units of 2^-64; `seed` and `past` as in `project`."""
    sums, past = _begin_sums(seed), past or PastResiduals()
    for part in _list_parts(replayed.elements):
        theirs, mine, begun = (state.cut(part.start, part.stop) for state in (claimed, replayed, start))
        found = _compute_part(theirs, mine, learning_rate_sum, limits)
        _add_part(sums, found, begun, mine, past.cut(part))
        relax()
    return ReducedResiduals(
        tuple(one.largest for one in sums),
        tuple(one.norm for one in sums),
        tuple(one.project() for one in sums),
    )


class Sliced(Protocol):
    """A flat float32 vector that is looked at slice by slice, wherever it lies: a tensor is one."""

    def __getitem__(self, part: slice, /) -> Tensor:
        """Its elements of `part`."""


class PastResiduals:
    """The sum of the unit residuals of one solver that this auditor saw: what a steady steer must agree
    with. As large as a state."""

    def __init__(self, sums: Sequence[Sliced] = ()) -> None:
        """sums: of W, m and v as they were; none: nothing was seen yet."""
        self.sums = sums

    def cut(self, part: slice) -> list[dict[str, Tensor]]:
        """The sum so far as a direction of W, m and v; no direction before the first one."""
        return [{"past": past[part]} for past in self.sums] or [{} for _ in QUANTITIES]

    def add(self, residuals: Vectors) -> None:
        """One audit more."""
        units = [scale_to_unit(residual, _norm(residual)) for residual in residuals]
        before = [past[:] for past in self.sums] or [torch.zeros(1)] * len(units)
        self.sums = [a + b for a, b in zip(before, units, strict=True)]


def scale_to_unit(residual: Tensor, norm: float) -> Tensor:
    """A residual, or a part of one, by the L2 norm of the whole; zeros stay zeros."""
    return residual / max(norm, LEAST_NORM)


def project(
    residuals: Vectors,
    start: TrainingState,
    replayed: TrainingState,
    seed: bytes,
    past: PastResiduals | None = None,
) -> tuple[Projection, ...]:
    """The projections of W, m and v. `seed`: 32 bytes drawn after the commitment, the same for all audits of
    a claim in a round; `past`: what this auditor saw of the solver before."""
    sums, past = _begin_sums(seed), past or PastResiduals()
    for part in _list_parts(replayed.elements):
        weights, first, second = (residual[part] for residual in residuals)
        begun, mine = (state.cut(part.start, part.stop) for state in (start, replayed))
        _add_part(sums, (weights, first, second), begun, mine, past.cut(part))
    return tuple(one.project() for one in sums)


def _add_part(
    sums: "list[_Sums]",
    residuals: Vectors,
    start: TrainingState,
    replayed: TrainingState,
    past: Iterable[Mapping[str, Tensor]],
) -> None:
    signs = replayed.first_moment.sign()
    everything = zip(sums, residuals, start.vectors, replayed.vectors, past, strict=True)
    for one, residual, before, after, more in everything:
        ones = torch.ones(1).expand_as(residual)
        one.add(residual, {"mean": ones, "update": after - before, "gradient": signs, **more})


class _Sums:
    """One quantity's residual, reduced part by part: its products with directions, and its sketch.

    In float32 within a part, in float64 over parts: a millionth off at most, where noise is 1."""

    def __init__(self, quantity: str, seed: bytes) -> None:
        self.quantity, self.largest = quantity, 0.0
        self._elements = 0
        self._squares: list[float] = []
        self._products: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self._sketch = Sketch(seed)

    def add(self, residual: Tensor, directions: Mapping[str, Tensor]) -> None:
        """One part more."""
        self.largest = max(self.largest, float(residual.abs().max()))
        self._elements += residual.numel()
        self._squares.append(float(residual @ residual))
        for name, direction in directions.items():
            self._products[name].append((float(residual @ direction), float(direction @ direction)))
        self._sketch.add(residual)

    @property
    def norm(self) -> float:
        """L2."""
        return sqrt(sum(self._squares))

    def project(self) -> Projection:
        """What all parts come to."""
        norm = self.norm
        cosines = {name: self._compare(norm, products) for name, products in self._products.items()}
        return Projection(
            quantity=self.quantity,
            rms=norm / self._elements**0.5,
            mean=cosines["mean"],
            update=cosines["update"],
            gradient=cosines["gradient"],
            past=cosines.get("past"),
            sketch=self._sketch.divide(norm),
        )

    def _compare(self, norm: float, products: list[tuple[float, float]]) -> float:
        """Cosine times sqrt(n): about 1 for noise. 0 where either is zero."""
        dots, squares = zip(*products, strict=True)
        norms = norm * sqrt(sum(squares))
        return self._elements**0.5 * sum(dots) / norms if norms else 0.0


def _begin_sums(seed: bytes) -> list[_Sums]:
    return [_Sums(name, hash_words(TAG_RESIDUAL, seed, index)) for index, name in enumerate(QUANTITIES)]


def _list_parts(elements: int) -> list[slice]:
    return [slice(start, start + PART_ELEMENTS) for start in range(0, elements, PART_ELEMENTS)]


def _norm(vector: Tensor) -> float:
    return sqrt(sum(float(vector[part] @ vector[part]) for part in _list_parts(vector.numel())))


class Sketch:
    """A vector, fed part by part, on SKETCH_BUCKETS directions that follow from `seed` (32 bytes)."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._parts = seed, 0
        self._buckets = np.zeros(SKETCH_BUCKETS)

    def add(self, values: Tensor) -> None:
        """The next part: PART_ELEMENTS of float32, fewer in the last one."""
        key = hash_words(TAG_RESIDUAL, self._seed, self._parts)
        stream = np.frombuffer(shake_256(key).digest(len(values)), dtype=np.uint8)
        both = np.bincount(
            stream & (2 * SKETCH_BUCKETS - 1), weights=values.numpy(), minlength=2 * SKETCH_BUCKETS
        )
        self._buckets += both[:SKETCH_BUCKETS] - both[SKETCH_BUCKETS:]
        self._parts += 1

    def divide(self, norm: float) -> tuple[float, ...]:
        """The products with the vector divided by its norm."""
        return tuple(float(value) for value in self._buckets / max(norm, LEAST_NORM))
