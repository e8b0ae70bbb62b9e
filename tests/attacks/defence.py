"""How a cheat stands up for a false segment on a real chain: every step honest but the last, which ends where
the claim does. Its step roots and its trace lead there, and the lie is in what the last step put out.
"""

from functools import partial

from protocol.actions.claim import Train
from protocol.actions.defend import Compute
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.statuses import Role
from tests.attacks.frame import Attack, is_equal, list_honest_ends
from tests.e2e.cheats import Cheat, make_grafting_compute


def make_defended_compute(train: Train) -> Compute:
    """Claims the segments that `train` makes, and remembers where they end for the day of a dispute."""
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
        return train_segment(state, spec, batches, inner_step, 1)

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


def make_attacker(party: Party, attack: Attack, changed: set[str]) -> Participant:
    """A solver that plays this attack in every segment; see `watch`."""
    return Cheat(party, get_solver_actions, make_defended_compute(watch(attack, changed)))


def make_accomplice(party: Party, attack: Attack) -> Participant:
    """A verifier that says what the attacker says: it knows how, and has been paid."""
    duties = partial(get_auditor_actions, role=Role.VERIFIER)
    return Cheat(party, duties, make_defended_compute(attack.train))
