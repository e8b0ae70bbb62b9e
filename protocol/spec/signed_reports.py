"""What a node reports of its own work in a round, for anybody. It is signed, and no contract reads it."""

from dataclasses import dataclass
from enum import IntEnum
from math import isfinite, isnan

MILLIONTHS_MAX = 10**15
"""A report has no larger figure: it stands for itself and for all above it."""


def to_millionths(value: float) -> int:
    """Returns a figure of a report. What is no number counts as infinitely far; nothing is below zero."""
    if not isfinite(value):
        return MILLIONTHS_MAX if isnan(value) or value > 0 else 0
    return min(max(0, round(value * 1e6)), MILLIONTHS_MAX)


class Comparison(IntEnum):
    """What an auditor found of the two ends of a segment, the claimed one and its own."""

    EQUAL = 1  # one root, so the same bits
    MEASURED = 2  # two roots; the distances are given
    OTHER = 3  # two roots that are not measured: in an exact task, or with other step numbers


@dataclass(frozen=True)
class LossReport:
    """A solver's word on the losses of its shard in a round, in millionths of a nat. domain: of the task, on
    its chain (`compute_domain`); steps: of which these are the losses; first, last: of two of them; mean: of
    all."""

    domain: bytes
    round: int
    slot: int
    claim_root: bytes
    steps: int
    first_micronats: int
    last_micronats: int
    mean_micronats: int


@dataclass(frozen=True)
class DistanceReport:
    """An auditor's word on how far a claimed end lies from its own. The fields up to `segment` and the word
    are those of its vote. The largest distances are in millionths of the task's limit, so that more than a
    million is beyond; zero unless they were measured."""

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
