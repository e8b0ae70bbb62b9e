"""The terms of a task as they are posted: the twin of `GameTerms` in `contracts/game/GameTypes.sol`."""

from dataclasses import dataclass, fields
from typing import Any

from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows
from touchstone.protocol.spec.task_spec import Limits, TaskSpec, TaskTerms, TrainingSpec


@dataclass(frozen=True)
class PostedTerms:
    """What the contracts must know of a task; names and order as in Solidity. format: number of the numeric
    format; outer_learning_rate, outer_momentum: float32 bits; late_chance: in 1/65536; limits: what honest
    hardware may differ by, unused in exact tasks."""

    submitter: str
    salt: bytes
    initial_weights_root: bytes
    zero_root: bytes
    schedule_root: bytes
    step_root: bytes
    format: int
    weighting: int
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
    """Returns the task as training, replays and comparisons need it, from its posted terms (`PostedTerms`, or
    what an event has)."""
    limits = Limits(**{field.name: getattr(terms.limits, field.name) for field in fields(Limits)})
    same = {field.name for field in fields(TaskTerms)} - {"submitter", "limits"}
    values = {name: getattr(terms, name) for name in same}
    return TaskSpec(TaskTerms(submitter=str(terms.submitter).lower(), limits=limits, **values), training)
