"""Defines the terms of a task as they are posted. Twin: `GameTerms` in `contracts/game/GameTypes.sol`."""

from dataclasses import dataclass, fields
from typing import Any

from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows
from touchstone.protocol.spec.task_spec import Limits, TaskSpec, TaskTerms, TrainingSpec


@dataclass(frozen=True)
class PostedTerms:
    """What the contracts must know of a task, with names and order as in Solidity. `format` is the number of
    the numeric format. `encoding`, `aggregation` and `audit` are 0: int8 in blocks of 64, the mean of all
    claims, audits of one segment; other numbers are reserved. `outer_learning_rate` and `outer_momentum` are
    float32 bits. `late_chance` is in 1/65536. `limits` are how far honest hardware may differ; exact tasks do
    not use them."""

    submitter: str
    salt: bytes
    initial_weights_root: bytes
    zero_root: bytes
    schedule_root: bytes
    step_root: bytes
    format: int
    encoding: int
    aggregation: int
    audit: int
    parameter_count: int
    rounds: int
    inner_steps: int
    segment_steps: int
    solver_seats: int
    draws: int
    late_chance: int
    least_solvers: int
    least_verifiers: int
    least_whistleblowers: int
    carry_moments: int
    outer_learning_rate: int
    outer_momentum: int
    windows: GameWindows
    amounts: GameAmounts
    limits: Limits


def make_spec(terms: Any, training: TrainingSpec) -> TaskSpec:
    """Returns the spec of a task, which training, replays and comparisons need, from its posted terms
    (`PostedTerms`, or an event's values)."""
    limits = Limits(**{field.name: getattr(terms.limits, field.name) for field in fields(Limits)})
    same = {field.name for field in fields(TaskTerms)} - {"submitter", "limits"}
    values = {name: getattr(terms, name) for name in same}
    return TaskSpec(TaskTerms(submitter=str(terms.submitter).lower(), limits=limits, **values), training)
