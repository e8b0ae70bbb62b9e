"""Defines the computations whose results a node trusts: segments, and the trace of a step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from touchstone.protocol.compute.bounds.retrace import Retrace, retrace
from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import TrainingSpec

Train = Callable[[TrainingState, TrainingSpec, GetBatch, int, int], tuple[TrainingState, list[float]]]
"""The signature of `compute.step.replay_segment`."""


@dataclass(frozen=True)
class Compute:
    """Computes segments and traces of steps for a node, which trusts the results."""

    train: Train = replay_segment
    retrace: Retrace = retrace


class TracedStep(NamedTuple):
    """A step as this node computed it: its trace, and the states before and after it."""

    tree: TraceTree
    start: StateHeader
    end: StateHeader
