"""What an attack of a solver is: a way to compute segments that is not the task's, as a node would call it.

Every such attack has the signature of `train_segment`, so that the same function makes claims at the compute
seam (`hunting/seam.py`) and plays on a real chain (`defence.py`). It starts from an honest state
and ends in a state with the right counters: the contract checks those.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tests.task_models import compute_gradient, describe_step, get_model, parameter_layout
from touchstone.node.records.compute import Train
from touchstone.protocol.compute.program.step import compute_scalars, train_segment
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec

Step = Callable[[TrainingState, TrainingSpec, GetBatch, int], TrainingState]
"""(state, spec, batches, inner step) to the state after one step."""
Bend = Callable[[Tensor, TrainingSpec], Tensor]
"""From the gradient (flat float32) to what is taken for it."""
Saving = Callable[[TrainingSpec, int], float]
"""(spec, steps of the segment) to the share of the segment's honest compute that was not done."""


def nothing(spec: TrainingSpec, steps: int) -> float:
    """All of the compute was done."""
    return 0.0


def share(value: float) -> Saving:
    """The same share of any segment."""
    return lambda spec, steps: value


def one_step(value: float = 1.0) -> Saving:
    """A share of one step of the segment."""
    return lambda spec, steps: value / steps


def all_but_one(spec: TrainingSpec, steps: int) -> float:
    """One step was done."""
    return (steps - 1) / steps


@dataclass(frozen=True)
class Attack:
    """An attack of a solver. number: in the list of attacks (`coverage.py`); train: what it claims."""

    number: str
    name: str
    train: Train
    saved: Saving = nothing


# Steps
def take_step(
    state: TrainingState,
    spec: TrainingSpec,
    batch: Batch,
    bend: Bend = lambda gradient, spec: gradient,
    scalars: Tensor | None = None,
) -> TrainingState:
    """One step in plain PyTorch, on any batch, with the optimizer of `spec`, whose program is not needed.
    scalars: others than the task's."""
    with torch.no_grad():
        _, gradient = compute_gradient(state.weights, *batch, get_model(spec))
        return apply_gradient(state, spec, bend(gradient, spec), scalars)


def apply_gradient(
    state: TrainingState, spec: TrainingSpec, gradient: Tensor, scalars: Tensor | None = None
) -> TrainingState:
    """The update of a step with this gradient."""
    if scalars is None:
        scalars = compute_scalars(spec, state.local_step, state.global_step)
    step = describe_step(spec)
    vectors = (state.weights, state.first_moment, state.second_moment)
    return count(state, *step.optimizer.update(parameter_layout(step.model), vectors, gradient, scalars))


def count(
    state: TrainingState,
    weights: Tensor | None = None,
    first_moment: Tensor | None = None,
    second_moment: Tensor | None = None,
    steps: int = 1,
) -> TrainingState:
    """Other vectors, or the same, and the counters of so many steps later."""
    return TrainingState(
        weights=state.weights if weights is None else weights,
        first_moment=state.first_moment if first_moment is None else first_moment,
        second_moment=state.second_moment if second_moment is None else second_moment,
        local_step=state.local_step + steps,
        global_step=state.global_step + steps,
    )


def take_honest_step(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int
) -> TrainingState:
    """A step as everybody takes it."""
    return train_segment(state, spec, batches, inner_step, 1)[0]


# What is no cheat
def list_honest_ends(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, TrainingState]:
    """Where the segment ends in the program's bits, and in plain PyTorch's, which most attacks are made
    of."""
    plain = state
    for step in range(inner_step, inner_step + steps):
        plain = take_step(plain, spec, batches(step))
    return train_segment(state, spec, batches, inner_step, steps)[0], plain


def is_equal(a: TrainingState, b: TrainingState) -> bool:
    """Whether two states have the same bits."""
    pairs = (
        (a.weights, b.weights),
        (a.first_moment, b.first_moment),
        (a.second_moment, b.second_moment),
    )
    return all(torch.equal(x, y) for x, y in pairs)


# From steps to segments
def every(step: Step) -> Train:
    """Each step of the segment is false."""
    return _choose(step, lambda place, steps: True)


def first(step: Step) -> Train:
    """The first step of the segment is false."""
    return _choose(step, lambda place, steps: place == 0)


def last(step: Step) -> Train:
    """The last step of the segment is false."""
    return _choose(step, lambda place, steps: place == steps - 1)


def odd(step: Step) -> Train:
    """Every second step of the segment is false, the second one first; of a single step that one."""
    return _choose(step, lambda place, steps: place % 2 == 1 or steps == 1)


def _choose(step: Step, is_false: Callable[[int, int], bool]) -> Train:
    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        for place in range(steps):
            used = step if is_false(place, steps) else take_honest_step
            state = used(state, spec, batches, inner_step + place)
        return state, [0.0] * steps

    return train


def whole(segment: Callable[[TrainingState, TrainingSpec, GetBatch, int, int], TrainingState]) -> Train:
    """A segment that is not made step by step."""

    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        return segment(state, spec, batches, inner_step, steps), [0.0] * steps

    return train


def tampered(tamper: Callable[[TrainingState, TrainingState, TrainingSpec], TrainingState]) -> Train:
    """An honest segment whose end is changed afterwards: (start, honest end, spec) to the claimed end."""

    def segment(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> TrainingState:
        end, _ = train_segment(state, spec, batches, inner_step, steps)
        return tamper(state, end, spec)

    return whole(segment)


def fed(feed: Callable[[GetBatch, int], Batch]) -> Step:
    """A step on other data than was dealt: (batches, inner step) to a batch of any size."""

    def step(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
        return take_step(state, spec, feed(batches, inner_step))

    return step


def tuned(change: Callable[[TrainingSpec], TrainingSpec]) -> Step:
    """A step with another spec, whose program is not needed."""

    def step(state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int) -> TrainingState:
        return take_step(state, change(spec), batches(inner_step))

    return step


# Places in the flat vector
def find_layer(spec: TrainingSpec, layer: int) -> list[slice]:
    """Where the matrices and gains of a layer lie."""
    prefix = f"model.layers.{layer}."
    found = [p for p in parameter_layout(get_model(spec)) if p.name.startswith(prefix)]
    return [slice(p.offset, p.offset + p.size) for p in found]


def put(vector: Tensor, where: list[slice], value: Tensor | float) -> Tensor:
    """A copy of a flat vector with the places `where` taken from `value`, a number or a vector of the same
    length."""
    changed = vector.clone()
    for place in where:
        changed[place] = value[place] if isinstance(value, Tensor) else value
    return changed


def with_weights(state: TrainingState, weights: Tensor) -> TrainingState:
    """The state with other weights."""
    return replace(state, weights=weights)
