"""The signed residual of an audit, reduced to a few numbers that the ledger adds up.

    claimed - replayed, in accept limits --> cosines with fixed directions, a sketch on drawn ones, its size

The drawn directions follow from a seed that nobody knew before the claim was committed (the draw's): each
element has one of SKETCH_BUCKETS buckets and a sign, one byte of a SHAKE-256 stream (a count sketch:
Charikar, Chen and Farach-Colton, ICALP 2002), so that a sketch costs one hashed byte an element whatever the
number of directions, and the product of two sketches of the same round is the product of the two residuals,
give or take an eighth of their norms.
"""

from collections.abc import Iterator
from hashlib import shake_256
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from protocol.compute.compare import compute_allowances
from protocol.compute.room import relax
from protocol.compute.step import TrainingState
from protocol.spec.containers import Limits
from protocol.spec.hashing import hash_words
from protocol.spec.ledger import QUANTITIES, SKETCH_BUCKETS, Projection

TAG_RESIDUAL = "touchstone.residual"
PART_ELEMENTS = 1 << 16
"""Elements that are sketched at a time; each part has a stream of its own."""
MOST_LIMITS = 2.0**20
"""Residuals are cut here: what is further off is rejected, and its size says nothing more."""


def compute_residuals(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> tuple[Tensor, Tensor, Tensor]:
    """(claimed - replayed) / what `limits` allow, for W, m and v: float32, within -1 .. 1 where they are
    kept. `learning_rate_sum` in units of 2^-64."""
    result = tuple(torch.empty_like(replayed.weights) for _ in QUANTITIES)
    for part in _list_parts(replayed.weights):
        mine, theirs = _cut(replayed, part), _cut(claimed, part)
        allowances = compute_allowances(mine, learning_rate_sum, limits)
        for whole, name, allowed in zip(result, QUANTITIES, allowances, strict=True):
            whole[part] = _divide(getattr(theirs, name), getattr(mine, name), allowed)
        relax()
    weights, first, second = result
    return weights, first, second


def _cut(state: TrainingState, part: slice) -> TrainingState:
    weights, first, second = (getattr(state, name)[part] for name in QUANTITIES)
    return TrainingState(weights, first, second, state.local_step, state.global_step)


def _divide(claimed: Tensor, replayed: Tensor, allowed: Tensor) -> Tensor:
    apart = claimed.double() - replayed.double()
    ratio = torch.where(apart == 0, 0.0, apart / allowed).nan_to_num(nan=MOST_LIMITS)
    return ratio.clamp(-MOST_LIMITS, MOST_LIMITS).float()


class PastResiduals:
    """The sum of the unit residuals of one solver that this auditor saw: what a steady steer must agree
    with. As large as a state; kept by whoever wants to."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def compare(self, residuals: tuple[Tensor, Tensor, Tensor]) -> tuple[float | None, ...]:
        """Each quantity's cosine with the sum so far, times sqrt(n); None before the first one."""
        if not self._sums:
            return (None,) * len(residuals)
        return tuple(_compare(r, past) for r, past in zip(residuals, self._sums, strict=True))

    def add(self, residuals: tuple[Tensor, Tensor, Tensor]) -> None:
        """One audit more."""
        units = [residual / max(_norm(residual), 1e-30) for residual in residuals]
        self._sums = [a + b for a, b in zip(self._sums, units, strict=True)] if self._sums else units


def project(
    residuals: tuple[Tensor, Tensor, Tensor],
    start: TrainingState,
    replayed: TrainingState,
    seed: bytes,
    past: PastResiduals | None = None,
) -> tuple[Projection, ...]:
    """The projections of W, m and v. `seed`: 32 bytes drawn after the commitment, the same for all audits of
    a claim in a round; `past`: what this auditor saw of the solver before."""
    before = past.compare(residuals) if past else (None,) * len(residuals)
    signs = replayed.first_moment.sign()
    return tuple(
        Projection(
            quantity=name,
            rms=_norm(residual) / residual.numel() ** 0.5,
            mean=_compare(residual, torch.ones(1).expand_as(residual)),
            update=_compare(residual, getattr(replayed, name) - getattr(start, name)),
            gradient=_compare(residual, signs),
            past=past_cosine,
            sketch=compute_sketch(residual, hash_words(TAG_RESIDUAL, seed, index)),
        )
        for index, (name, residual, past_cosine) in enumerate(zip(QUANTITIES, residuals, before, strict=True))
    )


def _list_parts(vector: Tensor) -> list[slice]:
    return [slice(start, start + PART_ELEMENTS) for start in range(0, vector.numel(), PART_ELEMENTS)]


def _dot(one: Tensor, other: Tensor) -> float:
    """In float32 within a part, in float64 over parts: a millionth off at most, where noise is 1."""
    return sum(float(one[part] @ other[part]) for part in _list_parts(one))


def _norm(vector: Tensor) -> float:
    return sqrt(_dot(vector, vector))


def _compare(residual: Tensor, direction: Tensor) -> float:
    """Cosine times sqrt(n): about 1 for noise. 0 where either is zero."""
    norms = _norm(residual) * _norm(direction)
    return residual.numel() ** 0.5 * _dot(residual, direction) / norms if norms else 0.0


def compute_sketch(residual: Tensor, seed: bytes) -> tuple[float, ...]:
    """The unit vector along `residual` on SKETCH_BUCKETS directions that follow from `seed` (32 bytes)."""
    buckets = np.zeros(SKETCH_BUCKETS)
    for values, stream in _iterate_parts(residual, seed):
        both = np.bincount(stream % (2 * SKETCH_BUCKETS), weights=values, minlength=2 * SKETCH_BUCKETS)
        buckets += both[:SKETCH_BUCKETS] - both[SKETCH_BUCKETS:]
    return tuple(float(value) for value in buckets / max(_norm(residual), 1e-30))


def _iterate_parts(residual: Tensor, seed: bytes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for number, part in enumerate(_list_parts(residual)):
        values = residual[part].numpy()
        stream = shake_256(hash_words(TAG_RESIDUAL, seed, number)).digest(len(values))
        yield values, np.frombuffer(stream, dtype=np.uint8)
