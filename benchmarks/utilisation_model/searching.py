"""The shortest round that keeps solvers busy, and what would have to be faster for a shorter one."""

from collections.abc import Callable
from dataclasses import replace

from benchmarks.utilisation_model.constants import Constants, Setting
from benchmarks.utilisation_model.durations import PARTS
from benchmarks.utilisation_model.simulation import NOTHING, simulate

LEAST = 0.96
SHORTEST_S, LONGEST_S = 0.01, 1e9
HALVINGS = 22
"""From a factor of two down to a few millionths."""
A_LITTLE_SHORTER = 0.9
"""Of the shortest round: what is lost there keeps it from being shorter."""


def find_least(is_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """About the least value from which something holds, None where it does not hold at `high` either. Blocks
    make steps, so it is one that holds where a hair less does not."""
    value = low
    while not is_enough(value):
        if value >= high:
            return None
        low, value = value, min(2 * value, high)
    high = value
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def find_round(
    setting: Setting, constants: Constants, least: float = LEAST, free: frozenset[str] = NOTHING
) -> float | None:
    """Training seconds of the shortest round with that utilisation; None where there is none."""

    def is_enough(train_s: float) -> bool:
        return simulate(setting, constants, train_s, free).utilisation >= least

    return find_least(is_enough, SHORTEST_S, LONGEST_S)


def find_bottleneck(setting: Setting, constants: Constants, train_s: float) -> str:
    """The part without which rounds of this length would have the highest utilisation."""
    return max(PARTS, key=lambda part: simulate(setting, constants, train_s, frozenset({part})).utilisation)


def find_bandwidth(
    setting: Setting, constants: Constants, train_s: float, least: float = LEAST
) -> float | None:
    """By which factor both directions of every link must be faster for that utilisation in rounds of
    `train_s`; None where no factor is enough."""

    def is_enough(factor: float) -> bool:
        up, down = factor * setting.up_bytes_s, factor * setting.down_bytes_s
        faster = replace(setting, up_bytes_s=up, down_bytes_s=down)
        return simulate(faster, constants, train_s).utilisation >= least

    return find_least(is_enough, 1e-6, 1e9)
