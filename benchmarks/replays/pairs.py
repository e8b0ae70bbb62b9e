"""All ordered pairs of machines on a segment: what lies between their results, and what a verifier says of
it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

from benchmarks.replays.weighing import Conditioning, is_noise
from protocol.compute.audit.calibrate import FLOORS
from protocol.compute.audit.compare import Distances, Verdict, judge_state, measure_distances
from protocol.compute.program.step import TrainingState
from protocol.spec.containers import Limits

QUANTITIES = ("first_moment", "second_moment", "weights")
RATIO_UNIT = 0.4
"""In limits: ratios are told in 4 times the largest distance that was calibrated."""
Result = TypeVar("Result")


@dataclass
class Judged:
    """Counts over pairs; noise: those beyond the limits that are no farther off than the segment's own noise
    lets machines part (`weighing.py`). `ratios`: the distance of each pair in RATIO_UNIT, by quantity, in its
    order."""

    replays: int = 0
    identical: int = 0
    noise: int = 0
    rejected: int = 0
    ratios: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUANTITIES})


def measure_pairs(ends: Sequence[TrainingState], rates: float) -> list[Distances]:
    """Distances of all ordered pairs."""
    return [d for _, d in compare_pairs(ends, lambda a, b: measure_distances(a, b, rates, FLOORS))]


def judge_pairs(
    ends: Sequence[TrainingState], rate_sum: int, limits: Limits, noise: tuple[Distances, Distances]
) -> Judged:
    """A claimant and a verifier for each ordered pair of machines. noise: the segment's own, and what is
    usual in its run."""
    own, usual = (measure_ratios(distances, limits) for distances in noise)
    judged, conditioning = Judged(), Conditioning(_order(own), _order(usual))

    def look(claimed: TrainingState, replayed: TrainingState) -> tuple[Verdict, Distances]:
        verdict = judge_state(claimed, replayed, rate_sum, limits)
        return verdict, measure_distances(claimed, replayed, rate_sum * 2.0**-64, FLOORS)

    for is_identical, (verdict, distances) in compare_pairs(ends, look):
        is_excused = is_noise(verdict, conditioning)
        judged.replays += 1
        judged.identical += is_identical
        judged.noise += is_excused
        judged.rejected += verdict.is_beyond and not is_excused
        for name, ratio in measure_ratios(distances, limits).items():
            judged.ratios[name].append(ratio / RATIO_UNIT)
    return judged


def _order(ratios: dict[str, float]) -> tuple[float, float, float]:
    return ratios["weights"], ratios["first_moment"], ratios["second_moment"]


def measure_ratios(distances: Distances, limits: Limits) -> dict[str, float]:
    """Distances in units of tau, by quantity."""
    taus = {"first_moment": limits.tau_m, "second_moment": limits.tau_v, "weights": limits.tau_w}
    return {name: getattr(distances, name) / (tau * 2.0**-64) for name, tau in taus.items()}


def compare_pairs(
    ends: Sequence[TrainingState], look: Callable[[TrainingState, TrainingState], Result]
) -> Iterator[tuple[bool, Result]]:
    """(same bits, what `look` says) for each ordered pair. Pairs of the same bits are looked at once."""
    prints = [_hash(end) for end in ends]
    known: dict[tuple[bytes, bytes], Result] = {}
    for a, b in itertools.permutations(range(len(ends)), 2):
        place = (prints[a], prints[b])
        if place not in known:
            known[place] = look(ends[a], ends[b])
        yield place[0] == place[1], known[place]


def _hash(state: TrainingState) -> bytes:
    vectors = (state.weights, state.first_moment, state.second_moment)
    return b"".join(sha256(vector.numpy().tobytes()).digest() for vector in vectors)
