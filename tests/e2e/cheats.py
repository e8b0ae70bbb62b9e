"""The demo's cheats: a solver that skips steps and a verifier that invents its result.

Both take part in everything else as the honest do, and answer no dispute: roots of steps that they never took
would have to be made up.
"""

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil

import torch

from protocol.actions.claim import Train
from protocol.actions.loop import Due
from protocol.actions.narrate import narrate
from protocol.actions.participant import ComputeOwnRoots, Participant
from protocol.actions.party import Party
from protocol.actions.suspicion import ExamineEnd, ExaminePseudoGradient, OpenAccusation
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec import calls
from protocol.spec.containers import TrainingSpec
from protocol.spec.dispute_moves import Move
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.events import Event
from protocol.spec.statuses import Role

NOISE = 1e-3
DISPUTE_ACTIONS = (Move, ComputeOwnRoots, ExamineEnd, ExaminePseudoGradient, OpenAccusation)


class Silent(Participant):
    """Moves in no dispute and accuses nobody."""

    def decide(self, block: int) -> Due[Hashable]:
        """What an honest node would do, less what this one keeps quiet about."""
        due = super().decide(block)
        return Due([action for action in due.actions if not self.is_dropped(action)], due.next_block)

    def is_dropped(self, action: Hashable) -> bool:
        """Whether this cheat stays silent here."""
        return isinstance(action, DISPUTE_ACTIONS)

    def react(self, event: Event) -> None:
        """Watch, and accuse nobody: an honest verifier would only be paid for it."""
        line = narrate(event, self.party.account)
        if line:
            self.party.say(line)


class Inventor(Silent):
    """Silent also where its invention would be laid beside the solver's state."""

    def is_dropped(self, action: Hashable) -> bool:
        return isinstance(action, calls.CompareLeaves) or super().is_dropped(action)


def make_skipper(party: Party, fraction: Fraction) -> Participant:
    """A solver that skips this fraction of its steps."""
    return Silent(party, get_solver_actions, make_skipping_train(fraction))


def make_inventor(party: Party) -> Participant:
    """A verifier that replays nothing."""
    return Inventor(party, partial(get_auditor_actions, role=Role.VERIFIER), train_by_invention)


# --- What they compute --------------------------------------------------------------------------------------
def is_skipped(inner_step: int, fraction: Fraction) -> bool:
    """Whether a step of the round is skipped: as evenly spread as can be, the first one always."""
    return ceil((inner_step + 1) * fraction) > ceil(inner_step * fraction)


def list_spoiled_segments(inner_steps: int, segment_steps: int, fraction: Fraction) -> frozenset[int]:
    """The segments of a round in which a step is skipped."""
    return frozenset(step // segment_steps for step in range(inner_steps) if is_skipped(step, fraction))


def make_skipping_train(fraction: Fraction) -> Train:
    """`train_segment` with steps left out; the counters say that they were taken."""

    def train(
        state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        losses = [0.0]
        for step in range(inner_step, inner_step + steps):
            if is_skipped(step, fraction):
                state = replace(state, local_step=state.local_step + 1, global_step=state.global_step + 1)
            else:
                state, losses = train_segment(state, spec, batches, step, 1)
        return state, losses

    return train


def train_by_invention(
    state: TrainingState, spec: TrainingSpec, batches: GetBatch, inner_step: int, steps: int
) -> tuple[TrainingState, list[float]]:
    """The start state with noise on it, said to be `steps` steps later."""
    generator = torch.Generator().manual_seed(state.global_step)
    noise = torch.randn(state.weights.shape, generator=generator) * NOISE
    return (
        TrainingState(
            weights=state.weights + noise,
            first_moment=state.first_moment + noise,
            second_moment=state.second_moment + noise * noise,
            local_step=state.local_step + steps,
            global_step=state.global_step + steps,
        ),
        [0.0] * steps,
    )
