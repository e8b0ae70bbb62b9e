"""Phases of training in which machines drift apart: high learning rates, and data that hardly change."""

from dataclasses import dataclass, replace

import torch

from protocol.compute.program.step import Batch, GetBatch
from protocol.spec.containers import ScheduleConfig
from protocol.spec.float32 import nearest

CONSTANT_TOKEN = 32


@dataclass(frozen=True)
class Phase:
    """What is changed of a run. rate: times the schedule's learning rates; data: a name of `bend_batches`."""

    rate: int = 1
    data: str = "drawn"


USUAL = "usual"
PHASES = {
    USUAL: Phase(),
    "rate x 5": Phase(rate=5),
    "rate x 10": Phase(rate=10),
    "one batch": Phase(data="first"),
    "constant": Phase(data="constant"),
}


def raise_rates(schedule: ScheduleConfig, phase: Phase) -> ScheduleConfig:
    """The schedule with all its learning rates times the phase's factor."""
    return replace(schedule, peak_learning_rate=nearest(phase.rate * schedule.peak_learning_rate))


def bend_batches(get_batch: GetBatch, phase: Phase) -> GetBatch:
    """drawn: the batches as they are; first: each step of a round gets the batch of its first step; constant:
    all tokens are equal."""

    def get_constant(step: int) -> Batch:
        return Batch(*(torch.full_like(part, CONSTANT_TOKEN) for part in get_batch(step)))

    ways = {"drawn": get_batch, "first": lambda step: get_batch(0), "constant": get_constant}
    return ways[phase.data]
