"""The training step in plain PyTorch, which programs are made of; parameters that no gradient reaches.

A pure function of flat float32 tensors: forward, backward, clipping of the global norm, AdamW (Loshchilov and
Hutter, arXiv 1711.05101). Learning rate, bias corrections and rotary tables are inputs: nothing here depends
on a library's `pow` or `cos`. The update is made of separate IEEE-754 operations (add, subtract, multiply,
divide, select; the square root through float64, since some libraries round the float32 one wrongly), so that
given W, m, v and the gradient all machines get equal bits. `addcmul`, `lerp`, `add(alpha=...)` and fused
optimizers contract to fused multiply-adds: they must not enter. `touchstone.step` records
`plain_step`; nodes train by running what `task_program.py` makes of the recording.

A model with a parameter that no gradient reaches is refused: only float noise would move it. AdamW divides a
gradient by its own size. Where the true gradient is zero for every batch, only rounding errors are left, and
each becomes a full step of the learning rate. Honest machines then drift apart without limit, and a cheat can
write its own numbers there and call them noise. Where even the errors vanish, the parameter is dead weight. A
key bias is of the first kind, because softmax does not see it. The queries and keys of a model that reads one
token are of the second. Parts that a family lists as idle are neither: their gradient is a constant of the
program.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from protocol.compute.model.family import ParameterPart
from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import (
    build_tables,
    compute_loss,
    get_family,
    init_parameters,
    parameter_layout,
    split_parameters,
)
from protocol.spec.containers import ModelConfig, OptimizerConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
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


# --- Parameters that no gradient reaches --------------------------------------------------------------------
ROWS = 2
MOST_TOKENS = 16
MOST_VOCABULARY = 32
MOST_LAYERS = 2
MOST_HEAD_SIZE = 8
MOST_HIDDEN = 256
"""Of many heads, which are smaller then; of 128 and more heads twice as much."""
MOST_INTERMEDIATE = 16
NOISE_SHARE = 0.25
"""Of a gradient's norm: a float32 gradient of anything real is off by a millionth, one of nothing by all of
itself."""


def require_live_parameters(spec: TrainingSpec) -> None:
    """Raises InvalidInput that names the parameters whose gradient is zero whatever the data.

    Looks at a small model of the same family with the same heads, constants and tokens in sight: whether a
    gradient vanishes is a matter of the formula, not of width or depth. Some milliseconds."""
    model = shrink(spec.model)
    tokens = min(spec.sequence_tokens, model.context_tokens)
    found = find_dead_parameters(*_compute_both(model, spec.initial_seed, tokens))
    if found:
        raise InvalidInput(
            what="the model has parameters whose gradient is identically zero",
            expected="a gradient that data can move, for every parameter",
            actual="; ".join(found),
            where=f"sequences of {spec.sequence_tokens} tokens",
            remedy="Take them out of the model, or change what makes them idle: AdamW turns the rounding "
            "noise of such a gradient into full steps, so honest machines drift apart in them and a cheat "
            "may write there what it likes.",
        )


def shrink(model: ModelConfig) -> ModelConfig:
    """A small model of the same formula: same grouping of heads, same constants."""
    groups = model.head_count // model.kv_head_count
    kv_heads = min(model.kv_head_count, 2)
    heads = groups * kv_heads
    most = max(2, min(MOST_HEAD_SIZE, MOST_HIDDEN // heads // 2 * 2))
    size = min(model.head_elements, most)
    return replace(
        model,
        vocabulary_size=min(model.vocabulary_size, MOST_VOCABULARY),
        hidden_size=heads * size,
        head_size=size if model.head_size else 0,
        intermediate_size=min(model.intermediate_size, MOST_INTERMEDIATE),
        layer_count=min(model.layer_count, MOST_LAYERS),
        head_count=heads,
        kv_head_count=kv_heads,
        context_tokens=min(model.context_tokens, MOST_TOKENS),
    )


def _compute_both(
    model: ModelConfig, seed: int, tokens: int
) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Gradients by parameter on one batch: in float32 and in float64."""
    weights, tables = init_parameters(model, seed), build_tables(model, tokens)
    # Labels that are no function of their tokens, so that nothing cancels by symmetry.
    count = ROWS * (tokens + 1)
    rows = (torch.arange(count) ** 2 + torch.arange(count) // 3) % model.vocabulary_size
    rows = rows.view(ROWS, tokens + 1)
    single, double = (
        compute_gradient(vector, rows[:, :-1], rows[:, 1:], tables, model)[1]
        for vector in (weights, weights.double())
    )
    found, exact = (split_parts(split_parameters(one, model), model, tokens) for one in (single, double))
    return found, exact


def find_dead_parameters(single: Mapping[str, Tensor], double: Mapping[str, Tensor]) -> list[str]:
    """Names of parameters whose float32 gradient is zero, or has nothing to do with the float64 one: all of
    it is rounding."""
    return [name for name in single if not _is_live(single[name], double[name])]


def split_parts(gradients: Mapping[str, Tensor], model: ModelConfig, tokens: int) -> dict[str, Tensor]:
    """The same, with each part of a parameter under a name of its own, and without those that are idle by
    the program: of them every gradient is the constant 0."""
    parts: dict[str, list[ParameterPart]] = {}
    for part in get_family(model).list_parts(model, tokens):
        parts.setdefault(part.name, []).append(part)
    found: dict[str, Tensor] = {}
    for name, gradient in gradients.items():
        own = parts.get(name, [])
        for number, part in enumerate(own, 1):
            if not part.is_idle:
                found[f"{name} (part {number} of {len(own)})"] = part.cut(gradient)
        if not own:
            found[name] = gradient
    return found


def _is_live(single: Tensor, double: Tensor) -> bool:
    size = float(double.norm())
    return size > 0 and float((single.double() - double).norm()) <= NOISE_SHARE * size
