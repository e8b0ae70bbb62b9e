"""The training step: one owner for solver, verifier and whistleblower alike.

A pure function of flat float32 tensors: forward, backward, clipping of the global norm, AdamW (Loshchilov and
Hutter, arXiv 1711.05101). Learning rate, bias corrections and rotary tables are inputs: nothing here depends
on a library's `pow` or `cos`. The update is made of separate IEEE-754 operations (add, subtract, multiply,
divide, select; the square root through float64, since some libraries round the float32 one wrongly), so that
given W, m, v and the gradient all machines get equal bits. `addcmul`, `lerp`, `add(alpha=...)` and fused
optimizers contract to fused multiply-adds: they must not enter. `make_fx` traces `training_step` with real
tensors.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from protocol.compute.model import compute_loss, parameter_count, parameter_layout, split_parameters
from protocol.compute.tables import RotaryTables, build_tables
from protocol.spec.containers import ModelConfig, OptimizerConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.schedule import compute_bias_corrections, compute_learning_rate

FLUSH_BELOW = 2.0**-100
"""Moments smaller than this become +0. Far below epsilon (no update changes), far above the subnormals
(2^-126), whose handling differs between machines and which are up to a hundred times slower."""


@dataclass(frozen=True)
class TrainingState:
    """Flat float32 vectors W, m, v and the counters of steps done: since m and v were zero, and in the
    task."""

    weights: Tensor
    first_moment: Tensor
    second_moment: Tensor
    local_step: int
    global_step: int


class StepResult(NamedTuple):
    """New W, m, v (flat float32) and the loss before the step (float32 scalar, nats)."""

    weights: Tensor
    first_moment: Tensor
    second_moment: Tensor
    loss: Tensor


class Batch(NamedTuple):
    """int64 [rows, tokens] each; labels are the next tokens."""

    tokens_BT: Tensor
    labels_BT: Tensor


GetBatch = Callable[[int], Batch]
"""From an inner step (0-based in the round) to its batch."""


def training_step(
    weights: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    tokens_BT: Tensor,
    labels_BT: Tensor,
    scalars: Tensor,
    tables: RotaryTables,
    model: ModelConfig,
    optimizer: OptimizerConfig,
) -> StepResult:
    """One step. Vectors are flat float32 of `parameter_count(model)`; `scalars` are float32 [3] from
    `compute_scalars`. A gradient whose norm is not finite leaves W, m and v as they are."""
    loss, gradient = compute_gradient(weights, tokens_BT, labels_BT, tables, model)
    factors = compute_factors(gradient, scalars, optimizer)
    updated = update(weights, first_moment, second_moment, gradient, factors, optimizer)
    return StepResult(*updated, loss)


def compute_scalars(spec: TrainingSpec, local_step: int, global_step: int) -> Tensor:
    """(learning rate, 1 - beta1^t, 1 - beta2^t), float32 [3], of the step taken from these counters, t =
    local_step + 1."""
    rate = compute_learning_rate(spec.schedule, global_step, local_step)
    return torch.tensor([rate, *compute_bias_corrections(spec.optimizer, local_step)], dtype=torch.float32)


def compute_gradient(
    weights: Tensor, tokens_BT: Tensor, labels_BT: Tensor, tables: RotaryTables, model: ModelConfig
) -> tuple[Tensor, Tensor]:
    """Loss (scalar) and its gradient (flat, in canonical order) at `weights`; both float32."""
    params = {name: p.detach().requires_grad_() for name, p in split_parameters(weights, model).items()}
    with torch.enable_grad():
        loss = compute_loss(params, tokens_BT, labels_BT, tables, model)
    parts = torch.autograd.grad(loss, [params[p.name] for p in parameter_layout(model)])
    return loss.detach(), torch.cat([part.reshape(-1) for part in parts])


class UpdateFactors(NamedTuple):
    """What all elements of one update share: float32 scalars, and whether the gradient's norm is finite (bool
    scalar)."""

    clip: Tensor
    decay: Tensor
    rate: Tensor
    inverse_root: Tensor
    is_finite: Tensor


def compute_factors(gradient: Tensor, scalars: Tensor, optimizer: OptimizerConfig) -> UpdateFactors:
    """Clipping, decay and bias corrections as factors: clip = min(1, clip_norm / norm), decay = 1 - lr *
    weight_decay, rate = lr / (1 - beta1^t), inverse_root = 1 / sqrt(1 - beta2^t)."""
    learning_rate, correction1, correction2 = scalars.unbind()
    norm = _exact_sqrt((gradient * gradient).sum())
    return UpdateFactors(
        clip=(optimizer.clip_norm / norm).clamp(max=1.0),
        decay=1.0 - learning_rate * optimizer.weight_decay,
        rate=learning_rate / correction1,
        inverse_root=1.0 / _exact_sqrt(correction2),
        is_finite=norm < float("inf"),
    )


def update(
    weights: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    gradient: Tensor,
    factors: UpdateFactors,
    optimizer: OptimizerConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """AdamW on any slice of the flat vectors: new W, m, v. Bit-exact everywhere, given equal inputs."""
    clipped = gradient * factors.clip
    first = first_moment * optimizer.beta1 + clipped * nearest(1 - optimizer.beta1)
    second = second_moment * optimizer.beta2 + clipped * clipped * nearest(1 - optimizer.beta2)
    first = torch.where(first.abs() < FLUSH_BELOW, 0.0, first)
    second = torch.where(second < FLUSH_BELOW, 0.0, second)
    direction = first / (_exact_sqrt(second) * factors.inverse_root + optimizer.epsilon)
    stepped = weights * factors.decay - direction * factors.rate
    kept = ((stepped, weights), (first, first_moment), (second, second_moment))
    new_weights, new_first, new_second = (torch.where(factors.is_finite, new, old) for new, old in kept)
    return new_weights, new_first, new_second


def _exact_sqrt(x: Tensor) -> Tensor:
    """Correctly rounded: float64 has more than twice the digits, so rounding twice does no harm (Figueroa,
    1995)."""
    return x.double().sqrt().float()


# --- Many steps ---------------------------------------------------------------------------------------------
def begin_round(weights: Tensor, global_step: int, carried: TrainingState | None = None) -> TrainingState:
    """The state at a round's start: the global model with the moments of this solver's last accepted claim,
    else zero."""
    if carried is not None:
        return replace(carried, weights=weights, global_step=global_step)
    return TrainingState(weights, torch.zeros_like(weights), torch.zeros_like(weights), 0, global_step)


def advance(state: TrainingState, batch: Batch, spec: TrainingSpec) -> tuple[TrainingState, float]:
    """One step of the task from `state`: the next state and the loss before the step (nats). Counters go up
    by one whether or not the gradient was finite."""
    require_state(state, spec)
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    vectors = (state.weights, state.first_moment, state.second_moment)
    with torch.no_grad():
        result = training_step(
            *vectors, *batch, scalars, build_tables(spec.model), spec.model, spec.optimizer
        )
    stepped = TrainingState(*result[:3], state.local_step + 1, state.global_step + 1)
    return stepped, float(result.loss)


def iterate_steps(
    state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
) -> Iterator[tuple[TrainingState, float]]:
    """Yields (state, loss) after each of `steps` steps; `inner_step` is the first one's number in the
    round."""
    for step in range(inner_step, inner_step + steps):
        state, loss = advance(state, get_batch(step), spec)
        yield state, loss


def train_segment(
    state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """The state after `steps` steps and each step's loss. The solver's training and the auditor's replay
    alike."""
    losses: list[float] = []
    for stepped, loss in iterate_steps(state, spec, get_batch, inner_step, steps):
        state = stepped
        losses.append(loss)
    return state, losses


def require_state(state: TrainingState, spec: TrainingSpec) -> None:
    """Raises InvalidInput unless W, m and v are flat float32 vectors of the model's size."""
    shape = (parameter_count(spec.model),)
    for name in ("weights", "first_moment", "second_moment"):
        tensor: Tensor = getattr(state, name)
        if tensor.dtype != torch.float32 or tuple(tensor.shape) != shape:
            raise InvalidInput(
                what="a state tensor does not fit the task",
                expected=f"float32 {list(shape)}",
                actual=f"{tensor.dtype} {list(tensor.shape)}",
                where=name,
                remedy="Check that state and task belong together.",
            )
