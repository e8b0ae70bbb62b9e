"""Distances counted by tenths of a decade, and what share of them lies beyond a threshold."""

from collections.abc import Sequence
from math import floor, log10
from typing import Any

FIRST_DECADE = -4
BINS_PER_DECADE = 10


def count_decades(values: Sequence[float]) -> dict[str, Any]:
    """How many values lie in each tenth of a decade from 10^-4; those below all in the first."""
    places = [_find_bin(value) for value in values]
    counts = [0] * (max(places, default=-1) + 1)
    for place in places:
        counts[place] += 1
    return {"first_decade": FIRST_DECADE, "bins_per_decade": BINS_PER_DECADE, "counts": counts}


def _find_bin(value: float) -> int:
    lowest = 10.0**FIRST_DECADE
    return max(0, floor((log10(max(value, lowest)) - FIRST_DECADE) * BINS_PER_DECADE))


def list_bins(histogram: dict[str, Any]) -> list[tuple[float, int]]:
    """(lower edge, count) of every bin."""
    first, each = histogram["first_decade"], histogram["bins_per_decade"]
    return [(10.0 ** (first + place / each), count) for place, count in enumerate(histogram["counts"])]


def compute_share_beyond(histogram: dict[str, Any], threshold: float) -> float:
    """The share of values in bins that lie at `threshold` or above it."""
    bins = list_bins(histogram)
    total = sum(count for _, count in bins)
    beyond = sum(count for edge, count in bins if edge >= threshold * (1 - 1e-9))
    return beyond / total if total else 0.0
