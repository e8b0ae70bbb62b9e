"""An adversary that knows the limits, the ledger and every draw after the fact, and optimises against them.

It trains honestly and at the end of each segment moves the state towards its objective (a sentence that it
wants to be likely), as far as its plan allows. What it gains is measured against what honest machines differ
by over the same run, and the ledger of a whistleblower who follows two of four segments says when it is
flagged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import shake_256

import numpy as np
import torch
from torch import Tensor

from protocol.actions.attention import LOUD_RMS
from protocol.compute.compare import compute_allowances
from protocol.compute.plain import compute_gradient
from protocol.compute.step import TrainingState
from protocol.compute.tables import build_tables
from protocol.spec.containers import Limits
from protocol.spec.ledger import ALARM_RATE, Ledger, Observation, take_round
from protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from tests.attacks.adaptive_course import (
    MACHINES,
    ROUND_SEGMENTS,
    SEGMENT_STEPS,
    Audit,
    Audited,
    Course,
    advance_by,
    calibrate,
    draw_audited,
    open_course,
)

FULL_STEPS, QUICK_STEPS = 5000, 200
FULL_STARTS, QUICK_STARTS = 25, 5
"""Segments on which limits are calibrated, evenly spread over the run, the first one included."""
PEERS = 4
"""Other solvers of the same hardware class, on other shards."""
JUST_INSIDE = 0.7
"""Of the accept limit: honest noise takes up to a quarter of it, and whatever falls outside is void."""
FLIPS = 0.35
"""Share of signs that the noisy plan turns around."""


# --- Plans --------------------------------------------------------------------------------------------------
@dataclass
class Knowledge:
    """What an adversary can know at a segment's end. towards: the signs that lower its objective's loss;
    first_towards: those of the run's first segment; known: the ledger's fixed directions, and the sum of its
    own steps so far; honest_rms: of its honest residual in weights, in accept limits."""

    towards: Tensor
    first_towards: Tensor
    known: tuple[Tensor, ...]
    honest_rms: float
    segment: int


Plan = Callable[[Knowledge], Tensor]
"""The step to take, by element, in accept limits."""


def ride(knowledge: Knowledge) -> Tensor:
    """Every element just inside the limit, along the objective's gradient as it is now."""
    return JUST_INSIDE * knowledge.towards


def ride_steadily(knowledge: Knowledge) -> Tensor:
    """The same direction from first to last."""
    return JUST_INSIDE * knowledge.first_towards


def ride_noisily(knowledge: Knowledge) -> Tensor:
    """Many signs turned at random, to look like noise."""
    stream = shake_256(b"flips %d" % knowledge.segment).digest(2 * knowledge.towards.numel())
    drawn = torch.from_numpy(np.frombuffer(stream, dtype="<u2").astype(np.int64))
    return JUST_INSIDE * torch.where(drawn < FLIPS * 65536, -knowledge.towards, knowledge.towards)


def hide(knowledge: Knowledge) -> Tensor:
    """As large as honest noise, and at right angles to all that the ledger is known to look at, own steps
    of the past included."""
    step = knowledge.towards.double()
    basis = torch.linalg.qr(torch.stack([d.double() for d in knowledge.known], dim=1)).Q
    step -= basis @ (basis.T @ step)
    return (
        (knowledge.honest_rms * step / step.square().mean().sqrt()).float().clamp(-JUST_INSIDE, JUST_INSIDE)
    )


def whisper(knowledge: Knowledge) -> Tensor:
    """As large as honest noise, along the objective's gradient."""
    return knowledge.honest_rms * knowledge.towards


PLANS: dict[str, Plan] = {
    "gradient at the limit": ride,
    "steady at the limit": ride_steadily,
    "sign noise at the limit": ride_noisily,
    "gradient below noise": whisper,
    "orthogonal below noise": hide,
}


# --- The honest run -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class HonestRun:
    """The reference and how far honest machines part from it. states: at each segment's start; losses:
    (poison, held-out) at each segment's end, of each machine; observations: of the peers, by round; rms: the
    peers' median residual of W, in accept limits."""

    states: list[TrainingState]
    losses: dict[str, list[tuple[float, float]]]
    accept: Limits
    observations: list[list[Observation]]
    rms: float
    worst: float

    def spread(self, which: int) -> list[float]:
        """By segment: the largest difference between two honest machines so far (0 poison, 1 held-out)."""
        spreads, largest = [], 0.0
        for points in zip(*self.losses.values(), strict=True):
            values = [point[which] for point in points]
            largest = max(largest, max(values) - min(values))
            spreads.append(largest)
        return spreads


def run_honestly(course: Course, starts: int) -> HonestRun:
    """All honest machines over the whole course, limits from them, and the peers' audits."""
    states, losses = [course.begin()], dict[str, list[tuple[float, float]]]()
    for machine in MACHINES:
        state, losses[machine] = course.begin(), []
        for _ in range(course.segments):
            state = course.train(state, machine)
            losses[machine].append(course.measure(state.weights))
            if machine == "program":
                states.append(state)
    accept = calibrate(course, states[: -1 : max(1, course.segments // starts)]).accept
    peers = [Audited(f"peer {number}", course, accept) for number in range(1, PEERS + 1)]
    observations, rms = list[list[Observation]](), list[float]()
    for round_number in range(course.segments // ROUND_SEGMENTS):
        observations.append([])
        for shard, peer in enumerate(peers, 1):
            audits = [
                _audit_honestly(peer, states[round_number * ROUND_SEGMENTS + segment], shard)
                for segment in draw_audited(round_number)
            ]
            rms += [audit.projections[0].rms for audit in audits]
            observations[-1].append(peer.observe(audits))
    return HonestRun(
        states, losses, accept, observations, sorted(rms)[len(rms) // 2], max(peer.worst for peer in peers)
    )


def _audit_honestly(peer: Audited, start: TrainingState, shard: int) -> Audit:
    return peer.audit(start, peer.course.train(start, "program", shard), shard)


# --- The attack ---------------------------------------------------------------------------------------------
@dataclass
class Adversary:
    """One plan over the whole course."""

    course: Course
    honest: HonestRun
    plan: Plan
    first_towards: Tensor | None = None
    total: Tensor | None = None
    steers: list[tuple[float, float]] = field(default_factory=list)
    """By segment: mean |step| of W in sums of learning rates, and its norm over that of the update."""

    def steer(self, start: TrainingState, end: TrainingState, segment: int) -> TrainingState:
        """The claimed end: the honest one, moved."""
        rates = self.course.sum_rates(start)
        allowed = compute_allowances(end, int(rates * 2**LEARNING_RATE_FRACTION_BITS), self.honest.accept)
        step = self.plan(self._learn(start, end, segment))
        self.total = step if self.total is None else self.total + step
        weights = _move(end.weights, step * allowed[0], JUST_INSIDE * allowed[0])
        first = _move(end.first_moment, -step * allowed[1], JUST_INSIDE * allowed[1])
        moved, update = (weights - end.weights).double(), (end.weights - start.weights).double()
        self.steers.append((float(moved.abs().mean()) / rates, float(moved.norm() / update.norm())))
        return advance_by(end, weights, first)

    def _learn(self, start: TrainingState, end: TrainingState, segment: int) -> Knowledge:
        model = self.course.spec.model
        _, gradient = compute_gradient(end.weights, *self.course.poison, build_tables(model), model)
        towards = -gradient.sign()
        self.first_towards = towards if self.first_towards is None else self.first_towards
        known = [torch.ones_like(towards), end.weights - start.weights, end.first_moment.sign()]
        known += [] if self.total is None else [self.total]
        return Knowledge(towards, self.first_towards, tuple(known), self.honest.rms, segment)


def _move(vector: Tensor, step: Tensor, most: Tensor) -> Tensor:
    """`vector` + `step` where rounding does not make it more than `most`."""
    moved = (vector.double() + step).float()
    return torch.where((moved.double() - vector.double()).abs() <= most, moved, vector)


def attack(course: Course, honest: HonestRun, plan: Plan) -> dict[str, object]:
    """One plan's run, audited as all others are: what it gained, and when the ledger flagged it."""
    adversary, state, losses = Adversary(course, honest, plan), course.begin(), list[tuple[float, float]]()
    followed, ledger, audits = Audited("adversary", course, honest.accept), Ledger(), list[Audit]()
    excesses, loud = list[float](), None
    for segment in range(course.segments):
        round_number, place = divmod(segment, ROUND_SEGMENTS)
        claimed = adversary.steer(state, course.train(state, "program"), segment)
        if place in draw_audited(round_number):
            audits.append(followed.audit(state, claimed, 0))
            excesses.append(audits[-1].excess)
        if place == ROUND_SEGMENTS - 1:
            seen = [*honest.observations[round_number], followed.observe(audits)]
            is_loud = any(p.rms > LOUD_RMS for audit in audits for p in audit.projections)
            loud = segment + 1 if is_loud and loud is None else loud
            ledger, audits = take_round(ledger, round_number, seen), []
        state = claimed
        losses.append(course.measure(state.weights))
    return {"loud_segment": loud, **describe(adversary, honest, losses, ledger, excesses)}


def describe(
    adversary: Adversary,
    honest: HonestRun,
    losses: list[tuple[float, float]],
    ledger: Ledger,
    excesses: list[float],
) -> dict[str, object]:
    """The figures of one plan. Segments count from 1; None: never."""
    entry = ledger.entries["adversary"]
    flagged = (entry.flagged + 1) * ROUND_SEGMENTS if entry.is_flagged else None
    moves = [list_moves(losses, honest, which) for which in (0, 1)]
    spreads = [honest.spread(which) for which in (0, 1)]
    at_once = [find_first(m, s) for m, s in zip(moves, spreads, strict=True)]
    over_run = [find_first(m, [s[-1]] * len(m)) for m, s in zip(moves, spreads, strict=True)]
    at_flag = [m[flagged - 1] if flagged else None for m in moves]
    peers = [solver for solver in ledger.list_flagged() if solver != "adversary"]
    return {
        "audits": len(excesses),
        "accepted": sum(excess <= 1 for excess in excesses),
        "worst_excess": max(excesses),
        "steer_in_learning_rates": max(steer for steer, _ in adversary.steers),
        "steer_over_update": max(steer for _, steer in adversary.steers),
        "objective_nats": losses[-1][0] - honest.losses["program"][-1][0],
        "objective_nats_largest": max(moves[0]),
        "heldout_nats": losses[-1][1] - honest.losses["program"][-1][1],
        "heldout_nats_largest": max(moves[1]),
        "flagged_segment": flagged,
        "objective_nats_when_flagged": at_flag[0],
        "heldout_nats_when_flagged": at_flag[1],
        "feature": entry.strongest,
        "log_evidence": entry.log_evidence,
        "objective_beyond_spread_segment": over_run[0],
        "heldout_beyond_spread_segment": over_run[1],
        "objective_beyond_spread_so_far_segment": at_once[0],
        "heldout_beyond_spread_so_far_segment": at_once[1],
        "is_flagged_in_time": is_before(flagged, over_run),
        "is_flagged_before_spread_so_far": is_before(flagged, at_once),
        "peers_flagged": peers,
    }


def list_moves(losses: list[tuple[float, float]], honest: HonestRun, which: int) -> list[float]:
    """|loss - the reference's| by segment."""
    pairs = zip(losses, honest.losses["program"], strict=True)
    return [abs(mine[which] - reference[which]) for mine, reference in pairs]


def find_first(moves: list[float], spread: list[float]) -> int | None:
    """The first segment, from 1, that moved more than the spread."""
    pairs = enumerate(zip(moves, spread, strict=True), 1)
    return next((number for number, (move, own) in pairs if move > own), None)


def is_before(flagged: int | None, crossings: list[int | None]) -> bool:
    """Whether the flag came before every crossing; where nothing crosses there is nothing to be late for."""
    return all(crossing is None or (flagged is not None and flagged < crossing) for crossing in crossings)


# --- Everything ---------------------------------------------------------------------------------------------
def count_honest_flags(honest: HonestRun) -> tuple[int, int]:
    """(peers, flagged peers) where nobody cheats."""
    ledger = Ledger()
    for round_number, seen in enumerate(honest.observations):
        ledger = take_round(ledger, round_number, seen)
    return len(ledger.entries), len(ledger.list_flagged())


def run_adaptive(quick: bool) -> dict[str, object]:
    """Every plan over 5,000 steps (quick: 200); the "adaptive" field of the zoo's report."""
    course = open_course(QUICK_STEPS if quick else FULL_STEPS)
    honest = run_honestly(course, QUICK_STARTS if quick else FULL_STARTS)
    plans = {name: attack(course, honest, plan) for name, plan in PLANS.items()}
    solvers, flagged = count_honest_flags(honest)
    return {
        "steps": course.spec.schedule.total_steps,
        "segment_steps": SEGMENT_STEPS,
        "audited_share": 2 / ROUND_SEGMENTS,
        "parameters": len(honest.states[0].weights),
        "alarm_rate": ALARM_RATE,
        "honest": {
            "machines": list(MACHINES),
            "solvers": solvers,
            "flagged": flagged,
            "worst_excess": honest.worst,
            "rms_in_accept_limits": honest.rms,
            "objective_spread_nats": honest.spread(0)[-1],
            "heldout_spread_nats": honest.spread(1)[-1],
        },
        "plans": plans,
        "best": {
            "steer_per_step_in_learning_rates": max(
                _read(p, "steer_in_learning_rates") for p in plans.values()
            ),
            "objective_nats": min(_read(p, "objective_nats") for p in plans.values()),
            "heldout_nats": max(_read(p, "heldout_nats") for p in plans.values()),
        },
        "is_flagged_in_time": all(p["is_flagged_in_time"] for p in plans.values()),
    }


def _read(plan: dict[str, object], name: str) -> float:
    value = plan[name]
    assert isinstance(value, float)
    return value
