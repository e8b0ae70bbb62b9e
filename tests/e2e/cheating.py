"""Parties that do their work wrong on purpose and stand by it: what product code computes for them is put in
from outside, for the tasks of one party alone."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import pytest
from torch import Tensor

from tests.e2e.roles import DISPUTES, SOLVER, VERIFIER, leave_out
from tests.e2e.world import Part
from touchstone.demo.cheating import list_cheating_rooms, train_as_told
from touchstone.demo.parts import change_duties
from touchstone.node.kit.duty import Duty, Room
from touchstone.node.records.compute import Compute
from touchstone.node.training import claims
from touchstone.protocol.compute.bounds.retrace import Retraced, Show, ignore, retrace
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.compute.tolerance.compare import compute_allowances
from touchstone.protocol.spec.merkle import Levels, compute_levels
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import Limits, TrainingSpec
from touchstone.scripts.roles.role_nodes import Member
from touchstone.verifier import audit_duties as audits
from touchstone.verifier import replaying
from touchstone.verifier.judging import judge_ends

SHARE = 0.8
"""of a limit."""
_is_lying: ContextVar[bool] = ContextVar("lying", default=False)


def allow_cheating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let claims be trained by what the party whose claim it is trusts, and audits say what a liar likes."""
    monkeypatch.setattr(claims, "train_segment", train_as_told)
    monkeypatch.setattr(replaying, "judge_ends", _judge)


def make_cheating_solver(compute: Compute, answers: bool = True) -> Part:
    """A solver that trains with `compute`, and defends it unless it is silent."""

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        rooms = list_cheating_rooms(compute, node)
        return rooms if answers else leave_out(rooms, *DISPUTES)

    return replace(SOLVER, list_rooms=list_rooms)


def _judge(*arguments: Any, **options: Any) -> Any:
    return None if _is_lying.get() else judge_ends(*arguments, **options)


@dataclass(frozen=True)
class Lied:
    """An audit whose word is ACCEPT whatever the own replay came to."""

    duty: Duty[Any]

    async def perform(self, tools: Any) -> None:
        token = _is_lying.set(True)
        try:
            await self.duty.perform(tools)
        finally:
            _is_lying.reset(token)


def make_lying_verifier(compute: Compute | None = None) -> Part:
    """A verifier that votes as a reserve only, so that somebody honest looks at the same segment. It says
    ACCEPT against its own replay; or, with `compute`, it replays as its accomplice trains."""

    def change(duty: Duty[Any]) -> Duty[Any] | None:
        if not isinstance(duty, audits.AuditDraw):
            return duty
        if duty.place.rank == 0:
            return None
        return duty if compute is not None else Lied(duty)

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        if compute is not None:
            node.rooms.tools.cases.compute = compute
            node.task.audits.room.train = compute.train
        return change_duties(node.list_rooms(), (audits.list_duties,), change)

    return replace(VERIFIER, list_rooms=list_rooms)


def make_primary_verifier() -> Part:
    """An honest verifier that audits as a primary alone: what another primary says decides."""

    def change(duty: Duty[Any]) -> Duty[Any] | None:
        return None if isinstance(duty, audits.AuditDraw) and duty.place.rank > 0 else duty

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        return change_duties(node.list_rooms(), (audits.list_duties,), change)

    return replace(VERIFIER, list_rooms=list_rooms)


def make_idle_verifier() -> Part:
    """A verifier that replays nothing: it seals a state of its own making and says ACCEPT to whatever it is
    shown."""

    def invent(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        local_step, global_step = state.local_step + steps, state.global_step + steps
        made = replace(state, weights=state.weights + 0.01, local_step=local_step, global_step=global_step)
        return made, [0.0] * steps

    def change(duty: Duty[Any]) -> Duty[Any]:
        return Lied(duty) if isinstance(duty, audits.AuditDraw) else duty

    def list_rooms(node: Member) -> Sequence[Room[Any]]:
        node.task.audits.room.train = invent
        return change_duties(node.list_rooms(), (audits.list_duties,), change)

    return replace(VERIFIER, list_rooms=list_rooms)


def make_drifting_compute(limits: Limits) -> Compute:
    """Each step ends most of a limit off in m: inside the limits at each step, beyond them after two."""

    def drift(state: TrainingState, spec: TrainingSpec) -> TrainingState:
        rate = compute_learning_rate_sum(spec.schedule, state.global_step - 1, 1, 1 << 30)
        _, allowed, _ = compute_allowances(state, rate, limits)
        return replace(state, first_moment=(state.first_moment.double() + SHARE * allowed).float())

    def train(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        losses = []
        for step in range(inner_step, inner_step + steps):
            state, loss = replay_segment(state, spec, get_batch, step, 1)
            state = drift(state, spec)
            losses += loss
        return state, losses

    def trace(
        start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
    ) -> Retraced:
        def show_others(number: int, data: memoryview, levels: Levels) -> None:
            if number != buffer:
                show(number, data, levels)

        buffer = get_program(spec).program.outputs.first_moment
        honest, end = retrace(start, spec, get_batch, inner_step, show_others)
        drifted = drift(end, spec)

        def get(number: int) -> Tensor:
            return drifted.first_moment if number == buffer else honest.get(number)

        tree = build_buffer_tree(honest.program, get, buffer)
        show(buffer, tree.data, tree.levels)
        roots = [tree.root if number == buffer else root for number, root in enumerate(honest.roots)]
        return Retraced(TraceTree(honest.program, compute_levels(roots), get), drifted)

    return Compute(train, trace)
