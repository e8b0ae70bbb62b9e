"""Tasks in tf32 and bf16: operands of product sums are rounded, sums are float32, and nothing of an honest
step lies outside of the format's bounds."""

from dataclasses import replace
from fractions import Fraction
from math import inf

import pytest
import torch
from torch import Tensor

from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds.fault_finder import FaultFinder
from touchstone.protocol.compute.bounds.fault_proof import ClaimedTrace
from touchstone.protocol.compute.bounds.rehearsal import rehearse
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.kernels import PROBE_FORMAT, ROUNDINGS, round_to_bf16, round_to_tf32
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import advance, compute_scalars, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.operation_bounds import FORMATS
from touchstone.protocol.spec.params import NUMERIC_FORMATS, PRODUCT_BITS
from touchstone.protocol.spec.task_spec import TrainingSpec

BITS = {"float32": 24, "tf32": 11, "bf16": 8}
NARROW = ("tf32", "bf16")
SEED = bytes(32)


@pytest.fixture
def batch(corpus: Corpus, spec: TrainingSpec) -> Batch:
    return get_batch(corpus, spec, SEED, 0, 0)


def round_exactly(value: float, bits: int) -> float:
    """The nearest number with so many significant bits, ties to even."""
    exact, unit = Fraction(value), Fraction(1)
    while abs(exact) >= unit * 2**bits:
        unit *= 2
    while exact and abs(exact) < unit * 2 ** (bits - 1):
        unit /= 2
    return float(round(exact / unit) * unit)


def test_every_format_of_tasks_has_bounds_and_a_rounding() -> None:
    assert (
        set(NUMERIC_FORMATS) - set(PRODUCT_BITS)
        == set(FORMATS)
        == set(ROUNDINGS) - {PROBE_FORMAT}
        == set(BITS)
    )


@pytest.mark.parametrize("name", FORMATS)
def test_roundings_are_to_nearest_even(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(500, generator=generator) * 10.0 ** torch.randint(
        -20, 20, (500,), generator=generator
    )
    ties = torch.tensor(
        [sign * (1 + (2 * n + 1) * 2.0**-k) for sign in (1, -1) for n in range(4) for k in (8, 11)]
    )
    given = torch.cat((values, ties))
    expected = [round_exactly(float(x), BITS[name]) for x in given]
    assert ROUNDINGS[name](given).tolist() == expected


@pytest.mark.parametrize("rounding", [round_to_tf32, round_to_bf16])
def test_roundings_keep_what_is_not_finite(rounding: object) -> None:
    given = torch.tensor([inf, -inf, float("nan"), 0.0, -0.0])
    given = torch.cat((given, torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32)))
    rounded: Tensor = rounding(given)  # type: ignore[operator]
    assert rounded[:2].tolist() == [inf, -inf] and bool(rounded[[2, 5]].isnan().all())
    assert not rounded[3:5].any() and bool(rounded[4].signbit())


# --- Steps --------------------------------------------------------------------------------------------------
def record(spec: TrainingSpec, state: TrainingState, batch: Batch) -> tuple[Interpreter, Tensor]:
    built = get_program(spec)
    kept = Interpreter(built.program, built.constants, keeps_all=True, numeric_format=spec.numeric_format)
    vectors = (state.weights, state.first_moment, state.second_moment)
    return kept, kept.run(vectors, *batch, compute_scalars(spec, 0, 0)).weights


def count_outside(kept: Interpreter, numeric_format: str) -> int:
    return len(TraceChecker(kept.program, numeric_format).check(kept.tensors.__getitem__).faults)


@pytest.mark.parametrize("name", FORMATS)
def test_an_honest_step_lies_inside_its_own_bounds(
    name: str, spec: TrainingSpec, state: TrainingState, batch: Batch
) -> None:
    spec = replace(spec, numeric_format=name)
    kept, weights = record(spec, state, batch)
    assert count_outside(kept, name) == 0
    assert torch.equal(weights, advance(state, batch, spec)[0].weights)


@pytest.mark.parametrize("name", NARROW)
def test_a_narrower_step_lies_outside_of_narrower_bounds(
    name: str, spec: TrainingSpec, state: TrainingState, batch: Batch
) -> None:
    kept, _ = record(replace(spec, numeric_format=name), state, batch)
    finer = [*FORMATS][[*FORMATS].index(name) - 1]
    assert count_outside(kept, finer) > 0 and count_outside(kept, "float32") > 0


@pytest.mark.parametrize("name", NARROW)
def test_formats_train_apart_and_repeat_their_bits(
    name: str, spec: TrainingSpec, state: TrainingState, corpus: Corpus
) -> None:
    def batches(step: int) -> Batch:
        return get_batch(corpus, spec, SEED, 0, step)

    narrow = replace(spec, numeric_format=name)
    ends = [train_segment(state, one, batches, 0, 3)[0].weights for one in (spec, narrow, spec, narrow)]
    assert torch.equal(ends[0], ends[2]) and torch.equal(ends[1], ends[3])
    assert not torch.equal(ends[0], ends[1])


@pytest.mark.parametrize("name", NARROW)
def test_retrace_and_fault_finder_take_the_format_from_the_task(
    name: str, spec: TrainingSpec, state: TrainingState, batch: Batch
) -> None:
    narrow = replace(spec, numeric_format=name)
    retraced, (kept, weights) = retrace(state, narrow, lambda _: batch, 0), record(narrow, state, batch)
    assert torch.equal(retraced.end.weights, weights)
    claimed = ClaimedTrace(retraced.tree.roots, kept.tensors.__getitem__)
    vectors = (state.weights, state.first_moment, state.second_moment)
    scalars = compute_scalars(narrow, 0, 0)
    built = get_program(spec)
    assert FaultFinder(built, name).find(vectors, batch, scalars, claimed) is None
    assert FaultFinder(built).find(vectors, batch, scalars, claimed) is not None


@pytest.mark.parametrize("name", NARROW)
def test_rehearse_shows_right_and_wrong_in_every_format(
    name: str, spec: TrainingSpec, state: TrainingState, batch: Batch
) -> None:
    found = rehearse(state, replace(spec, numeric_format=name), batch, SEED)
    assert {exhibit.is_fault for exhibit in found.exhibits} == {True, False}
