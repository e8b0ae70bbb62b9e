"""Refuses models with a parameter that no gradient reaches, so that only float noise moves it.

AdamW divides a gradient by its own size. Where the true gradient is zero for every batch, only rounding
errors are left, and each becomes a full step of the learning rate. Honest machines then drift apart without
limit, and a cheat can write its own numbers there and call them noise. Where even the errors vanish, the
parameter is dead weight. A key bias is of the first kind, because softmax does not see it. The queries and
keys of a model that reads one token are of the second. Parts that a family lists as idle are neither: their
gradient is a constant of the program.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from protocol.compute.model.flat_layout import ParameterPart
from protocol.compute.model.reference_model import (
    build_tables,
    get_family,
    init_parameters,
    split_parameters,
)
from protocol.compute.model.reference_step import compute_gradient
from protocol.spec.containers import ModelConfig, TrainingSpec
from protocol.spec.errors import InvalidInput

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
