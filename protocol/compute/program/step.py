"""Computes training steps, for solver, verifier and whistleblower alike.

A step runs the task's program (`known_steps.py`) on a state (`training_state.py`). This module makes a step's
inputs from its number, and runs the loop, all on the device of this process.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from touchstone.protocol.compute.program.devices import KINDS
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step_runners import (
    RunnerPlace,
    borrow_device_steps,
    borrow_interpreter,
    find_place,
)
from touchstone.protocol.compute.program.tensor_allocator import allocate_zeros
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, PiecewiseState, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.schedule import compute_bias_corrections, compute_learning_rate
from touchstone.protocol.spec.task_spec import TrainingSpec


def compute_scalars(spec: TrainingSpec, local_step: int, global_step: int) -> Tensor:
    """Returns (learning rate, 1 - beta1^t, 1 - beta2^t), float32 [3], for the step from these counters, t =
    local_step + 1."""
    rate = compute_learning_rate(spec.schedule, global_step, local_step)
    return torch.tensor(
        [rate, *compute_bias_corrections(spec.beta1, spec.beta2, local_step)], dtype=torch.float32
    )


def begin_round(weights: Tensor, global_step: int, carried: TrainingState | None = None) -> TrainingState:
    """Returns the state at a round's start: the global model, and the moments of this solver's last accepted
    claim, zero if there is none."""
    if carried is not None:
        return replace(carried, weights=weights, global_step=global_step)
    first, second = (allocate_zeros(weights.numel()) for _ in range(2))
    return TrainingState(weights, first, second, 0, global_step)


def advance(
    state: TrainingState,
    batch: Batch,
    spec: TrainingSpec,
    device: str | None = None,
    overwrites: bool = False,
) -> tuple[TrainingState, float]:
    """Computes one step of the task from `state`. Returns the next state, on the device, and the loss before
    the step (nats). Counters increase by one even if the gradient was not finite. `device` is by default this
    process's. `overwrites` says that nobody reads `state` any more, so the next one may use its memory."""
    require_state(state, spec)
    place = find_place(spec, device)
    if place.device.type in KINDS:
        end, losses = _train_on_device(state, spec, place, [batch])
        return end, losses[0]
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    with borrow_interpreter(place) as interpreter:
        result = interpreter.run(state.vectors, *batch, scalars, overwrites=overwrites)
    stepped = TrainingState(*result[:3], state.local_step + 1, state.global_step + 1)
    return stepped, float(result.loss)


def train_segment(
    state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """Returns the state after `steps` steps, on the device of this process, and each step's loss. Solvers
    train and auditors replay with it. Each state on the way overwrites the one before."""
    place, numbers = find_place(spec), range(inner_step, inner_step + steps)
    if place.device.type in KINDS:
        require_state(state, spec)
        return _train_on_device(state, spec, place, map(get_batch, numbers))
    losses: list[float] = []
    given = state
    for step in numbers:
        state, loss = advance(state, get_batch(step), spec, overwrites=state is not given)
        losses.append(loss)
    return state, losses


def replay_segment(
    state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """Trains a segment as `train_segment` does, and returns the state in main memory."""
    end, losses = train_segment(state, spec, get_batch, inner_step, steps)
    return end.bring_home(), losses


def _train_on_device(
    state: TrainingState, spec: TrainingSpec, place: RunnerPlace, batches: Iterable[Batch]
) -> tuple[TrainingState, list[float]]:
    """Computes a step for each batch, and yields its state. Raises EnvironmentFault if the device has too
    little memory."""
    done = 0
    try:
        with borrow_device_steps(place) as runner:
            runner.begin(state.vectors)
            for done, batch in enumerate(batches, start=1):
                scalars = compute_scalars(spec, state.local_step + done - 1, state.global_step + done - 1)
                runner.step(*batch, scalars)
            vectors, losses = runner.end()
    except torch.OutOfMemoryError as error:
        raise EnvironmentFault(
            what="a training step does not fit into the device's memory",
            expected="room for the step's tensors, and for fifteen vectors of the model's size",
            actual=str(error).partition(". ")[0],
            where=str(place.device),
            remedy="End what else uses the device; or set device to another one in config.toml.",
        ) from error
    return TrainingState(*vectors, state.local_step + done, state.global_step + done), losses


def require_state(state: PiecewiseState, spec: TrainingSpec) -> None:
    """Raises InvalidInput unless W, m and v are flat float32 vectors of the model's size. Reads only the last
    element of each."""
    count = get_step(spec).parameters
    # A vector of `count` elements has this one, and none after it.
    ends = state.cut(count - 1, count + 1).vectors
    for name, end in zip(("weights", "first_moment", "second_moment"), ends, strict=True):
        if end.dtype != torch.float32 or tuple(end.shape) != (1,):
            raise InvalidInput(
                what="a state tensor does not fit the task",
                expected=f"{count} float32, so one from number {count - 1} on",
                actual=f"{end.dtype} {list(end.shape)} from there on",
                where=name,
                remedy="Check that state and task belong together.",
            )
