"""How a cheat stands up for a false segment whose ends lie beyond the limits.

Before a node disputes it asks for the states of all steps and judges each from the claimant's own state
before it. What the claimant shows it may make up afterwards, as long as it leads to the claimed end:

    at once    every step honest but the last, which ends where the claim does
    evenly     each step takes its share of what is still missing to the claimed end
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from tests.attacks.frame import Attack, is_equal, list_honest_ends
from tests.attacks.grafting import make_grafting_compute
from tests.e2e.cheating import make_cheating_solver
from tests.e2e.roles import VERIFIER
from tests.e2e.world import Part
from touchstone.demo.parts import change_duties
from touchstone.node.kit.duty import Duty, Room
from touchstone.node.kit.known_statements import find_solver
from touchstone.node.records.compute import Compute, Train
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.schedule import compute_learning_rate
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.scripts.roles.role_nodes import Member
from touchstone.verifier import audit_duties as audits


def take_shared_step(
    state: TrainingState,
    spec: TrainingSpec,
    batches: GetBatch,
    inner_step: int,
    claimed: TrainingState,
) -> tuple[TrainingState, TrainingState]:
    """The honest step, and the same with an even share of what it then lacks to the `claimed` end.

    What is added to a moment fades by beta in every later step, so that even shares of a sum over n steps are
    (1 - beta) / (1 - beta^n) each; a weight is judged in learning rates and gets its step's part of them."""
    left = claimed.global_step - state.global_step
    honest, _ = train_segment(state, spec, batches, inner_step, 1)
    if left == 1:
        return honest, claimed
    end, _ = train_segment(honest, spec, batches, inner_step + 1, left - 1)
    places = [(state.global_step + n, state.local_step + n) for n in range(left)]
    rates = [compute_learning_rate(spec.schedule, *place) for place in places]
    betas = (spec.beta1, spec.beta2)
    shares = (rates[0] / sum(rates), *((1 - beta) / (1 - beta**left) for beta in betas))
    weights, first, second = (
        one + share * (aim - reached)
        for one, share, aim, reached in zip(honest.vectors, shares, claimed.vectors, end.vectors, strict=True)
    )
    counters = (honest.local_step, honest.global_step)
    return honest, TrainingState(weights, first, second.clamp(min=0), *counters)


def make_defended_compute(train: Train, is_shared: bool = False) -> Compute:
    """Claims the segments that `train` makes, and remembers where they end for the day of a dispute; then the
    lie is in the last step, or shared over all."""
    claimed: dict[int, TrainingState] = {}

    def compute(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        if steps > 1:
            end, losses = train(state, spec, batches, inner_step, steps)
            claimed[end.global_step] = end
            return end, losses
        if state.global_step + 1 in claimed:
            return claimed[state.global_step + 1], [0.0]
        if not is_shared:
            return train_segment(state, spec, batches, inner_step, 1)
        aim = claimed[min(place for place in claimed if place > state.global_step)]
        return take_shared_step(state, spec, batches, inner_step, aim)[1], [0.0]

    return make_grafting_compute(compute)


def watch(attack: Attack, changed: set[str]) -> Train:
    """The attack, which adds its name to `changed` once a segment of its ends elsewhere than honest ones."""

    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        end, losses = attack.train(state, spec, batches, inner_step, steps)
        ends = list_honest_ends(state, spec, batches, inner_step, steps)
        changed.update(() if any(is_equal(end, honest) for honest in ends) else (attack.name,))
        return end, losses

    return train


def make_attacker(attack: Attack, changed: set[str], is_shared: bool = False) -> Part:
    """A solver that plays this attack in every segment; see `watch` and `make_defended_compute`."""
    return make_cheating_solver(make_defended_compute(watch(attack, changed), is_shared))


_is_partner: ContextVar[bool] = ContextVar("partner", default=False)


@dataclass(frozen=True)
class Swayed:
    """An audit of the attacker's claim, replayed as it trains."""

    duty: Duty[Any]

    async def perform(self, tools: Any) -> None:
        token = _is_partner.set(True)
        try:
            await self.duty.perform(tools)
        finally:
            _is_partner.reset(token)


def make_accomplice(attack: Attack, find_attacker: Callable[[], str]) -> Part:
    """A verifier that says what the attacker says in all audits of its claims: it knows how, and has been
    paid. find_attacker: its account."""

    def train(*arguments: Any) -> tuple[TrainingState, list[float]]:
        return (attack.train if _is_partner.get() else train_segment)(*arguments)

    compute = make_defended_compute(train)

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        def sway(duty: Duty[Any]) -> Duty[Any]:
            if isinstance(duty, audits.AuditDraw) and _get_solver(node, duty) == find_attacker():
                return Swayed(duty)
            return duty

        node.rooms.tools.cases.compute, node.task.audits.room.train = compute, compute.train
        return change_duties(node.list_rooms(), (audits.list_duties,), sway)

    return replace(VERIFIER, list_rooms=list_rooms)


def _get_solver(node: Member, duty: audits.AuditDraw) -> str | None:
    return find_solver(node.game, duty.place.round, duty.place.slot)
