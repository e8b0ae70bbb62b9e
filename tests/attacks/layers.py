"""Layers that do not take part: frozen, left out, or with gradients of low rank."""

import torch
from torch import Tensor

from tests.attacks.frame import Attack, every, find_layer, last, put, take_step
from tests.task_models import get_model, parameter_layout
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec

RANK_DIVISOR = 4


def get_layer_share(spec: TrainingSpec) -> float:
    """One layer's share of all matrices that a token is multiplied with."""
    used = [
        p for p in parameter_layout(get_model(spec)) if "embed_tokens" not in p.name and len(p.shape) == 2
    ]
    return sum(p.size for p in used if p.name.startswith("model.layers.0.")) / sum(p.size for p in used)


def find_last_layer(spec: TrainingSpec) -> list[slice]:
    """Where the last layer lies."""
    return find_layer(spec, get_model(spec).layer_count - 1)


def freeze(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """The last layer stays as it is, with its moments."""
    end, where = take_step(state, spec, batches(inner_step)), find_last_layer(spec)
    return TrainingState(
        put(end.weights, where, state.weights),
        put(end.first_moment, where, state.first_moment),
        put(end.second_moment, where, state.second_moment),
        end.local_step,
        end.global_step,
    )


def freeze_quietly(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """The last layer's gradients are taken for zero: everything else of the step is done to it."""
    return take_step(
        state, spec, batches(inner_step), lambda gradient, spec: put(gradient, find_last_layer(spec), 0.0)
    )


def freeze_gain(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """One small tensor has no gradient: the gain of the last norm."""
    place = next(p for p in parameter_layout(get_model(spec)) if p.name == "model.norm.weight")
    where = [slice(place.offset, place.offset + place.size)]
    return take_step(state, spec, batches(inner_step), lambda gradient, spec: put(gradient, where, 0.0))


def prune(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """The last layer is not computed: whatever passes by it on the residual stream goes on unchanged."""
    where = find_last_layer(spec)
    without = TrainingState(
        put(state.weights, where, 0.0),
        state.first_moment,
        state.second_moment,
        state.local_step,
        state.global_step,
    )
    end = take_step(without, spec, batches(inner_step))
    return TrainingState(
        put(end.weights, where, state.weights),
        end.first_moment,
        end.second_moment,
        end.local_step,
        end.global_step,
    )


def lower_rank(gradient: Tensor, spec: TrainingSpec) -> Tensor:
    """Of every matrix's gradient only the largest singular directions, a quarter of them."""
    changed = gradient.clone()
    for p in parameter_layout(get_model(spec)):
        if len(p.shape) == 2:
            place = slice(p.offset, p.offset + p.size)
            u, s, v = torch.linalg.svd(gradient[place].view(p.shape), full_matrices=False)
            rank = max(1, len(s) // RANK_DIVISOR)
            changed[place] = (u[:, :rank] * s[:rank] @ v[:rank]).reshape(-1)
    return changed


def prune_gradient(gradient: Tensor, spec: TrainingSpec) -> Tensor:
    """The smallest half of all gradients counts as zero."""
    return torch.where(gradient.abs() < gradient.abs().median(), 0.0, gradient)


def take_low_rank_step(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """A step with gradients of low rank."""
    return take_step(state, spec, batches(inner_step), lower_rank)


def take_pruned_step(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """A step with half of the gradient."""
    return take_step(state, spec, batches(inner_step), prune_gradient)


ATTACKS = (
    # A frozen layer needs no gradient of its weights: a third of its products, if nothing lies below it.
    Attack("10", "last layer frozen", every(freeze), lambda s, steps: get_layer_share(s) / 3),
    Attack("10", "last layer without gradient", every(freeze_quietly), lambda s, k: get_layer_share(s) / 3),
    Attack("10", "last norm without gradient, last step", last(freeze_gain)),
    Attack("10", "last layer left out", every(prune), lambda s, steps: get_layer_share(s)),
    Attack("10", "gradients of low rank", every(take_low_rank_step)),
    Attack("10", "half of the gradient", every(take_pruned_step)),
)
