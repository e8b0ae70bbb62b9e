"""One party in a process of its own, whose real steps get the time of a large model.

How real steps get the time of a large model: after its own time a call waits until its share is over.

Product code is not changed for it: the functions are put in from outside, in the process of one party.

One party of the benchmark, in a process of its own: a party of the demo whose steps take a given time.

The false solver is honest up to a round; from then on an operation of each of its steps errs, and it defends
that. Its process is the only one that knows.
"""

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from protocol.actions.audit import audit_room
from protocol.actions.audit.audit_room import Train
from protocol.actions.dispute import casebook
from protocol.actions.dispute.casebook import Compute
from protocol.actions.runtime.party import ListDuties, Party
from protocol.compute.bounds.trace import retrace
from protocol.compute.program.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.program import Operation
from tests.e2e.demo.player import HONEST, LIST, Line, Order, Trained, only_defend
from tests.e2e.planted import make_planting_compute
from tests.e2e.world import Part

Tell = Callable[[int, int, float], None]
"""(global step, steps, seconds of the computation without the wait)."""
ACTIONS = "protocol.actions"
DEFAULTS = frozenset({audit_room.__name__, casebook.__name__})
"""Modules that hold the function as a default of a party's own parts, which are replaced there."""


def draw_train_s(train_s: float, spread: float, name: str, seed: int) -> float:
    """The training time of a round at the party of this name: up to `spread` off, the same at each call."""
    return train_s * (1 + random.Random(f"{seed} {name}").uniform(-spread, spread))


def pace(train: Train, step_s: float, tell: Tell) -> Train:
    """`train`, each of whose steps takes `step_s` seconds, or what it takes where that is longer."""

    def paced(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        first, started_s = state.global_step, time.monotonic()
        result = train(state, spec, get_batch, inner_step, steps)
        took_s = time.monotonic() - started_s
        tell(first, steps, took_s)
        time.sleep(max(0.0, steps * step_s - took_s))
        return result

    return paced


def switch(honest: Callable[..., Any], other: Callable[..., Any], first_step: int) -> Callable[..., Any]:
    """`honest` for states before this global step, `other` from it on."""

    def choose(state: TrainingState, *arguments: Any) -> Any:
        return (other if state.global_step >= first_step else honest)(state, *arguments)

    return choose


def replace_training(train: Train, package: str = ACTIONS) -> list[str]:
    """Let every loaded module of a package that trains segments call `train`; their names. Raises LookupError
    where there is none: what is measured would not be paced."""
    found = []
    for name, module in list(sys.modules.items()):
        is_here = name.startswith(f"{package}.") and name not in DEFAULTS
        if is_here and vars(module).get("train_segment") is train_segment:
            vars(module)["train_segment"] = train
            found.append(name)
    if not found:
        raise LookupError(f"no module of {package} calls train_segment: expected one that trains claims")
    return found


@dataclass(frozen=True)
class PacedOrder(Order):
    """step_s: what a step takes; first_false_step: global step from which it errs, None where it never
    does."""

    step_s: float = 0.0
    first_false_step: int | None = None


def make_paced_part(order: Order, line: Line) -> Part:
    """The rooms of the member's role; its training and its replays wait. Raises LookupError where there is
    no training to be paced."""
    assert isinstance(order, PacedOrder)
    part, compute = HONEST[order.member.role], make_compute(order, line)
    replace_training(compute.train)

    def put_in(party: Party) -> None:
        party.task.audits.room.train = compute.train
        party.task.cases.compute = compute

    rooms: list[ListDuties] = list(part.rooms)
    if order.first_false_step is not None:
        rooms = [only_defend if room is LIST else room for room in rooms]
    return replace(part, rooms=rooms, spoil=put_in)


def make_compute(order: PacedOrder, line: Line) -> Compute:
    """What the party computes with: paced, and false from its step on."""
    compute = Compute(train_segment, retrace)
    if order.first_false_step is not None:
        planted = make_planting_compute(Operation[order.fault])
        compute = Compute(
            switch(train_segment, planted.train, order.first_false_step),
            switch(retrace, planted.retrace, order.first_false_step),
        )

    def tell(first_step: int, steps: int, seconds: float) -> None:
        line.send(Trained(first_step, seconds / steps))

    return Compute(pace(compute.train, order.step_s, tell), compute.retrace)
