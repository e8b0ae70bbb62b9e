"""Residuals: signed, in limits, and reduced without losing what a steady steer leaves."""

from dataclasses import replace

import pytest
import torch

from protocol.compute import residuals
from protocol.compute.compare import compute_excess
from protocol.compute.residuals import PastResiduals, Sketch, compute_residuals, project, reduce_residuals
from protocol.compute.step import TrainingState
from protocol.spec.containers import Limits
from protocol.spec.ledger import correlate

RATE = 1 << 58
TAU = int(1e-4 * 2**64)
LIMITS = Limits(TAU, 1 << 120, TAU, 1 << 90, TAU, 1 << 41)
COUNT = 4000
SEED, OTHER_SEED = bytes(32), bytes(31) + b"\1"


def draw(seed: int) -> torch.Tensor:
    return torch.randn(COUNT, generator=torch.Generator().manual_seed(seed))


def compute_sketch(vector: torch.Tensor, seed: bytes) -> tuple[float, ...]:
    """The unit vector along this one."""
    sketch = Sketch(seed)
    sketch.add(vector)
    return sketch.divide(float(vector.norm()))


@pytest.fixture
def replayed() -> TrainingState:
    return TrainingState(draw(1), draw(2) * 1e-3, draw(3).square() * 1e-6, 3, 3)


@pytest.fixture
def start(replayed: TrainingState) -> TrainingState:
    return replace(replayed, weights=replayed.weights - draw(4) * 1e-3)


def test_compute_residuals_are_signed_and_in_limits(replayed: TrainingState) -> None:
    zero = replace(replayed, weights=torch.zeros(COUNT))
    allowed = 1e-4 * 2.0**-6 + 2.0**-49
    moved = torch.zeros(COUNT)
    moved[5], moved[6] = -allowed / 2, 3 * allowed
    weights, first, second = compute_residuals(replace(zero, weights=moved), zero, RATE, LIMITS)
    assert float(weights[5]) == pytest.approx(-0.5, rel=1e-4) and float(weights[6]) == pytest.approx(
        3, rel=1e-4
    )
    assert weights.count_nonzero() == 2 and not first.any() and not second.any()


def test_compute_residuals_have_the_magnitude_that_is_judged(replayed: TrainingState) -> None:
    claimed = TrainingState(
        replayed.weights + draw(5) * 1e-7, replayed.first_moment * (1 + draw(6) * 1e-4),
        replayed.second_moment * (1 + draw(7) * 1e-4), 3, 3,
    )  # fmt: skip
    found = torch.stack(compute_residuals(claimed, replayed, RATE, LIMITS)).abs().amax(dim=0)
    judged = compute_excess(claimed, replayed, RATE, LIMITS)
    assert torch.allclose(found.double(), judged, rtol=1e-5)


def test_compute_residuals_in_parts_are_the_same(
    replayed: TrainingState, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = replace(replayed, first_moment=replayed.first_moment * (1 + draw(6) * 1e-4))
    whole = compute_residuals(claimed, replayed, RATE, LIMITS)
    monkeypatch.setattr(residuals, "PART_ELEMENTS", 999)
    assert all(map(torch.equal, whole, compute_residuals(claimed, replayed, RATE, LIMITS)))


# Whole cache lines: elsewhere the library may sum a part in another order.
@pytest.mark.parametrize("part_elements", [16 * 63, 1 << 16])
def test_reduce_residuals_is_what_whole_residuals_come_to(
    start: TrainingState, replayed: TrainingState, monkeypatch: pytest.MonkeyPatch, part_elements: int
) -> None:
    monkeypatch.setattr(residuals, "PART_ELEMENTS", part_elements)
    claimed = TrainingState(
        replayed.weights + draw(5) * 1e-7, replayed.first_moment * (1 + draw(6) * 1e-4),
        replayed.second_moment * (1 + draw(7) * 1e-4), 3, 3,
    )  # fmt: skip
    whole = compute_residuals(claimed, replayed, RATE, LIMITS)
    past = PastResiduals()
    past.add((draw(8), draw(9), draw(10)))
    found = reduce_residuals(claimed, replayed, start, RATE, LIMITS, SEED, past)
    assert found.projections == project(whole, start, replayed, SEED, past)
    assert found.norms == pytest.approx([float(residual.norm()) for residual in whole], rel=1e-6)
    assert found.distances == tuple(float(residual.abs().max()) for residual in whole)
    assert min(found.distances) > 0 and float(whole[0].norm()) / COUNT**0.5 == pytest.approx(
        found.projections[0].rms
    )


def test_project_tells_the_direction_of_a_steer(start: TrainingState, replayed: TrainingState) -> None:
    update = replayed.weights - start.weights
    shown = {
        "update": update, "mean": torch.full((COUNT,), -0.3), "gradient": -replayed.first_moment.sign(),
    }  # fmt: skip
    signs = {"update": 1, "mean": -1, "gradient": -1}
    for name, residual in shown.items():
        found = project((residual, residual, residual), start, replayed, SEED)[0]
        assert getattr(found, name) == pytest.approx(signs[name] * COUNT**0.5, rel=1e-4), name
        others = [getattr(found, other) for other in shown if other != name]
        assert max(map(abs, others)) < 4, "about 1 for what has nothing to do with it"


def test_project_of_equal_states_is_zero(start: TrainingState, replayed: TrainingState) -> None:
    found = project(compute_residuals(replayed, replayed, RATE, LIMITS), start, replayed, SEED)
    assert {(p.rms, p.mean, p.update, p.gradient, p.past, *p.sketch) for p in found} == {
        (0.0, 0.0, 0.0, 0.0, None, *[0.0] * 64)
    }


def test_project_what_is_not_finite_stays_a_number(start: TrainingState, replayed: TrainingState) -> None:
    claimed = replace(replayed, weights=torch.full((COUNT,), float("nan")))
    assert project(compute_residuals(claimed, replayed, RATE, LIMITS), start, replayed, SEED)[0].rms > 1000


def test_past_residuals_show_what_repeats(start: TrainingState, replayed: TrainingState) -> None:
    past, steer = PastResiduals(), draw(9) * 0.1
    for seed in range(20, 30):
        steered = draw(seed) + steer
        past.add((steered, steered, draw(seed + 100)))
    now = (draw(50) + steer, draw(51), draw(52))
    weights, first, second = project(now, start, replayed, SEED, past)
    assert weights.past is not None and weights.past > 1
    assert all(p.past is not None and abs(p.past) < 4 for p in (first, second))
    repeated, _, _ = project((steer * 7, steer, steer), start, replayed, SEED, past)
    assert repeated.past is not None and repeated.past > 15, "of 63 in units of noise"


def test_sketch_products_are_those_of_the_vectors() -> None:
    common = draw(1)
    pairs = [(common + draw(s), common + draw(s + 500)) for s in range(2, 40)]
    seeds = [bytes(31) + bytes([s]) for s in range(len(pairs))]
    products = [
        correlate(compute_sketch(a, seed), compute_sketch(b, seed))
        for (a, b), seed in zip(pairs, seeds, strict=True)
    ]
    assert sum(products) / len(products) == pytest.approx(0.5 * 8, abs=0.7), "a cosine of one half"


def test_sketch_follows_from_the_seed_alone_and_parts_differ() -> None:
    vector = draw(1)
    assert compute_sketch(vector, SEED) == compute_sketch(vector.clone(), SEED)
    assert abs(correlate(compute_sketch(vector, SEED), compute_sketch(vector, OTHER_SEED))) < 4
    assert compute_sketch(vector * 5, SEED) == pytest.approx(compute_sketch(vector, SEED))
