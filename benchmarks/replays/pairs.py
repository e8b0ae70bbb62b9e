"""All ordered pairs of machines on a segment: what lies between their results, and what a verifier says of
it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

from protocol.compute.calibrate import FLOORS, Proposal
from protocol.compute.compare import Distances, judge_state, measure_distances
from protocol.compute.step import TrainingState
from protocol.spec.tolerance import Judgement

QUANTITIES = ("first_moment", "second_moment", "weights")
Result = TypeVar("Result")


@dataclass
class Judged:
    """Counts over pairs; `ratios`: the distance of each pair in units of tau, by quantity, in its order."""

    replays: int = 0
    identical: int = 0
    grey: int = 0
    rejected: int = 0
    ratios: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUANTITIES})


def measure_pairs(ends: Sequence[TrainingState], rates: float) -> list[Distances]:
    """Distances of all ordered pairs."""
    return [d for _, d in _compare(ends, lambda a, b: measure_distances(a, b, rates, FLOORS))]


def judge_pairs(ends: Sequence[TrainingState], rate_sum: int, proposal: Proposal) -> Judged:
    """A claimant and a verifier for each ordered pair of machines. Ratios are to the accept limits."""
    judged, accept = Judged(), proposal.accept
    taus = {"first_moment": accept.tau_m, "second_moment": accept.tau_v, "weights": accept.tau_w}

    def look(claimed: TrainingState, replayed: TrainingState) -> tuple[Judgement, Distances]:
        verdict = judge_state(claimed, replayed, rate_sum, accept, proposal.reject)
        return verdict.judgement, measure_distances(claimed, replayed, rate_sum * 2.0**-64, FLOORS)

    for is_identical, (judgement, distances) in _compare(ends, look):
        judged.replays += 1
        judged.identical += is_identical
        judged.grey += judgement is Judgement.GREY
        judged.rejected += judgement is Judgement.REJECT
        for name, tau in taus.items():
            judged.ratios[name].append(getattr(distances, name) / (tau * 2.0**-64))
    return judged


def _compare(
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
