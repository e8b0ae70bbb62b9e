"""Derivatives of a program's trace, against autograd through the plain step and against differences."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from lab.benchmarks.bending.adjoint import Adjoints, Tape
from protocol.compute.determinism import pin_kernels
from protocol.compute.model.reference_model import (
    Tables,
    build_tables,
    compute_loss,
    init_parameters,
    parameter_layout,
)
from protocol.compute.model.reference_step import compute_factors, update
from protocol.compute.program.task_program import ProgramConfig, build_program
from protocol.spec.containers import ModelConfig, OptimizerConfig
from protocol.spec.program import INDEX_ROLES, Operation, Role

OPTIMIZER = OptimizerConfig(clip_norm=0.5)
SHORT = ProgramConfig(ModelConfig(256, 16, 44, 1, 2, 1, 8), OPTIMIZER, 2, 8, 128)
LONG = ProgramConfig(ModelConfig(256, 8, 20, 1, 2, 1, 128), OPTIMIZER, 3, 128, 128)
"""With sums of more terms than a chunk has."""
FLOATS = frozenset(Role) - INDEX_ROLES
VECTORS = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT)
Inputs = tuple[Tensor, ...]


@pytest.fixture(autouse=True, scope="module")
def pinned() -> None:
    pin_kernels(1)


def draw_inputs(config: ProgramConfig) -> Inputs:
    """W, m, v, tokens, labels, scalars; float64."""
    torch.manual_seed(0)
    weights = init_parameters(config.model, 0).double()
    moments = torch.randn_like(weights) * 1e-2, torch.rand_like(weights) * 1e-4
    shape = (config.sequences, config.tokens)
    indices = (torch.randint(0, config.model.vocabulary_size, shape) for _ in range(2))
    return (weights, *moments, *indices, torch.tensor([0.1, 0.2, 0.1], dtype=torch.float64))


def make_tape(config: ProgramConfig) -> tuple[Tape, Inputs]:
    """A wide one, loaded and run."""
    tape, inputs = Tape(build_program(config), torch.float64), draw_inputs(config)
    tape.load(inputs[:3], *inputs[3:])
    tape.run()
    return tape, inputs


def draw_seeds(tape: Tape, seed: int = 0) -> dict[int, Tensor]:
    """A functional of new W, m, v and the loss."""
    generator = torch.Generator().manual_seed(seed)
    names, seeds = tape.program.outputs, {}
    for buffer in (names.weights, names.first_moment, names.second_moment, names.loss):
        size = tape.buffers[buffer].numel()
        seeds[buffer] = torch.randn(size, generator=generator, dtype=torch.float64)
    return seeds


def evaluate(tape: Tape, seeds: dict[int, Tensor]) -> float:
    return sum(float(tape.buffers[buffer] @ seed) for buffer, seed in seeds.items())


def differentiate_plainly(
    inputs: Inputs, seeds: Sequence[Tensor], config: ProgramConfig
) -> tuple[Tensor, ...]:
    """By W, m and v: autograd twice through the float64 step."""
    tables = build_tables(config.model)
    wide = Tables(tables.cos_TN.double(), tables.sin_TN.double(), tables.mask_TS.double())
    weights, first, second = (x.clone().requires_grad_() for x in inputs[:3])
    tokens, labels, scalars = inputs[3:]
    params = {
        p.name: weights[p.offset : p.offset + p.size].view(p.shape) for p in parameter_layout(config.model)
    }
    loss = compute_loss(params, tokens, labels, wide, config.model)
    (gradient,) = torch.autograd.grad(loss, weights, create_graph=True)
    factors = compute_factors(gradient, scalars, config.optimizer)
    results = (*update(weights, first, second, gradient, factors, config.optimizer), loss.view(1))
    total = sum(((x * seed).sum() for x, seed in zip(results, seeds, strict=True)), torch.zeros(()))
    return torch.autograd.grad(total, (weights, first, second))


@pytest.mark.parametrize("config", [SHORT, LONG], ids=["short", "long"])
def test_derivatives_by_the_inputs_are_those_of_autograd(config: ProgramConfig) -> None:
    """The plain step takes its roots in float32."""
    tape, inputs = make_tape(config)
    seeds = draw_seeds(tape)
    adjoints = Adjoints(tape, FLOATS)
    adjoints.compute(seeds)
    expected = differentiate_plainly(inputs, list(seeds.values()), config)
    for role, wanted in zip(VECTORS, expected, strict=True):
        number = next(n for n, buffer in enumerate(tape.program.buffers) if buffer.role is role)
        assert float((adjoints.values[number] - wanted).norm() / wanted.norm()) < 1e-6, role


def test_derivatives_by_every_node_are_differences_of_the_steps_behind_it() -> None:
    tape, _ = make_tape(SHORT)
    seeds = draw_seeds(tape)
    adjoints = Adjoints(tape, FLOATS)
    adjoints.compute(seeds)
    generator = torch.Generator().manual_seed(1)
    for number, node in enumerate(tape.program.nodes):
        output = node.output
        values, slopes = (
            flat[output.buffer].as_strided(node.output_sizes, output.strides, output.offset)
            for flat in (tape.buffers, adjoints.values)
        )
        kept = values.clone()
        change = 1e-6 * torch.randn(kept.shape, generator=generator, dtype=torch.float64) * kept.abs()
        results = []
        for side in (1, -1):
            values.copy_(kept + side * change)
            tape.run(number + 1)
            results.append(evaluate(tape, seeds))
        values.copy_(kept)
        tape.run(number + 1)
        expected, scale = float((slopes * change).sum()), float((slopes * change).norm())
        noise = 1e-12 * abs(results[0])
        assert abs((results[0] - results[1]) / 2 - expected) <= 1e-3 * scale + noise, (number, node)


def test_derivatives_by_constants_and_scalars_are_differences() -> None:
    tape, _ = make_tape(SHORT)
    seeds = draw_seeds(tape)
    adjoints = Adjoints(tape, FLOATS)
    adjoints.compute(seeds)
    for number, buffer in enumerate(tape.program.buffers):
        if buffer.role not in (Role.CONSTANT, Role.SCALARS):
            continue
        kept = tape.buffers[number].clone()
        change = torch.where(kept.isfinite() & (kept.abs() > 1e-20), 1e-6 * kept, 0.0)
        results = []
        for side in (1, -1):
            tape.buffers[number].copy_(kept + side * change)
            tape.run()
            results.append(evaluate(tape, seeds))
        tape.buffers[number].copy_(kept)
        expected = adjoints.values[number] * change
        difference = (results[0] - results[1]) / 2 - float(expected.sum())
        assert abs(difference) <= 1e-4 * float(expected.norm()) + 1e-12 * abs(results[0])


def test_derivatives_are_linear_in_the_functional() -> None:
    tape, _ = make_tape(LONG)
    adjoints = Adjoints(tape, FLOATS)
    seeds = draw_seeds(tape, 1), draw_seeds(tape, 2)
    mixed = {b: 3 * x - 2 * seeds[1][b] for b, x in seeds[0].items()}
    found = []
    for some in (*seeds, mixed):
        adjoints.compute(some)
        found.append({b: values.clone() for b, values in adjoints.values.items()})
    for buffer, values in found[2].items():
        expected = 3 * found[0][buffer] - 2 * found[1][buffer]
        scale = float(expected.abs().max())
        assert torch.allclose(values, expected, rtol=1e-9, atol=1e-9 * scale + 1e-15)


def test_the_tape_has_every_operation() -> None:
    assert {node.operation for node in make_tape(SHORT)[0].program.nodes} == set(Operation)
