"""The training step in plain PyTorch: what the program is made of, and what it is compared with.

A pure function of flat float32 tensors: forward, backward, clipping of the global norm, AdamW (Loshchilov and
Hutter, arXiv 1711.05101). Learning rate, bias corrections and rotary tables are inputs: nothing here depends
on a library's `pow` or `cos`. The update is made of separate IEEE-754 operations (add, subtract, multiply,
divide, select; the square root through float64, since some libraries round the float32 one wrongly), so that
given W, m, v and the gradient all machines get equal bits. `addcmul`, `lerp`, `add(alpha=...)` and fused
optimizers contract to fused multiply-adds: they must not enter. `make_fx` traces `plain_step` with real
tensors; nodes train by running what `task_program.py` makes of the trace.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import compute_loss, parameter_layout, split_parameters
from protocol.spec.containers import ModelConfig, OptimizerConfig
from protocol.spec.float32 import nearest

FLUSH_BELOW = 2.0**-100
"""Moments smaller than this become +0. Far below epsilon (no update changes), far above the subnormals
(2^-126), whose handling differs between machines and which are up to a hundred times slower."""


class StepResult(NamedTuple):
    """New W, m, v (flat float32) and the loss before the step (float32 scalar, nats)."""

    weights: Tensor
    first_moment: Tensor
    second_moment: Tensor
    loss: Tensor


def plain_step(
    weights: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    tokens_BT: Tensor,
    labels_BT: Tensor,
    scalars: Tensor,
    tables: Tables,
    model: ModelConfig,
    optimizer: OptimizerConfig,
) -> StepResult:
    """One step. Vectors are flat float32 of `parameter_count(model)`; `scalars` are float32 [3] from
    `compute_scalars`. A gradient whose norm is not finite leaves W, m and v as they are."""
    loss, gradient = compute_gradient(weights, tokens_BT, labels_BT, tables, model)
    factors = compute_factors(gradient, scalars, optimizer)
    updated = update(weights, first_moment, second_moment, gradient, factors, optimizer)
    return StepResult(*updated, loss)


def compute_gradient(
    weights: Tensor, tokens_BT: Tensor, labels_BT: Tensor, tables: Tables, model: ModelConfig
) -> tuple[Tensor, Tensor]:
    """Loss (scalar) and its gradient (flat, in canonical order) at `weights`; both float32. Of what the
    family cuts off from the loss (`Family.list_parts`) the gradient is zeros in the concatenation."""
    params = {name: p.detach().requires_grad_() for name, p in split_parameters(weights, model).items()}
    with torch.enable_grad():
        loss = compute_loss(params, tokens_BT, labels_BT, tables, model)
    parts = torch.autograd.grad(loss, [params[p.name] for p in parameter_layout(model)])
    return loss.detach(), torch.cat([part.reshape(-1) for part in parts])


class UpdateFactors(NamedTuple):
    """What all elements of one update share: float32 scalars, and whether the gradient's norm is finite (bool
    scalar)."""

    first_scale: Tensor
    second_scale: Tensor
    decay: Tensor
    rate: Tensor
    epsilon: Tensor
    is_finite: Tensor


def compute_factors(gradient: Tensor, scalars: Tensor, optimizer: OptimizerConfig) -> UpdateFactors:
    """Everything that is the same for all elements, so that an element costs fifteen operations: with clip =
    min(1, clip_norm / norm), the gradient's shares in the moments are clip (1 - beta1) and clip^2 (1 -
    beta2); decay = 1 - lr weight_decay; the bias corrections stand in the rate, lr sqrt(1 - beta2^t) / (1 -
    beta1^t), and in epsilon sqrt(1 - beta2^t) (Kingma and Ba, arXiv 1412.6980, end of section 2)."""
    learning_rate, correction1, correction2 = scalars.unbind()
    norm = _exact_sqrt((gradient * gradient).sum())
    clip = (optimizer.clip_norm / norm).clamp(max=1.0)
    root = _exact_sqrt(correction2)
    return UpdateFactors(
        first_scale=clip * nearest(1 - optimizer.beta1),
        second_scale=clip * clip * nearest(1 - optimizer.beta2),
        decay=1.0 - learning_rate * optimizer.weight_decay,
        rate=learning_rate / correction1 * root,
        epsilon=root * optimizer.epsilon,
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
    first = first_moment * optimizer.beta1 + gradient * factors.first_scale
    second = second_moment * optimizer.beta2 + gradient * gradient * factors.second_scale
    first = torch.where(first.abs() < FLUSH_BELOW, 0.0, first)
    second = torch.where(second.abs() < FLUSH_BELOW, 0.0, second)
    stepped = move_weights(weights, first, second, factors)
    kept = ((stepped, weights), (first, first_moment), (second, second_moment))
    new_weights, new_first, new_second = (torch.where(factors.is_finite, new, old) for new, old in kept)
    return new_weights, new_first, new_second


def move_weights(weights: Tensor, first: Tensor, second: Tensor, factors: UpdateFactors) -> Tensor:
    """New W from W and the new m and v: all that a step does with weights. Bit-exact everywhere."""
    direction = first / (_exact_sqrt(second) + factors.epsilon)
    return weights * factors.decay - direction * factors.rate


def _exact_sqrt(x: Tensor) -> Tensor:
    """Correctly rounded: float64 has more than twice the digits, so rounding twice does no harm (Figueroa,
    1995)."""
    return x.double().sqrt().float()
