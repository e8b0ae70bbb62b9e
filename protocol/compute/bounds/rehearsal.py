"""Computes one step of a task on this machine, before anything is at stake, and checks every element.

Each element must lie inside its bound. Exact programs have no bounds, so a second run with other kernels must
give the same bits. A referee also judges some elements, as computed and falsified.

    start, batch --> traced run, node by node --> bounds or second run: an element outside refuses the machine
                              '--> what drawn nodes touch, each into its tree --> opened leaves
                                   --> for each kind of operation one element: two exhibits, right and wrong
"""

from typing import NamedTuple

import torch

from touchstone.protocol.compute.bounds.exhibits import Exhibit, make_exhibits
from touchstone.protocol.compute.bounds.rehearsal_samples import draw_samples, list_sample_runs
from touchstone.protocol.compute.bounds.rehearsal_trace import trace_checked
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import TrainingSpec

TRACED_ALIKE = 2
"""Steps that are trained and traced. The second one begins with moments that are not zero."""


class Rehearsal(NamedTuple):
    """A step whose elements are all within their bounds, with an honest and a falsified exhibit for each kind
    of operation. `start` is the state before it."""

    start: StateHeader
    exhibits: tuple[Exhibit, ...]


def rehearse(state: TrainingState, spec: TrainingSpec, batch: Batch, seed: bytes) -> Rehearsal:
    """Traces one step, checks all of it, and makes exhibits of elements that `seed` picks. Raises
    EnvironmentFault if an element is outside its bound, because a solver that claims such a step can be
    convicted. Raises InvalidInput if a referee could judge no element of some kind of operation."""
    built = get_program(spec)
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    vectors = (state.weights, state.first_moment, state.second_moment)
    inputs = (*vectors, *(tensor.reshape(-1) for tensor in batch), scalars)
    samples = draw_samples(built.program, seed)
    runs = {run for sample in samples for run in list_sample_runs(built.program, sample, inputs.__getitem__)}
    excerpt = trace_checked(built, inputs, runs, spec.numeric_format)
    exhibits = [
        exhibit for sample in samples for exhibit in make_exhibits(excerpt, sample, spec.numeric_format)
    ]
    _require_traced_alike(state, spec, batch)
    return Rehearsal(state_header(state), tuple(exhibits))


def _require_traced_alike(state: TrainingState, spec: TrainingSpec, batch: Batch) -> None:
    """Trains some steps as usual, each overwriting the state before it, and also traces each, because a claim
    is trained in one way and shown in the other. Raises EnvironmentFault if bits differ."""
    trained, _ = train_segment(state, spec, lambda _: batch, 0, TRACED_ALIKE)
    built = get_program(spec)
    interpreter = Interpreter(
        built.program, built.constants, is_traced=True, numeric_format=spec.numeric_format
    )
    for _ in range(TRACED_ALIKE):
        scalars = compute_scalars(spec, state.local_step, state.global_step)
        result = interpreter.run(state.vectors, *batch, scalars)
        weights, first_moment, second_moment = (vector.clone() for vector in result[:3])
        state = TrainingState(
            weights, first_moment, second_moment, state.local_step + 1, state.global_step + 1
        )
    pairs = zip(trained.bring_home().vectors, state.bring_home().vectors, strict=True)
    for name, (one, other) in zip(("weights", "first_moment", "second_moment"), pairs, strict=True):
        if not torch.equal(one.view(torch.int32), other.view(torch.int32)):
            raise EnvironmentFault(
                what="a step gives other bits when it is trained than when it is traced",
                expected=f"equal bits of {TRACED_ALIKE} steps",
                actual="others",
                where=name,
                remedy="Do not stake on this task from this machine: its claims could not be shown in a "
                "dispute. Tell its submitter and the developers of Touchstone.",
                retryable=False,
            )
