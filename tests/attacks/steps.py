"""Steps that were never taken: invented, interpolated, explained by made-up data, estimated, left out."""

import torch

from tests.attacks.frame import (
    Attack,
    all_but_one,
    apply_gradient,
    count,
    every,
    first,
    last,
    odd,
    one_step,
    share,
    take_honest_step,
    take_step,
    whole,
)
from tests.task_models import compute_logits, get_model, split_parameters
from touchstone.protocol.compute.program.step import compute_scalars, train_segment
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec

TINY_STEP = 1e-3
"""Of an honest update: small enough to be near the truth in absolute terms."""
NOISE = 1e-3


def invent(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """Noise on the state, always the same from the same state."""
    generator = torch.Generator().manual_seed(state.global_step)
    noise = torch.randn(state.weights.shape, generator=generator) * NOISE
    moments = (state.first_moment + noise, state.second_moment + noise * noise)
    return count(state, state.weights + noise, *moments)


def invent_signs(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """A move of the right size: every weight goes by the learning rate, by chance up or down, with moments
    that fit."""
    generator = torch.Generator().manual_seed(state.global_step)
    signs = torch.randint(0, 2, state.weights.shape, generator=generator).float() * 2 - 1
    return apply_gradient(state, spec, signs / state.weights.numel() ** 0.5)


def interpolate(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """One honest step, then on along the line that it began."""
    one = take_honest_step(state, spec, batches, inner_step)
    if steps == 1:
        return count(state, *_between(state, one, 0.5))
    weights, first_moment, second_moment = _between(state, one, float(steps))
    return count(state, weights, first_moment, second_moment.clamp(min=0), steps)


def interpolate_checkpoints(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """Trains a step too far, and claims a state between two checkpoints that are both real."""
    far, _ = train_segment(state, spec, batches, inner_step, steps)
    scalars = compute_scalars(spec, far.local_step - 1, far.global_step - 1)
    further = take_step(far, spec, batches(inner_step + 1), scalars=scalars)
    return count(state, *_between(state, further, steps / (steps + 1)), steps=steps)


def move_a_little(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """One honest step, a thousandth of which is claimed."""
    one = take_honest_step(state, spec, batches, inner_step)
    return count(state, *_between(state, one, TINY_STEP), steps=steps)


def _between(
    start: TrainingState, end: TrainingState, part: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    pairs = (
        (start.weights, end.weights),
        (start.first_moment, end.first_moment),
        (start.second_moment, end.second_moment),
    )
    weights, first_moment, second_moment = (torch.lerp(a, b, part) for a, b in pairs)
    return weights, first_moment, second_moment


def explain(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """An honest step on data made up so that it explains a model that hardly moves: the labels are what the
    model says already."""
    tokens = batches(inner_step).tokens_BT
    with torch.no_grad():
        params = split_parameters(state.weights, get_model(spec))
        labels = compute_logits(params, tokens, get_model(spec)).argmax(dim=-1)
    return take_step(state, spec, Batch(tokens, labels))


def coast(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """No data: the first moment stands for the gradient of this step, as large as it would be unclipped."""
    return apply_gradient(state, spec, state.first_moment)


def skip(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """Only the counters go on."""
    return count(state)


def decay_only(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
    """What a step does without any gradient: moments fade, weights go on by them and decay."""
    return apply_gradient(state, spec, torch.zeros_like(state.weights))


def reuse_gradient(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """The gradient of the first step's batch is computed once and applied in every step."""
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    kept: list[torch.Tensor] = []

    def keep(gradient: torch.Tensor, spec: TrainingSpec) -> torch.Tensor:
        kept.append(gradient)
        return gradient

    state = take_step(state, spec, batches(inner_step), keep, scalars)
    for _ in range(steps - 1):
        state = apply_gradient(state, spec, kept[0])
    return state


ATTACKS = (
    Attack("1", "invented noise", every(invent), share(1.0)),
    Attack("1", "invented moves of the right size", every(invent_signs), share(1.0)),
    Attack("2", "one step drawn out", whole(interpolate), all_but_one),
    Attack("2", "between two checkpoints", whole(interpolate_checkpoints)),
    Attack("2", "tiny updates", whole(move_a_little), all_but_one),
    Attack("3", "data made up to explain", every(explain)),
    Attack("4", "every second step estimated from momentum", odd(coast), share(0.5)),
    Attack("4", "last step estimated from momentum", last(coast), one_step()),
    Attack("5", "all steps skipped", every(skip), share(1.0)),
    Attack("5", "first step skipped", first(skip), one_step()),
    Attack("5", "last step skipped", last(skip), one_step()),
    Attack("5", "last step without a gradient", last(decay_only), one_step()),
    Attack("5", "one gradient for all steps", whole(reuse_gradient), all_but_one),
)
