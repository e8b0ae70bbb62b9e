"""Computes what a slash takes: at least half is burned in the end, the rest goes to finder and submitter."""

from fractions import Fraction
from math import ceil

SHARE_DIVISOR = 4
"""The finder and the submitter each get at most this share of a slash, a quarter, so at least half is
burned."""


def compute_burned(stake: int, finder_cap: int) -> int:
    """Returns what a slash of `stake` costs a cheat that is also finder and submitter."""
    quarter = stake // SHARE_DIVISOR
    return stake - min(quarter, finder_cap) - quarter


def compute_stake_burning(burned: int, finder_cap: int) -> int:
    """Returns the least stake whose slash burns at least `burned`. A slash burns half of the stake, or three
    quarters less the finder's cap, whichever is more."""
    return max(0, min(2 * burned, ceil(Fraction(4 * (burned + finder_cap), 3))))
