"""Other hyperparameters than the task's: learning rate, decay, betas, epsilon, clip, schedule.

Clipping that is left out while the norm is below the limit changes no bit, and so is no cheat: whoever judges
counts only claims that differ (`lab/benchmarks/hunting/seam.py`).
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from tests.attacks.frame import Attack, Step, every, last, take_step, tuned
from tests.task_models import describe_step, respecify
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.optimizers import AdamW

AHEAD = 1
"""Steps by which the schedule is ahead."""


def scale(name: str, factor: float) -> Step:
    """A step with one number of the optimizer multiplied."""

    def change(spec: TrainingSpec) -> TrainingSpec:
        optimizer = describe_step(spec).optimizer
        assert isinstance(optimizer, AdamW)
        value = nearest(getattr(optimizer, name) * factor)
        return respecify(spec, optimizer=replace(optimizer, **{name: value}))

    return tuned(change)


def rescale(change: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    """A step with other scalars (learning rate, both bias corrections)."""

    def step(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
        scalars = change(compute_scalars(spec, state.local_step, state.global_step))
        return take_step(state, spec, batches(inner_step), scalars=scalars)

    return step


def take_rate_of(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """The learning rate of the next step: the same rate once all warm-ups are over."""
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    ahead = min(state.global_step + AHEAD, spec.schedule.total_steps - 1)
    scalars[0] = compute_scalars(spec, state.local_step + AHEAD, ahead)[0]
    return take_step(state, spec, batches(inner_step), scalars=scalars)


def forget_warm_up(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """The peak rate from the first step on."""
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    scalars[0] = spec.schedule.peak_learning_rate
    return take_step(state, spec, batches(inner_step), scalars=scalars)


def forget_bias_correction(scalars: torch.Tensor) -> torch.Tensor:
    """As if both corrections were 1."""
    return torch.stack((scalars[0], torch.tensor(1.0), torch.tensor(1.0)))


def multiply_rate(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Another learning rate."""
    return lambda scalars: scalars * torch.tensor([factor, 1.0, 1.0])


ATTACKS = (
    Attack("11", "learning rate x 0.99", every(rescale(multiply_rate(0.99)))),
    Attack("11", "learning rate x 1.01", every(rescale(multiply_rate(1.01)))),
    Attack("11", "learning rate x 0.99, last step", last(rescale(multiply_rate(0.99)))),
    Attack("11", "learning rate x 0.999, last step", last(rescale(multiply_rate(0.999)))),
    Attack("11", "no weight decay", every(scale("weight_decay", 0.0))),
    Attack("11", "weight decay x 1.1", every(scale("weight_decay", 1.1))),
    Attack("11", "beta1 x 0.99", every(scale("beta1", 0.99))),
    Attack("11", "beta2 x 0.99", every(scale("beta2", 0.99))),
    Attack("11", "epsilon / 1000", every(scale("epsilon", 1e-3))),
    Attack("11", "epsilon x 10", every(scale("epsilon", 10.0))),
    Attack("11", "no clipping", every(scale("clip_norm", 1e6))),
    Attack("11", "clip x 0.5", every(scale("clip_norm", 0.5))),
    Attack("11", "schedule one step ahead", every(take_rate_of)),
    Attack("11", "no warm-up", every(forget_warm_up)),
    Attack("11", "no bias correction", every(rescale(forget_bias_correction))),
)
