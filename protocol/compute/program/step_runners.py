"""Keeps unused interpreters, and steps on a device, for the next steps of this process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from touchstone.protocol.compute.determinism import get_device
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.devices import KINDS, DeviceSteps
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.tensor_allocator import forget_spare, return_freed
from touchstone.protocol.spec.task_spec import TrainingSpec


@dataclass(frozen=True)
class RunnerPlace:
    """The step, the numeric format and the device of an interpreter."""

    root: bytes
    numeric_format: str
    device: torch.device
    built: BuiltProgram = field(compare=False)


_Runner = TypeVar("_Runner")
_idle: dict[RunnerPlace, list[Interpreter]] = {}
"""Interpreters that no thread uses now. A node may train and replay at once, in two threads."""
_idle_on_device: dict[RunnerPlace, list[DeviceSteps]] = {}
STATES_BYTES = 36
"""Bytes for each parameter: W, m and v in float32, three times: at a segment's start, before a step and after
it."""


def forget_steps() -> None:
    """Releases the memory in which this process computes steps, because it will not need it for long."""
    _idle.clear()
    _idle_on_device.clear()
    forget_spare()
    return_freed()


def borrow_interpreter(place: RunnerPlace) -> AbstractContextManager[Interpreter]:
    """Lends an interpreter inside the `with` block: an unused one, else a new one."""
    return _borrow(place, _idle, _make_interpreter)


def borrow_device_steps(place: RunnerPlace) -> AbstractContextManager[DeviceSteps]:
    """Lends steps on a device, as `borrow_interpreter` does."""
    return _borrow(place, _idle_on_device, _make_device_steps)


def find_place(spec: TrainingSpec, device: str | None = None) -> RunnerPlace:
    """Returns the key under which interpreters of a task's steps on a device are kept; by default this
    process's device."""
    chosen = torch.device(device or get_device())
    return RunnerPlace(spec.program_root, spec.numeric_format, chosen, get_program(spec))


def _make_interpreter(place: RunnerPlace, by_tensors: bool = False) -> Interpreter:
    return Interpreter(
        place.built.program,
        place.built.constants,
        numeric_format=place.numeric_format,
        device=str(place.device),
        by_tensors=by_tensors,
    )


def _make_device_steps(place: RunnerPlace) -> DeviceSteps:
    return DeviceSteps(_make_interpreter(place, by_tensors=True), KINDS[place.device.type](place.device))


@contextmanager
def _borrow(
    place: RunnerPlace, kept: dict[RunnerPlace, list[_Runner]], make: Callable[[RunnerPlace], _Runner]
) -> Iterator[_Runner]:
    idle = kept.setdefault(place, [])
    try:
        runner = idle.pop()
    except IndexError:
        runner = make(place)
    yield runner
    idle.append(runner)  # After a failed run it is dropped.
