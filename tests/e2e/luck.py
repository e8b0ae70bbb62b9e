"""How likely the demo's expectations fail though everything works: a cheat that no draw ever meets.

Nothing is sampled; the published odds of `protocol/spec/odds.py` are applied to this roster and plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from node.submit import TaskPlan
from protocol.spec.odds import compute_escape_probability, compute_luck, compute_undrawn_probability
from tests.e2e.cheats import list_spoiled_segments
from tests.e2e.plan import LEAST_ROUNDS, build_plan
from tests.e2e.roster import Member, count_role

HIGHEST_LUCK = Fraction(1, 1000)
MOST_ROUNDS = 64


@dataclass(frozen=True)
class Luck:
    """The chance of never meeting each cheat, by kind, and of missing at least one of them."""

    escapes: dict[str, Fraction]

    @property
    def total(self) -> Fraction:
        """The chance that the run fails by luck."""
        return compute_luck(self.escapes.values())


def compute_run_luck(plan: TaskPlan, roster: Sequence[Member], skip: Fraction) -> Luck:
    """The luck of a run. Some honest auditor looks at every drawn segment: two reserves replace a primary."""
    kinds = {member.kind for member in roster}
    chances = {"skip": _compute_skip_escape(plan, skip), "invent": _compute_invent_escape(plan, roster)}
    return Luck({kind: chance for kind, chance in chances.items() if kind in kinds})


def _compute_skip_escape(plan: TaskPlan, skip: Fraction) -> Fraction:
    spoiled = list_spoiled_segments(plan.inner_steps, plan.segment_steps, skip)
    segments = plan.inner_steps // plan.segment_steps
    one_round = compute_escape_probability(segments, plan.segment_draws, spoiled, plan.late_rate)
    return one_round**plan.rounds


def _compute_invent_escape(plan: TaskPlan, roster: Sequence[Member]) -> Fraction:
    """Draws of honest claims only: a slashed solver may have too little stake left for the later rounds."""
    audits = count_role(roster, "solver", honest_only=True) * plan.segment_draws * plan.rounds
    return compute_undrawn_probability(count_role(roster, "verifier"), audits)


def choose_rounds(roster: Sequence[Member], skip: Fraction, least: int = LEAST_ROUNDS) -> int:
    """The fewest rounds, at least `least`, with a luck below 1/1000."""
    for rounds in range(least, MOST_ROUNDS + 1):
        if compute_run_luck(build_plan(rounds), roster, skip).total < HIGHEST_LUCK:
            return rounds
    raise ValueError(f"up to {MOST_ROUNDS} rounds may all miss a cheat that skips {skip} of its steps")
