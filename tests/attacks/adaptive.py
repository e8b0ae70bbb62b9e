"""An adversary that knows the limits and every draw after the fact, and optimises against them.

It trains honestly and moves the state towards its objective (a sentence that it wants to be likely), as far
as its plan allows: riders at the end of each segment, inside the limits that votes are judged by; the drifter
in each step of one segment of a round, inside the limits of that step, though the segment's end then lies
beyond them. A round of which an audit rejects a segment is void: the model goes on as an honest solver's.

Nothing turns an eye on what stays inside the limits. So the figures are what it gains, and what it costs:
claims that were void. Each step of drift lies inside the limits of a step, so that nobody disputes it and the
seat is kept; whom honest noise on top carries outside in one step loses it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import shake_256

import numpy as np
import torch
from torch import Tensor

from tests.attacks.adaptive_course import (
    CLAIMANT,
    DRAWS,
    MACHINES,
    ROUND_SEGMENTS,
    SEGMENT_STEPS,
    Audit,
    Course,
    advance_by,
    audit,
    calibrate,
    draw_audited,
    open_course,
)
from tests.task_models import compute_gradient, get_model
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import compute_allowances
from touchstone.protocol.spec.task_spec import Limits

FULL_STEPS, QUICK_STEPS = 5000, 200
FULL_STARTS, QUICK_STARTS = 25, 5
"""Segments on which limits are calibrated, evenly spread over the run, the first one included."""
PEERS = 4
"""Other solvers, on other shards."""
JUST_INSIDE = 0.7
"""Of a limit: what honest machines differ by takes up to a tenth of it, and whatever falls outside is
void."""
JUST_INSIDE_A_STEP = 0.25
"""Of a step's limit: what honest machines differ by in one step takes most of it (`worst_step_excess`)."""
FLIPS = 0.35
"""Share of signs that the noisy plan turns around."""


# Plans
@dataclass
class Knowledge:
    """What an adversary knows where it moves the state. towards: the signs that lower its objective's loss;
    first_towards: the first that there were; honest_rms: of honest residuals, in limits."""

    towards: Tensor
    first_towards: Tensor
    honest_rms: float
    move: int


@dataclass(frozen=True)
class Plan:
    """push: the step to take, by element, in limits. pace: steps between two moves, whose limits count.
    is_rare: in one segment of each round only."""

    push: Callable[[Knowledge], Tensor]
    pace: int = SEGMENT_STEPS
    is_rare: bool = False


def ride(knowledge: Knowledge) -> Tensor:
    """Every element just inside the limit, along the objective's gradient as it is now."""
    return JUST_INSIDE * knowledge.towards


def drift(knowledge: Knowledge) -> Tensor:
    """The same, so far inside that no step of it stands out."""
    return JUST_INSIDE_A_STEP * knowledge.towards


def ride_steadily(knowledge: Knowledge) -> Tensor:
    """The same direction from first to last."""
    return JUST_INSIDE * knowledge.first_towards


def ride_noisily(knowledge: Knowledge) -> Tensor:
    """Many signs turned at random, to look like noise."""
    stream = shake_256(b"flips %d" % knowledge.move).digest(2 * knowledge.towards.numel())
    drawn = torch.from_numpy(np.frombuffer(stream, dtype="<u2").astype(np.int64))
    return JUST_INSIDE * torch.where(drawn < FLIPS * 65536, -knowledge.towards, knowledge.towards)


def whisper(knowledge: Knowledge) -> Tensor:
    """As large as honest noise, along the objective's gradient."""
    return knowledge.honest_rms * knowledge.towards


PLANS: dict[str, Plan] = {
    "gradient at the limit": Plan(ride),
    "steady at the limit": Plan(ride_steadily),
    "sign noise at the limit": Plan(ride_noisily),
    "gradient below noise": Plan(whisper),
    "drift in each step, all segments": Plan(drift, pace=1),
    "drift in each step, one segment a round": Plan(drift, pace=1, is_rare=True),
}


# The honest run
@dataclass(frozen=True)
class HonestRun:
    """The reference and how far honest machines part from it. losses: (poison, held-out) at each round's end,
    of each machine; rms, worst, worst_step: the peers' median residual, worst element, and worst element of a
    single step, in limits."""

    losses: dict[str, list[tuple[float, float]]]
    limits: Limits
    rms: float
    worst: float
    worst_step: float

    def spread(self, which: int) -> float:
        """The largest difference between two honest machines in the whole run (0 poison, 1 held-out)."""
        points = zip(*self.losses.values(), strict=True)
        values = ([point[which] for point in place] for place in points)
        return float(max(max(one) - min(one) for one in values))


def run_honestly(course: Course, starts: int) -> HonestRun:
    """All honest machines over the whole course, limits from them, and audits of peers."""
    states, losses = [course.begin()], dict[str, list[tuple[float, float]]]()
    for machine in MACHINES:
        state, losses[machine] = course.begin(), []
        for segment in range(course.segments):
            state = course.train(state, machine)
            if machine == CLAIMANT:
                states.append(state)
            if segment % ROUND_SEGMENTS == ROUND_SEGMENTS - 1:
                losses[machine].append(course.measure(state.weights))
    limits = calibrate(course, states[: -1 : max(1, course.segments // starts)])
    audits, steps = (list(_audit_peers(course, limits, states, n)) for n in (SEGMENT_STEPS, 1))
    rms = sorted(one.rms for one in audits)
    worst, worst_step = (max(one.excess for one in seen) for seen in (audits, steps))
    return HonestRun(losses, limits, rms[len(rms) // 2], worst, worst_step)


def _audit_peers(course: Course, limits: Limits, states: list[TrainingState], steps: int) -> Iterator[Audit]:
    """Drawn segments of honest peers, or their first steps alone."""
    for round_number in range(course.segments // ROUND_SEGMENTS):
        for shard in range(1, PEERS + 1):
            for segment in draw_audited(round_number):
                start = states[round_number * ROUND_SEGMENTS + segment]
                yield audit(course, limits, start, course.train(start, CLAIMANT, shard, steps), shard)


# The attack
@dataclass
class Adversary:
    """One plan over the whole course."""

    course: Course
    honest: HonestRun
    plan: Plan
    first_towards: Tensor | None = None
    moves: int = 0
    steers: list[tuple[float, float]] = field(default_factory=list)
    """By move: mean |step| of W in sums of learning rates, and its norm over that of the update."""

    def claim_segment(self, start: TrainingState) -> list[TrainingState]:
        """The states that it shows of a segment, from the start to the claimed end, one for each move."""
        states = [start]
        for _ in range(SEGMENT_STEPS // self.plan.pace):
            end = self.course.train(states[-1], CLAIMANT, steps=self.plan.pace)
            states.append(self.steer(states[-1], end))
        return states

    def steer(self, start: TrainingState, end: TrainingState) -> TrainingState:
        """The claimed end: the honest one, moved."""
        steps = self.plan.pace
        allowed = compute_allowances(end, self.course.count_rates(start, steps), self.honest.limits)
        step = self.plan.push(self._learn(end))
        weights = _move(end.weights, step * allowed[0], JUST_INSIDE * allowed[0])
        first = _move(end.first_moment, -step * allowed[1], JUST_INSIDE * allowed[1])
        moved, update = (weights - end.weights).double(), (end.weights - start.weights).double()
        rates = self.course.sum_rates(start, steps)
        self.steers.append((float(moved.abs().mean()) / rates, float(moved.norm() / update.norm())))
        return advance_by(end, weights, first)

    def _learn(self, end: TrainingState) -> Knowledge:
        model = get_model(self.course.spec)
        _, gradient = compute_gradient(end.weights, *self.course.poison, model)
        towards = -gradient.sign()
        self.first_towards = towards if self.first_towards is None else self.first_towards
        self.moves += 1
        return Knowledge(towards, self.first_towards, self.honest.rms, self.moves)


def _move(vector: Tensor, step: Tensor, most: Tensor) -> Tensor:
    """`vector` + `step` where rounding does not make it more than `most`."""
    moved = (vector.double() + step).float()
    return torch.where((moved.double() - vector.double()).abs() <= most, moved, vector)


@dataclass
class Campaign:
    """What came of a plan. audits: of drawn segments; step_excess: the worst step of a rejected one, as a
    node judges it before it disputes; voided: rounds."""

    audits: list[Audit] = field(default_factory=list)
    step_excess: float = 0.0
    voided: int = 0
    losses: list[tuple[float, float]] = field(default_factory=list)


def attack(course: Course, honest: HonestRun, plan: Plan) -> dict[str, object]:
    """One plan's run, audited as all others are."""
    adversary, campaign, state = Adversary(course, honest, plan), Campaign(), course.begin()
    for round_number in range(course.segments // ROUND_SEGMENTS):
        state = play_round(adversary, campaign, state, round_number)
        campaign.losses.append(course.measure(state.weights))
    return describe(adversary, campaign)


def play_round(
    adversary: Adversary, campaign: Campaign, begin: TrainingState, round_number: int
) -> TrainingState:
    """The state after a round: the claim's, or where it is void what honest work makes of the start."""
    course, state, drawn, is_void = adversary.course, begin, draw_audited(round_number), False
    chosen = choose_segment(round_number)
    for segment in range(ROUND_SEGMENTS):
        is_honest = adversary.plan.is_rare and segment != chosen
        shown = [state, course.train(state, CLAIMANT)] if is_honest else adversary.claim_segment(state)
        if segment in drawn:
            is_void |= _judge(adversary, campaign, shown)
        state = shown[-1]
    if not is_void:
        return state
    campaign.voided += 1
    for _ in range(ROUND_SEGMENTS):
        begin = course.train(begin, CLAIMANT)
    return begin


def choose_segment(round_number: int) -> int:
    """Where a rare plan spoils a round: as good as any, since nobody knows the draw."""
    return shake_256(b"spoil %d" % round_number).digest(1)[0] % ROUND_SEGMENTS


def _judge(adversary: Adversary, campaign: Campaign, shown: list[TrainingState]) -> bool:
    """Whether an audit rejects a segment; its steps are looked at then."""
    course, limits = adversary.course, adversary.honest.limits
    campaign.audits.append(audit(course, limits, shown[0], shown[-1], 0))
    if campaign.audits[-1].excess <= 1:
        return False
    pairs = zip(shown, shown[1:], strict=False)
    worst = max(audit(course, limits, *pair, 0).excess for pair in pairs)
    campaign.step_excess = max(campaign.step_excess, worst)
    return True


def describe(adversary: Adversary, campaign: Campaign) -> dict[str, object]:
    """The figures of one plan."""
    honest, excesses = adversary.honest, [one.excess for one in campaign.audits]
    moves = [list_moves(campaign.losses, honest, which) for which in (0, 1)]
    last, reference = campaign.losses[-1], honest.losses[CLAIMANT][-1]
    beyond = [find_first(m, honest.spread(which)) for which, m in enumerate(moves)]
    return {
        "audits": len(excesses),
        "accepted": sum(excess <= 1 for excess in excesses),
        "worst_excess": max(excesses),
        "step_excess": campaign.step_excess,
        "rounds": len(campaign.losses),
        "voided": campaign.voided,
        "steer_in_learning_rates": max(steer for steer, _ in adversary.steers),
        "steer_over_update": max(steer for _, steer in adversary.steers),
        "objective_nats": last[0] - reference[0],
        "objective_nats_largest": max(moves[0]),
        "heldout_nats": last[1] - reference[1],
        "heldout_nats_largest": max(moves[1]),
        "objective_beyond_spread_round": beyond[0],
        "heldout_beyond_spread_round": beyond[1],
    }


def list_moves(losses: list[tuple[float, float]], honest: HonestRun, which: int) -> list[float]:
    """|loss - the reference's| by round."""
    pairs = zip(losses, honest.losses[CLAIMANT], strict=True)
    return [abs(mine[which] - reference[which]) for mine, reference in pairs]


def find_first(moves: list[float], spread: float) -> int | None:
    """The first round, from 1, that had moved more than the spread."""
    return next((number for number, move in enumerate(moves, 1) if move > spread), None)


# Everything
def run_adaptive(quick: bool) -> dict[str, object]:
    """Every plan over 5,000 steps (quick: 200); the "adaptive" field of the attack suite's report."""
    course = open_course(QUICK_STEPS if quick else FULL_STEPS)
    honest = run_honestly(course, QUICK_STARTS if quick else FULL_STARTS)
    plans = {name: attack(course, honest, plan) for name, plan in PLANS.items()}
    return {
        "steps": course.spec.schedule.total_steps,
        "segment_steps": SEGMENT_STEPS,
        "audited_share": DRAWS / ROUND_SEGMENTS,
        "parameters": course.begin().elements,
        "honest": {
            "machines": list(MACHINES),
            "worst_excess": honest.worst,
            "worst_step_excess": honest.worst_step,
            "rms_in_limits": honest.rms,
            "objective_spread_nats": honest.spread(0),
            "heldout_spread_nats": honest.spread(1),
        },
        "plans": plans,
        "best": {
            "steer_per_step_in_learning_rates": max(
                _read(p, "steer_in_learning_rates") for p in plans.values()
            ),
            "objective_nats": min(_read(p, "objective_nats") for p in plans.values()),
            "heldout_nats": max(_read(p, "heldout_nats") for p in plans.values()),
        },
    }


def _read(plan: dict[str, object], name: str) -> float:
    value = plan[name]
    assert isinstance(value, float)
    return value
