"""Defines a node's signed reports of its own work in a round, for anybody. No contract reads them."""

from dataclasses import dataclass
from enum import IntEnum
from math import isfinite, isnan

MILLIONTHS_MAX = 10**15
"""The largest figure of a report. It stands for itself and for all larger figures."""


def to_millionths(value: float) -> int:
    """Returns a figure in millionths. NaN counts as infinitely far; negative values count as 0."""
    if not isfinite(value):
        return MILLIONTHS_MAX if isnan(value) or value > 0 else 0
    return min(max(0, round(value * 1e6)), MILLIONTHS_MAX)


class Comparison(IntEnum):
    """How the two ends of a segment compare: the claimed end and the auditor's own."""

    EQUAL = 1  # One root, so the same bits.
    MEASURED = 2  # Two roots; the distances are given.
    OTHER = 3  # Two roots without distances: in an exact task, or with different step counters.


@dataclass(frozen=True)
class LossReport:
    """A solver's report of the losses of its shard in a round, in millionths of a nat. `domain` is the task's
    on its chain (`compute_domain`). `steps` is how many steps it covers; `first` and `last` are the losses of
    two of them, `mean` is over all."""

    domain: bytes
    round: int
    slot: int
    claim_root: bytes
    steps: int
    first_micronats: int
    last_micronats: int
    mean_micronats: int


@dataclass(frozen=True)
class HeldoutReport:
    """A party's report of the loss of a model on the task's held-out tokens, in millionths of a nat.
    `domain` is the task's on its chain. `rounds_done` is the number of rounds behind the model (0: before any
    training), `root` its outer root. `mean` is over `batches` batches, `error` is the standard error."""

    domain: bytes
    rounds_done: int
    root: bytes
    batches: int
    mean_micronats: int
    error_micronats: int


@dataclass(frozen=True)
class DistanceReport:
    """An auditor's report of how far a claimed end is from its own. The fields up to `segment` and the
    verdict repeat the auditor's vote. The largest distances are in millionths of the task's limit, so more
    than a million exceeds it; zero if they were not measured."""

    domain: bytes
    round: int
    base_root: bytes
    seed: bytes
    slot: int
    claim_root: bytes
    draw: int
    rank: int
    segment: int
    word: int
    comparison: Comparison
    weights_microlimits: int
    first_moment_microlimits: int
    second_moment_microlimits: int
