"""The step in plain PyTorch: its gradient is the loss's slope, its update is IEEE 754 arithmetic, and what
nodes run computes the same update."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from protocol.compute.determinism import list_cpu_capabilities
from protocol.compute.digest import tensor_bytes
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import build_tables, parameter_count
from protocol.compute.model.reference_step import (
    FLUSH_BELOW,
    StepResult,
    UpdateFactors,
    compute_factors,
    compute_gradient,
    find_dead_parameters,
    plain_step,
    require_live_parameters,
    shrink,
    update,
)
from protocol.compute.program.fused_update import TILE_ELEMENTS
from protocol.compute.program.step import Batch, TrainingState, compute_scalars
from protocol.spec import float32
from protocol.spec.containers import ModelConfig, OptimizerConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import float_to_bits, nearest, unpack_bits
from tests.protocol.compute.conftest import TINY, build_tiny_training
from tests.protocol.compute.programs import NO_INDEX, build_update, run_python
from tests.training_setting import DEMO_MODEL

BEACON = sha256(b"step").digest()


def batch_of(corpus: Corpus, spec: TrainingSpec, step: int) -> Batch:
    return get_batch(corpus, spec, BEACON, 0, step)


def widen(tables: Tables) -> Tables:
    return Tables(tables.cos_TN.double(), tables.sin_TN.double(), tables.mask_TS.double())


# --- The gradient -------------------------------------------------------------------------------------------
def test_gradient_equals_autograd_on_the_flat_vector_in_float64(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    batch, tables = batch_of(corpus, spec, 0), build_tables(spec.model)
    _, gradient = compute_gradient(state.weights, *batch, tables, spec.model)
    _, reference = compute_gradient(state.weights.double(), *batch, widen(tables), spec.model)
    assert float((gradient - reference).norm() / reference.norm()) < 1e-5


def test_gradient_is_the_slope_of_the_loss(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    batch, tables = batch_of(corpus, spec, 0), widen(build_tables(spec.model))
    weights = state.weights.double()
    direction = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, gradient = compute_gradient(weights, *batch, tables, spec.model)
    up, down = (
        compute_gradient(weights + h * direction, *batch, tables, spec.model)[0] for h in (1e-6, -1e-6)
    )
    assert float(up - down) / 2e-6 == pytest.approx(float(gradient @ direction), rel=1e-5)


def test_a_plain_step_is_gradient_factors_and_update(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    batch, tables, scalars = batch_of(corpus, spec, 0), build_tables(spec.model), compute_scalars(spec, 0, 0)
    vectors = state.weights, state.first_moment, state.second_moment
    result = plain_step(*vectors, *batch, scalars, tables, spec.model, spec.optimizer)
    loss, gradient = compute_gradient(state.weights, *batch, tables, spec.model)
    factors = compute_factors(gradient, scalars, spec.optimizer)
    expected = (*update(*vectors, gradient, factors, spec.optimizer), loss)
    assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))


# --- The update, exactly ------------------------------------------------------------------------------------
def grid(count: int, seed: int, scale: float) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * scale


def reference_update(
    element: tuple[int, ...], factors: dict[str, int], o: OptimizerConfig
) -> tuple[int, ...]:
    """AdamW on bit patterns, each operation rounded once (`spec/float32.py`)."""
    w, m, v, g = element
    mul, add, bits = float32.multiply, float32.add, float_to_bits
    first = add(mul(m, bits(o.beta1)), mul(g, factors["first_scale"]))
    second = add(mul(v, bits(o.beta2)), mul(mul(g, g), factors["second_scale"]))
    first, second = (0 if abs(float32.bits_to_float(x)) < FLUSH_BELOW else x for x in (first, second))
    root = float_to_bits(nearest(float32.bits_to_float(second) ** 0.5))
    direction = float32.divide(first, add(root, factors["epsilon"]))
    return float32.subtract(mul(w, factors["decay"]), mul(direction, factors["rate"])), first, second


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-14, 1e-20])
def test_update_equals_ieee_arithmetic(scale: float) -> None:
    w, m, v, g = grid(300, 1, 1.0), grid(300, 2, scale), grid(300, 3, scale).square(), grid(300, 4, scale)
    optimizer = OptimizerConfig()
    factors = compute_factors(g, torch.tensor([1e-3, 0.19, 0.0975]), optimizer)
    bits = {
        name: unpack_bits(bytes(tensor_bytes(x.view(1))))[0]
        for name, x in factors._asdict().items()
        if name != "is_finite"
    }
    result = [unpack_bits(bytes(tensor_bytes(x))) for x in update(w, m, v, g, factors, optimizer)]
    rows = zip(*(unpack_bits(bytes(tensor_bytes(x))) for x in (w, m, v, g)), strict=True)
    assert list(zip(*result, strict=True)) == [reference_update(row, bits, optimizer) for row in rows]


def test_tiny_moments_become_positive_zero() -> None:
    zero = torch.zeros(4)
    m = torch.tensor([-1e-31, 1e-31, 2.0**-99, -(2.0**-99)])
    factors = compute_factors(zero, torch.tensor([1e-3, 0.5, 0.5]), OptimizerConfig(clip_norm=1.0))
    _, first, second = update(zero, m, m.abs(), zero, factors, OptimizerConfig())
    assert first[:2].view(torch.int32).tolist() == [0, 0] and bool((first[2:] != 0).all())
    assert second[:2].tolist() == [0, 0] and bool((second[2:] > 0).all())


@pytest.mark.parametrize("norm, expected", [(0.5, 1.0), (4.0, 0.25)])
def test_clip_scales_the_norm_down_only(norm: float, expected: float) -> None:
    gradient = torch.zeros(9)
    gradient[4] = norm
    factors = compute_factors(gradient, torch.tensor([1e-3, 0.1, 0.05]), OptimizerConfig())
    assert float(factors.first_scale) == expected * nearest(1 - OptimizerConfig().beta1)
    assert float(factors.second_scale) == expected**2 * nearest(1 - OptimizerConfig().beta2)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_a_gradient_without_finite_norm_changes_nothing(bad: float) -> None:
    w, m, v, g = grid(50, 1, 1.0), grid(50, 2, 1.0), grid(50, 3, 1.0).square(), grid(50, 4, 1.0)
    g[7] = bad
    factors = compute_factors(g, torch.tensor([1e-3, 0.1, 0.05]), OptimizerConfig())
    assert all(
        torch.equal(a, b)
        for a, b in zip(update(w, m, v, g, factors, OptimizerConfig()), (w, m, v), strict=True)
    )


def test_a_gradient_of_zero_only_decays() -> None:
    w, zero = grid(50, 1, 1.0), torch.zeros(50)
    factors = compute_factors(zero, torch.tensor([0.5, 0.1, 0.05]), OptimizerConfig(weight_decay=0.5))
    weights, first, second = update(w, zero, zero, zero, factors, OptimizerConfig(weight_decay=0.5))
    assert torch.equal(weights, w * 0.75) and not first.any() and not second.any()


# --- The update as nodes run it -----------------------------------------------------------------------------
MANY = 300_000
assert MANY > 3 * TILE_ELEMENTS


def spread(seed: int, scale: float) -> Tensor:
    """Many numbers of both signs; the first third of them so small that their moments are flushed."""
    values = ((torch.arange(MANY) * (2 * seed + 40503) % 65521).float() - 32760.5) * scale
    values[: MANY // 3] *= 1e-28
    return values


def hash_updates(norm: float) -> tuple[str, str]:
    """Of new W, m and v: by the program, and in plain PyTorch."""
    optimizer = OptimizerConfig()
    w, m, v, g = spread(1, 1e-6), spread(2, 1e-9), spread(3, 1e-8).square(), spread(4, 1e-8)
    scalars = torch.tensor([0.07, 0.0245, 0.9999, 0.011, 2.2e-6, norm])
    interpreter = build_update(g, optimizer)
    assert interpreter.arena_bytes < 4 * MANY, "no tiles"
    *ours, _ = interpreter.run((w, m, v), NO_INDEX, NO_INDEX, scalars)
    first_scale, second_scale, decay, rate, epsilon, last = scalars.unbind()
    factors = UpdateFactors(first_scale, second_scale, decay, rate, epsilon, last < float("inf"))
    plain = update(w, m, v, g, factors, optimizer)
    assert torch.equal(plain[0], w) == (norm == float("inf"))
    assert bool((plain[1][: MANY // 3] == 0).all()) == (norm != float("inf"))
    return hash_all(ours), hash_all(plain)


def hash_all(tensors: list[Tensor] | tuple[Tensor, ...]) -> str:
    return sha256(b"".join(map(tensor_bytes, tensors))).hexdigest()


HASH_UPDATES = """
import sys
from protocol.compute.determinism import pin_kernels
from tests.protocol.compute.model.test_reference_step import hash_updates
for threads in (1, 2):
    pin_kernels(threads)
    print(*hash_updates(1.0), *hash_updates(float("inf")))
"""


def test_the_program_of_the_update_gives_the_same_bits_on_every_kernel() -> None:
    usual, stopped = hash_updates(1.0), hash_updates(float("inf"))
    assert len(set(usual)) == len(set(stopped)) == 1 and usual != stopped
    line = " ".join((*usual, *stopped))
    for name in list_cpu_capabilities():
        printed = run_python(HASH_UPDATES, ATEN_CPU_CAPABILITY=name, OMP_NUM_THREADS="2")
        assert printed.splitlines() == [line, line], name


# --- Tracing ------------------------------------------------------------------------------------------------
def test_make_fx_traces_the_step(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    tables = build_tables(spec.model)

    def step(w: Tensor, m: Tensor, v: Tensor, tokens: Tensor, labels: Tensor, scalars: Tensor) -> StepResult:
        return plain_step(w, m, v, tokens, labels, scalars, tables, spec.model, spec.optimizer)

    first = (state.weights, state.first_moment, state.second_moment, *batch_of(corpus, spec, 0))
    graph = make_fx(step, tracing_mode="real")(*first, compute_scalars(spec, 0, 0))
    later = step(*first, compute_scalars(spec, 0, 0))[:3]
    inputs = (*later, *batch_of(corpus, spec, 2), compute_scalars(spec, 2, 2))
    for traced, direct in zip(graph(*inputs), step(*inputs), strict=True):
        assert torch.equal(traced, direct)
    names = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    fused = {
        name
        for name in names
        if any(word in name for word in ("addcmul", "addcdiv", "lerp", "fused", "foreach"))
    }
    assert not fused


def test_require_live_parameters_passes_the_models_at_hand(spec: TrainingSpec) -> None:
    require_live_parameters(spec)
    require_live_parameters(replace(spec, model=DEMO_MODEL, sequence_tokens=128))


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_count": 1, "head_count": 1, "kv_head_count": 1, "hidden_size": 2},
        {"vocabulary_size": 2, "intermediate_size": 1},
        {"head_count": 16, "kv_head_count": 1, "layer_count": 30},
        {"head_count": 16, "kv_head_count": 16},
    ],
)
def test_require_live_parameters_passes_every_shape(changes: dict[str, Any]) -> None:
    require_live_parameters(build_tiny_training(model=replace(TINY, **changes)))


def test_require_live_parameters_names_queries_and_keys_that_see_one_token() -> None:
    """A softmax over one score is 1, whatever the score."""
    with pytest.raises(InvalidInput, match="identically zero") as refusal:
        require_live_parameters(build_tiny_training(sequence_tokens=1))
    names = str(refusal.value.actual).split("; ")
    assert len(names) == 4 and all("q_proj" in name or "k_proj" in name for name in names)
    assert "rounding noise" in refusal.value.remedy


def test_require_live_parameters_names_what_a_constant_switches_off() -> None:
    """A norm that divides by nearly nothing passes no gradient on."""
    dead = replace(TINY, norm_epsilon=nearest(1e38))
    with pytest.raises(InvalidInput, match="identically zero"):
        require_live_parameters(build_tiny_training(model=dead))


# --- Noise --------------------------------------------------------------------------------------------------
def attend(dtype: torch.dtype) -> dict[str, Tensor]:
    """Gradients of an attention with biases: the key's shifts all scores of a query alike."""
    generator = torch.Generator().manual_seed(3)
    drawn = {name: torch.randn(9, 9, generator=generator) for name in ("x", "query", "key", "target")}
    drawn |= {f"{name}_bias": torch.randn(9, generator=generator) for name in ("query", "key")}
    leaves = {name: tensor.to(dtype).requires_grad_() for name, tensor in drawn.items()}
    query = leaves["x"] @ leaves["query"] + leaves["query_bias"]
    key = leaves["x"] @ leaves["key"] + leaves["key_bias"]
    mixed = (query @ key.T / 9).softmax(-1) @ leaves["x"]
    torch.sum((mixed - leaves["target"]) ** 2).backward()  # type: ignore[no-untyped-call]
    found = {}
    for name in ("query", "query_bias", "key", "key_bias"):
        gradient = leaves[name].grad
        assert gradient is not None
        found[name] = gradient
    return found


def test_find_dead_parameters_tells_a_key_bias_from_a_query_bias() -> None:
    single, double = attend(torch.float32), attend(torch.float64)
    assert single["key_bias"].abs().max() > 0, "noise, not nothing"
    assert find_dead_parameters(single, double) == ["key_bias"]


def test_find_dead_parameters_finds_exact_zeros() -> None:
    zero = {"a": torch.zeros(3), "b": torch.ones(3)}
    assert find_dead_parameters(zero, {name: tensor.double() for name, tensor in zero.items()}) == ["a"]


def test_shrink_keeps_the_formula_and_little_else() -> None:
    large = ModelConfig(50_000, 4096, 11_008, 32, 32, 8, 4096)
    small = shrink(large)
    assert small.head_count // small.kv_head_count == 4 and small.rope_theta == large.rope_theta
    assert parameter_count(small) < 40_000 and shrink(small) == small
