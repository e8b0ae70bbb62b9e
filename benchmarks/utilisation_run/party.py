"""One party of the benchmark, in a process of its own: a party of the demo whose steps take a given time.

The false solver is honest up to a round; from then on an operation of each of its steps errs, and it defends
that. Its process is the only one that knows.
"""

from dataclasses import dataclass, replace

from benchmarks.utilisation_run.pacing import pace, replace_training, switch
from protocol.actions.dispute.casebook import Compute
from protocol.actions.runtime.party import ListDuties, Party
from protocol.compute.bounds.trace import retrace
from protocol.compute.program.step import train_segment
from protocol.spec.program import Operation
from tests.e2e.demo.player import HONEST, LIST, Line, Order, Trained, only_defend
from tests.e2e.planted import make_planting_compute
from tests.e2e.world import Part


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
