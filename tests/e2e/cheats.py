"""The demo's cheats: a solver that skips steps and a verifier that invents its result.

Both take part in everything else as the honest do, and defend themselves as cleverly as they can: their step
roots lead to what they claimed, and the trace of a false step is that of an honest one up to the end, where
the claimed weights and moments stand instead of the computed ones. Whoever looks at it finds a fault.
"""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil

import torch
from torch import Tensor

from protocol.actions.claim import Train
from protocol.actions.defend import Compute
from protocol.actions.fallen import JudgeAudits
from protocol.actions.loop import Due
from protocol.actions.narrate import narrate
from protocol.actions.participant import ComputeOwnRoots, Participant, Prosecute
from protocol.actions.party import Party
from protocol.actions.suspicion import ExamineEnd, ExaminePseudoGradient, OpenAccusation
from protocol.compute.program import build_program, describe_program
from protocol.compute.retrace import Retraced, Show, ignore, retrace
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.compute.trace import TraceTree, build_buffer_tree
from protocol.spec import calls
from protocol.spec.containers import TrainingSpec
from protocol.spec.dispute_moves import Move
from protocol.spec.duties import get_auditor_actions, get_solver_actions
from protocol.spec.events import Event
from protocol.spec.merkle import Levels, compute_levels
from protocol.spec.statuses import Role

NOISE = 1e-3
ACCUSING_ACTIONS = (
    ComputeOwnRoots,
    Prosecute,
    ExamineEnd,
    ExaminePseudoGradient,
    JudgeAudits,
    OpenAccusation,
)


class Cheat(Participant):
    """Answers disputes on its own claims, and accuses nobody."""

    def decide(self, block: int) -> Due[Hashable]:
        """What an honest node would do, less what this one keeps quiet about."""
        due = super().decide(block)
        return Due([action for action in due.actions if not self.is_dropped(action)], due.next_block)

    def is_dropped(self, action: Hashable) -> bool:
        """Whether this cheat stays silent here."""
        return isinstance(action, ACCUSING_ACTIONS)

    def react(self, event: Event) -> None:
        """Watch, and accuse nobody: an honest verifier would only be paid for it."""
        line = narrate(event, self.party.account)
        if line:
            self.party.say(line)


class Silent(Cheat):
    """Moves in no dispute either."""

    def is_dropped(self, action: Hashable) -> bool:
        """Whether this cheat stays silent here."""
        return isinstance(action, Move) or super().is_dropped(action)


class Inventor(Cheat):
    """Silent also where its invention would be laid beside the solver's state."""

    def is_dropped(self, action: Hashable) -> bool:
        return isinstance(action, calls.CompareLeaves) or super().is_dropped(action)


def make_skipper(party: Party, fraction: Fraction) -> Participant:
    """A solver that skips this fraction of its steps."""
    return Cheat(party, get_solver_actions, make_grafting_compute(make_skipping_train(fraction)))


def make_silent_skipper(party: Party, fraction: Fraction) -> Participant:
    """The same, and answers no dispute."""
    return Silent(party, get_solver_actions, make_grafting_compute(make_skipping_train(fraction)))


def make_inventor(party: Party) -> Participant:
    """A verifier that replays nothing."""
    compute = make_grafting_compute(train_by_invention)
    return Inventor(party, partial(get_auditor_actions, role=Role.VERIFIER), compute)


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
    """Noise on the state, step by step."""
    for _ in range(steps):
        state = invent_step(state)
    return state, [0.0] * steps


def invent_step(state: TrainingState) -> TrainingState:
    """Always the same from the same state."""
    generator = torch.Generator().manual_seed(state.global_step)
    noise = torch.randn(state.weights.shape, generator=generator) * NOISE
    return TrainingState(
        weights=state.weights + noise,
        first_moment=state.first_moment + noise,
        second_moment=state.second_moment + noise * noise,
        local_step=state.local_step + 1,
        global_step=state.global_step + 1,
    )


# --- How they defend it -------------------------------------------------------------------------------------
def make_grafting_compute(train: Train) -> Compute:
    """Claims what `train` gives, and grafts it onto honest traces."""

    def retrace_grafted(
        start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
    ) -> Retraced:
        end, _ = train(start, spec, get_batch, inner_step, 1)
        outputs = build_program(describe_program(spec)).program.outputs
        results = (outputs.weights, outputs.first_moment, outputs.second_moment)
        claimed = (end.weights, end.first_moment, end.second_moment)
        return graft(dict(zip(results, claimed, strict=True)), end, start, spec, get_batch, inner_step, show)

    return Compute(train, retrace_grafted)


def graft(
    grafts: Mapping[int, Tensor],
    end: TrainingState,
    start: TrainingState,
    spec: TrainingSpec,
    get_batch: GetBatch,
    inner_step: int,
    show: Show,
) -> Retraced:
    """An honest trace but for the buffers `grafts`."""

    def show_honest(number: int, data: memoryview, levels: Levels) -> None:
        if number not in grafts:
            show(number, data, levels)

    honest = retrace(start, spec, get_batch, inner_step, show_honest).tree

    def get(buffer: int) -> Tensor:
        return grafts[buffer] if buffer in grafts else honest.get(buffer)

    roots = list(honest.roots)
    for buffer in grafts:
        tree = build_buffer_tree(honest.program, get, buffer)
        roots[buffer] = tree.root
        show(buffer, tree.data, tree.levels)
    return Retraced(TraceTree(honest.program, compute_levels(roots), get), end)
