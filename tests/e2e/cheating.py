"""Parties that do their work wrong on purpose and stand by it: what product code computes for them is put in
from outside, for the tasks of one party alone."""

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from torch import Tensor

from tests.e2e.roles import SOLVER, VERIFIER
from tests.e2e.world import Part
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.duty import Duty, ListDuties, Wait
from touchstone.node.kit.party import Party
from touchstone.node.records.compute import Compute
from touchstone.node.training import claims, speculation
from touchstone.protocol.compute.audit.compare import compute_allowances
from touchstone.protocol.compute.bounds.retrace import Retraced, Show, ignore, retrace
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.merkle import Levels, compute_levels
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import Limits, TrainingSpec
from touchstone.verifier import audit_duties as audits
from touchstone.verifier import replaying
from touchstone.verifier.replaying import judge_ends
from touchstone.whistleblower import dispute_duties as disputes

HONEST = Compute(replay_segment, retrace)
_computing: ContextVar[Compute] = ContextVar("computing", default=HONEST)
SHARE = 0.8
"""of a limit."""
_is_lying: ContextVar[bool] = ContextVar("lying", default=False)


def _train(*arguments: Any) -> Any:
    return _computing.get().train(*arguments)


def allow_cheating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let claims be trained by what the party whose claim it is trusts, and audits say what a liar likes."""
    monkeypatch.setattr(claims, "train_segment", _train)
    monkeypatch.setattr(replaying, "judge_ends", _judge)


@dataclass(frozen=True)
class Cheated:
    """A duty that is performed with another computation."""

    duty: Duty
    compute: Compute

    async def perform(self, party: Party) -> None:
        token = _computing.set(self.compute)
        try:
            await self.duty.perform(party)
        finally:
            _computing.reset(token)


def make_cheating_solver(compute: Compute, answers: bool = True) -> Part:
    """A solver that trains with `compute`, and defends it unless it is silent."""

    def cheat(list_duties: ListDuties, party: Party, block: int) -> Iterator[Duty | Wait]:
        party.task.cases.compute = compute
        for duty in list_duties(party, block):
            yield duty if isinstance(duty, Wait) else Cheated(duty, compute)

    trained = (claims.list_duties, speculation.list_duties)
    rooms: list[ListDuties] = [partial(cheat, room) if room in trained else room for room in SOLVER.rooms]
    if not answers:
        rooms.remove(disputes.list_duties)
    return Part(tuple(rooms), SeatRequest(SeatRole.SOLVER))


def _judge(*arguments: Any, **options: Any) -> Any:
    return None if _is_lying.get() else judge_ends(*arguments, **options)


@dataclass(frozen=True)
class Lied:
    """An audit whose word is ACCEPT whatever the own replay came to."""

    duty: Duty

    async def perform(self, party: Party) -> None:
        token = _is_lying.set(True)
        try:
            await self.duty.perform(party)
        finally:
            _is_lying.reset(token)


def make_lying_verifier(compute: Compute | None = None) -> Part:
    """A verifier that votes as a reserve only, so that somebody honest looks at the same segment. It says
    ACCEPT against its own replay; or, with `compute`, it replays as its accomplice trains."""

    def list_audits(party: Party, block: int) -> Iterator[Duty | Wait]:
        if compute is not None:
            party.task.cases.compute = compute
            party.task.audits.room.train = compute.train
        for duty in audits.list_duties(party, block):
            if not isinstance(duty, audits.AuditDraw):
                yield duty
            elif duty.place.rank > 0:
                yield duty if compute is not None else Lied(duty)

    rooms = [list_audits if room is audits.list_duties else room for room in VERIFIER.rooms]
    return Part(tuple(rooms), SeatRequest(SeatRole.VERIFIER))


def make_primary_verifier() -> Part:
    """An honest verifier that audits as a primary alone: what another primary says decides."""

    def list_audits(party: Party, block: int) -> Iterator[Duty | Wait]:
        for duty in audits.list_duties(party, block):
            if not (isinstance(duty, audits.AuditDraw) and duty.place.rank > 0):
                yield duty

    rooms = [list_audits if room is audits.list_duties else room for room in VERIFIER.rooms]
    return Part(tuple(rooms), SeatRequest(SeatRole.VERIFIER))


def make_idle_verifier() -> Part:
    """A verifier that replays nothing: it seals a state of its own making and says ACCEPT to whatever it is
    shown."""

    def invent(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        local_step, global_step = state.local_step + steps, state.global_step + steps
        made = replace(state, weights=state.weights + 0.01, local_step=local_step, global_step=global_step)
        return made, [0.0] * steps

    def list_audits(party: Party, block: int) -> Iterator[Duty | Wait]:
        party.task.audits.room.train = invent
        for duty in audits.list_duties(party, block):
            yield Lied(duty) if isinstance(duty, audits.AuditDraw) else duty

    rooms = [list_audits if room is audits.list_duties else room for room in VERIFIER.rooms]
    return Part(tuple(rooms), SeatRequest(SeatRole.VERIFIER))


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
