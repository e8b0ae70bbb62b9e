"""The shortest rounds by size of the model, bandwidth and block time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.utilisation_model.constants import BLOCKS, Constants, Setting, to_bytes_s
from benchmarks.utilisation_model.searching import A_LITTLE_SHORTER, LONGEST_S, find_bottleneck, find_round

PARAMETERS = (1e7, 1e8, 1e9, 1e10)
MBIT_S = (100, 1_000, 10_000)
CORES = (1, 16)
"""As the node is built: one core hashes, encodes and merges; and as it could be."""


@dataclass(frozen=True)
class Row:
    """round_s: training of the shortest round with utilisation of 0.96 or more, None where no round is long
    enough, as solvers differ too much."""

    params: float
    mbit_s: int
    block_s: int
    cores: int
    round_s: float | None
    bottleneck: str


def make_row(params: float, mbit_s: int, block_s: int, cores: int, constants: Constants) -> Row:
    """One row."""
    speed = to_bytes_s(mbit_s)
    setting = Setting(params, speed, speed, BLOCKS[block_s], cores=cores)
    shortest = find_round(setting, constants)
    looked_at = LONGEST_S if shortest is None else A_LITTLE_SHORTER * shortest
    bottleneck = find_bottleneck(setting, constants, looked_at)
    return Row(params, mbit_s, block_s, cores, shortest, bottleneck)


def make_table(
    constants: Constants, parameters: Sequence[float] = PARAMETERS, cores: Sequence[int] = CORES
) -> list[Row]:
    """All rows."""
    return [
        make_row(params, mbit_s, block_s, count, constants)
        for count in cores
        for params in parameters
        for mbit_s in MBIT_S
        for block_s in BLOCKS
    ]


def show_row(row: Row) -> dict[str, Any]:
    """As JSON, rounded to a tenth of a second."""
    return {
        name: round(value, 1) if isinstance(value, float) else value for name, value in asdict(row).items()
    }
