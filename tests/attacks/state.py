"""An honest segment whose end is tampered with: moments, counters, or one coordinate."""

from dataclasses import replace

import torch

from tests.attacks.frame import Attack, every, take_step, tampered
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.schedule import compute_learning_rate
from touchstone.protocol.spec.task_spec import TrainingSpec

COORDINATE = 4_321


def scale_first(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """m a thousandth larger."""
    return replace(end, first_moment=end.first_moment * 1.001)


def scale_second(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """v a thousandth larger."""
    return replace(end, second_moment=end.second_moment * 1.001)


def forget_moments(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """Moments as if training had just begun."""
    return replace(
        end,
        first_moment=torch.zeros_like(end.first_moment),
        second_moment=torch.zeros_like(end.second_moment),
    )


def keep_moments(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """New weights, the moments of the start."""
    return replace(end, first_moment=start.first_moment, second_moment=start.second_moment)


def swap_moments(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """Neighbours in m change places: all norms and quantiles stay."""
    first = end.first_moment.clone()
    even = first.numel() // 2 * 2
    first[:even] = first[:even].view(-1, 2).flip(1).reshape(-1)
    return replace(end, first_moment=first)


def count_from_one_more(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """The bias corrections of another step than the counter says."""
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    scalars[1:] = compute_scalars(spec, state.local_step + 1, state.global_step)[1:]
    return take_step(state, spec, batches(inner_step), scalars=scalars)


def _get_coordinate(end: TrainingState) -> int:
    return min(COORDINATE, end.weights.numel() - 1)


def move_one_weight(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """One weight goes as far again as a whole step moves it: nothing that a norm would tell."""
    weights, place = end.weights.clone(), _get_coordinate(end)
    weights[place] += compute_learning_rate(spec.schedule, end.global_step - 1, end.local_step - 1)
    return replace(end, weights=weights)


def move_one_first(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """One first moment changes its sign and a little more."""
    first, place = end.first_moment.clone(), _get_coordinate(end)
    first[place] = -first[place] - end.second_moment[place].sqrt() * 0.1
    return replace(end, first_moment=first)


def move_one_second(start: TrainingState, end: TrainingState, spec: TrainingSpec) -> TrainingState:
    """One second moment, the median one, doubles: its weight will move less from now on."""
    second = end.second_moment.clone()
    place = int((second - second.median()).abs().argmin())
    second[place] *= 2
    return replace(end, second_moment=second)


ATTACKS = (
    Attack("12", "m x 1.001", tampered(scale_first)),
    Attack("12", "v x 1.001", tampered(scale_second)),
    Attack("12", "moments forgotten", tampered(forget_moments)),
    Attack("12", "moments of the start", tampered(keep_moments)),
    Attack("12", "neighbours in m swapped", tampered(swap_moments)),
    Attack("12", "bias corrections of another step", every(count_from_one_more)),
    Attack("14", "one weight moved by a step", tampered(move_one_weight)),
    Attack("14", "one first moment turned", tampered(move_one_first)),
    Attack("14", "one second moment doubled", tampered(move_one_second)),
)
