"""A task as it is posted: all of its terms. Twin of `GameTerms` in `contracts/game/GameTypes.sol`."""

from dataclasses import dataclass, fields
from typing import Any

from protocol.spec.containers import Amounts, Limits, TaskSpec, TaskTerms, TrainingSpec, Windows
from protocol.spec.game.terms import GameAmounts, GameWindows

NO_WINDOWS = Windows(**{field.name: 0 for field in fields(Windows)})
NO_AMOUNTS = Amounts(**{field.name: 0 for field in fields(Amounts)})


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
    """The task as training, replays and comparisons need it, from its posted terms (`PostedTerms`, or what
    an event has). Windows and amounts of the round stand in `GameTerms` alone. There is one set of limits."""
    limits = Limits(**{field.name: getattr(terms.limits, field.name) for field in fields(Limits)})
    same = (
        "salt", "initial_weights_root", "zero_root", "schedule_root", "step_root", "parameter_count",
        "rounds", "inner_steps", "segment_steps", "carry_moments", "outer_learning_rate", "outer_momentum",
    )  # fmt: skip
    return TaskSpec(
        TaskTerms(
            **{name: getattr(terms, name) for name in same},
            submitter=str(terms.submitter).lower(),
            max_solvers=terms.solver_seats,
            max_verifiers=terms.least_verifiers,
            max_whistleblowers=terms.least_whistleblowers,
            segment_draws=terms.draws,
            leaf_draws=1,
            late_rate=terms.late_chance,
            windows=NO_WINDOWS,
            amounts=NO_AMOUNTS,
            accept=limits,
            reject=limits,
        ),
        training,
    )
