"""The shortest round that keeps solvers busy, by model, bandwidth and block time, and two runs of others.

The shortest round that keeps solvers busy, and what would have to be faster for a shorter one.

Two runs of others as they were reported: what would this protocol give there, and what would it need?

Where a figure of theirs is not known it is worked out from those that are
(`docs/decisions/0036-utilisation.md`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lab.benchmarks.utilisation_model.constants import BLOCKS, Constants, Setting, to_bytes_s
from lab.benchmarks.utilisation_model.simulation import NOTHING, PARTS, simulate

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


NODE_CORES = 64
"""Of a machine with eight accelerators."""
ACCELERATOR_CORES = 4_096
"""As many cores' worth: what is bound by memory there, where a core here moves a gigabyte a second."""
FAST_MBIT_S = 10_000
"""What a node in a data centre has."""
SMALL_DELTA_BYTES = 4 / 146
"""of a parameter: float32 made 146 times smaller."""


@dataclass(frozen=True)
class Case:
    """train_s: training of a round; reported: the utilisation that its authors give."""

    name: str
    setting: Setting
    train_s: float
    reported: float


def compute_ring_mbit_s(parameters: float, nodes: int, seconds: float) -> float:
    """The speed at which an all-reduce of a byte a parameter takes so long: each node sends and receives
    2 (n - 1) / n of it."""
    return 2 * (nodes - 1) / nodes * parameters * 8 / 1e6 / seconds


def make_intellect(utilisation: float) -> Case:
    """INTELLECT-1: 10 B parameters, 14 nodes, 38 minutes of training a round. Its links are those that make
    an all-reduce take what the utilisation leaves."""
    parameters, nodes, train_s = 10e9, 14, 38 * 60.0
    mbit_s = compute_ring_mbit_s(parameters, nodes, train_s / utilisation - train_s)
    speed = to_bytes_s(mbit_s)
    setting = Setting(parameters, speed, speed, BLOCKS[12], solvers=nodes)
    return Case(f"INTELLECT-1, {mbit_s:.0f} Mbit/s", setting, train_s, utilisation)


def make_covenant() -> Case:
    """Covenant-72B: 20 peers a round, 110 Mbit/s up and 500 down, pseudo-gradients 146 times smaller than
    float32, through a store. Training is what 70 s of exchange at 94.5 % leave."""
    utilisation, exchange_s = 0.945, 70.0
    train_s = exchange_s * utilisation / (1 - utilisation)
    setting = Setting(
        72e9, to_bytes_s(110), to_bytes_s(500), BLOCKS[12], solvers=20, delta_bytes=SMALL_DELTA_BYTES,
        is_stored=True,
    )  # fmt: skip
    return Case("Covenant-72B, 110 / 500 Mbit/s", setting, train_s, utilisation)


CASES = (make_intellect(0.830), make_intellect(0.957), make_covenant())


def list_changes(setting: Setting) -> dict[str, Setting]:
    """The setting with nodes as they are built, and with one thing after the other that it would need; what
    it has already is left out."""
    fast = to_bytes_s(FAST_MBIT_S)
    steps: dict[str, dict[str, Any]] = {
        "as nodes are built: one core hashes, encodes, merges": {},
        f"and {NODE_CORES} cores": {"cores": NODE_CORES},
        "and pseudo-gradients 146 times smaller": {"delta_bytes": SMALL_DELTA_BYTES},
        "and those through a store": {"is_stored": True},
        "and the same kernels: equal end roots": {"are_ends_equal": True},
        "and one audit a claim": {"draws": 1},
        f"and links of {FAST_MBIT_S / 1000:.0f} Gbit/s": {"up_bytes_s": fast, "down_bytes_s": fast},
        "and hashing, encoding, merging on an accelerator": {"cores": ACCELERATOR_CORES},
    }
    found: dict[str, Setting] = {}
    for name, change in steps.items():
        changed = replace(setting, **change)
        if not found or changed != setting:
            found[name] = changed
        setting = changed
    return found


def show_case(case: Case, constants: Constants) -> dict[str, Any]:
    """What the protocol gives in rounds of that length, by what is changed."""
    return {
        "name": case.name,
        "params": case.setting.parameters,
        "solvers": case.setting.solvers,
        "train_s": round(case.train_s, 1),
        "reported": case.reported,
        "variants": [
            show_variant(name, setting, constants, case.train_s)
            for name, setting in list_changes(case.setting).items()
        ],
    }


def show_variant(name: str, setting: Setting, constants: Constants, train_s: float) -> dict[str, Any]:
    """Utilisation in rounds of that length and what it is lost by; the shortest round with 0.96 of it; by
    which factor links must be faster for 0.96 in rounds of that length, None where that is not enough."""
    shortest, factor = find_round(setting, constants), find_bandwidth(setting, constants, train_s)
    return {
        "change": name,
        "utilisation": round(simulate(setting, constants, train_s).utilisation, 3),
        "round_s": None if shortest is None else round(shortest, 1),
        "bottleneck": find_bottleneck(setting, constants, train_s),
        "bandwidth_factor": None if factor is None else round(factor, 2),
    }


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
