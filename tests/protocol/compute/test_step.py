import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from protocol.compute.data import Corpus, get_batch
from protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from protocol.compute.digest import state_header, tensor_bytes
from protocol.compute.step import (
    FLUSH_BELOW,
    Batch,
    StepResult,
    TrainingState,
    advance,
    begin_round,
    compute_factors,
    compute_gradient,
    compute_scalars,
    iterate_steps,
    train_segment,
    training_step,
    update,
)
from protocol.compute.tables import RotaryTables, build_tables
from protocol.spec import float32
from protocol.spec.containers import OptimizerConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import float_to_bits, nearest, unpack_bits

BEACON = sha256(b"step").digest()


def batch_of(corpus: Corpus, spec: TrainingSpec, step: int) -> Batch:
    return get_batch(corpus, spec, BEACON, 0, step)


def train(state: TrainingState, corpus: Corpus, spec: TrainingSpec, steps: int) -> TrainingState:
    return train_segment(state, spec, lambda i: batch_of(corpus, spec, i), 0, steps)[0]


def test_loss_falls(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    _, losses = train_segment(state, spec, lambda i: batch_of(corpus, spec, i), 0, 60)
    assert losses[0] == pytest.approx(4.16, abs=0.1) and losses[-1] < losses[0] - 0.5


def test_gradient_equals_autograd_on_the_flat_vector_in_float64(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    batch, tables = batch_of(corpus, spec, 0), build_tables(spec.model)
    _, gradient = compute_gradient(state.weights, *batch, tables, spec.model)
    exact = RotaryTables(tables.cos_TN.double(), tables.sin_TN.double())
    _, reference = compute_gradient(state.weights.double(), *batch, exact, spec.model)
    assert float((gradient - reference).norm() / reference.norm()) < 1e-5


def test_gradient_is_the_slope_of_the_loss(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    batch, tables = batch_of(corpus, spec, 0), build_tables(spec.model)
    exact = RotaryTables(tables.cos_TN.double(), tables.sin_TN.double())
    weights = state.weights.double()
    direction = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, gradient = compute_gradient(weights, *batch, exact, spec.model)
    up, down = (
        compute_gradient(weights + h * direction, *batch, exact, spec.model)[0] for h in (1e-6, -1e-6)
    )
    assert float(up - down) / 2e-6 == pytest.approx(float(gradient @ direction), rel=1e-5)


def test_training_follows_torch_adamw(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    weights = torch.nn.Parameter(state.weights.clone())
    options = spec.optimizer
    optimizer = torch.optim.AdamW(
        [weights],
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        weight_decay=options.weight_decay,
    )
    for step in range(5):
        optimizer.param_groups[0]["lr"] = float(compute_scalars(spec, step, step)[0])
        _, weights.grad = compute_gradient(
            weights.detach(), *batch_of(corpus, spec, step), build_tables(spec.model), spec.model
        )
        torch.nn.utils.clip_grad_norm_([weights], options.clip_norm)
        optimizer.step()
    ours = train(state, corpus, spec, 5)
    moved = (weights.detach() - state.weights).norm()
    assert float((ours.weights - weights.detach()).norm() / moved) < 1e-4


def test_segments_of_a_round_join(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    whole = train(state, corpus, spec, 6)
    half = train(state, corpus, spec, 3)
    rest, _ = train_segment(half, spec, lambda i: batch_of(corpus, spec, i), 3, 3)
    assert state_header(rest) == state_header(whole) and whole.local_step == whole.global_step == 6


def test_iterate_steps_yields_every_state(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    steps = list(iterate_steps(state, spec, lambda i: batch_of(corpus, spec, i), 0, 3))
    assert [s.local_step for s, _ in steps] == [1, 2, 3]
    assert state_header(steps[1][0]) == state_header(train(state, corpus, spec, 2))


def test_inputs_are_not_written_to(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    before = state_header(state)
    train(state, corpus, spec, 2)
    assert state_header(state) == before


def test_begin_round_carries_or_resets(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    last = train(state, corpus, spec, 3)
    carried = begin_round(state.weights, 20, last)
    assert carried.first_moment is last.first_moment and (carried.local_step, carried.global_step) == (3, 20)
    fresh = begin_round(state.weights, 20)
    assert not fresh.first_moment.any() and (fresh.local_step, fresh.global_step) == (0, 20)


# --- The update, exactly ------------------------------------------------------------------------------------
def grid(count: int, seed: int, scale: float) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * scale


def reference_update(
    element: tuple[int, ...], factors: dict[str, int], o: OptimizerConfig
) -> tuple[int, ...]:
    """AdamW on bit patterns, each operation rounded once (`spec/float32.py`)."""
    w, m, v, g = element
    mul, add, bits = float32.multiply, float32.add, float_to_bits
    clipped = mul(g, factors["clip"])
    first = add(mul(m, bits(o.beta1)), mul(clipped, bits(nearest(1 - o.beta1))))
    second = add(mul(v, bits(o.beta2)), mul(mul(clipped, clipped), bits(nearest(1 - o.beta2))))
    first, second = (0 if abs(float32.bits_to_float(x)) < FLUSH_BELOW else x for x in (first, second))
    root = float_to_bits(nearest(float32.bits_to_float(second) ** 0.5))
    scale = add(mul(root, factors["inverse_root"]), bits(o.epsilon))
    direction = float32.divide(first, scale)
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
    _, first, second = update(
        zero, m, m.abs(), zero, factors._replace(clip=torch.tensor(1.0)), OptimizerConfig()
    )
    assert first[:2].view(torch.int32).tolist() == [0, 0] and bool((first[2:] != 0).all())
    assert second[:2].tolist() == [0, 0] and bool((second[2:] > 0).all())


@pytest.mark.parametrize("norm, expected", [(0.5, 1.0), (4.0, 0.25)])
def test_clip_scales_the_norm_down_only(norm: float, expected: float) -> None:
    gradient = torch.zeros(9)
    gradient[4] = norm
    factors = compute_factors(gradient, torch.tensor([1e-3, 0.1, 0.05]), OptimizerConfig())
    assert float(factors.clip) == expected


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


def test_a_misshapen_state_is_refused(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    for bad in (state.weights[:-1], state.weights.double(), state.weights.view(1, -1)):
        with pytest.raises(InvalidInput, match="does not fit the task"):
            advance(replace(state, second_moment=bad), batch_of(corpus, spec, 0), spec)


# --- Tracing and repeating ----------------------------------------------------------------------------------
def test_make_fx_traces_the_step(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    tables = build_tables(spec.model)

    def step(w: Tensor, m: Tensor, v: Tensor, tokens: Tensor, labels: Tensor, scalars: Tensor) -> StepResult:
        return training_step(w, m, v, tokens, labels, scalars, tables, spec.model, spec.optimizer)

    first = (state.weights, state.first_moment, state.second_moment, *batch_of(corpus, spec, 0))
    graph = make_fx(step, tracing_mode="real")(*first, compute_scalars(spec, 0, 0))
    later = train(state, corpus, spec, 2)
    inputs = (
        later.weights, later.first_moment, later.second_moment,
        *batch_of(corpus, spec, 2), compute_scalars(spec, 2, 2),
    )  # fmt: skip
    for traced, direct in zip(graph(*inputs), step(*inputs), strict=True):
        assert torch.equal(traced, direct)
    names = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    fused = {
        name
        for name in names
        if any(word in name for word in ("addcmul", "addcdiv", "lerp", "fused", "foreach"))
    }
    assert not fused


TRAIN_PROGRAM = """
import sys
from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import state_header
from protocol.compute.model import init_parameters
from protocol.compute.step import begin_round, train_segment
from protocol.compute.data import get_batch, open_corpus
from tests.protocol.compute.conftest import TOKENS, build_tiny_training
pin_kernels(int(sys.argv[1]))
spec = build_tiny_training()
corpus = open_corpus(TOKENS, spec)
state = begin_round(init_parameters(spec.model, 5), 0)
print(state_header(train_segment(state, spec, lambda i: get_batch(corpus, spec, bytes(32), 0, i), 0, 4)[0]))
"""
UPDATE_PROGRAM = """
import sys
from hashlib import sha256
import torch
from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import tensor_bytes
from protocol.compute.step import UpdateFactors, update
from protocol.spec.containers import OptimizerConfig
pin_kernels(int(sys.argv[1]))
def grid(seed, scale):
    return ((torch.arange(300_000) * (2 * seed + 40503) % 65521).float() - 32760.5) * scale
factors = UpdateFactors(*(torch.tensor(x) for x in (0.7, 0.9999, 0.011, 4.47)), torch.tensor(True))
vectors = grid(1, 1e-6), grid(2, 1e-9), grid(3, 1e-8).square(), grid(4, 1e-8)
result = update(*vectors, factors, OptimizerConfig())
print(sha256(b"".join(map(tensor_bytes, result))).hexdigest())
"""


def run_program(program: str, threads: int, capability: str) -> str:
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", program, str(threads)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("threads", [1, 2])
def test_training_repeats_its_bits_in_another_process(
    threads: int, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    pin_kernels(threads)
    here, _ = train_segment(state, spec, lambda i: get_batch(corpus, spec, bytes(32), 0, i), 0, 4)
    best = list_cpu_capabilities()[0]
    assert run_program(TRAIN_PROGRAM, threads, best).strip() == str(state_header(here))


def test_adamw_gives_the_same_bits_on_every_kernel() -> None:
    kernels = [(threads, name) for threads in (1, 2) for name in list_cpu_capabilities()]
    assert len({run_program(UPDATE_PROGRAM, *kernel) for kernel in kernels}) == 1
