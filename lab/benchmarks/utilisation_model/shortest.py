"""Finds the shortest round that keeps solvers busy, and draws docs/utilisation.svg.

It also says what would have to be faster for a shorter round, and what this protocol would give and need in
two published runs of others. Figures of these runs that are not known are computed from known ones
(`docs/decisions/0036-utilisation.md`). The picture has a panel for each block time, a line for each
bandwidth, and its own background, so that it reads the same on light and dark pages.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, log10
from typing import Any

from lab.benchmarks.reports import draw_text
from lab.benchmarks.utilisation_model.simulation import (
    BLOCKS,
    NOTHING,
    PARTS,
    Constants,
    Setting,
    simulate,
    to_bytes_s,
)

LEAST = 0.96
SHORTEST_S, LONGEST_S = 0.01, 1e9
HALVINGS = 22
"""Halvings that narrow a factor of two down to a few millionths."""
A_LITTLE_SHORTER = 0.9
"""A share of the shortest round. What is lost in a round of this length keeps rounds from being shorter."""


def find_least(is_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """Returns about the least value for which something holds, None if it does not hold at `high` either.
    Because of blocks it holds there, and not for a slightly smaller value."""
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
    """Returns the training seconds of the shortest round with this utilisation; None if there is none."""

    def is_enough(train_s: float) -> bool:
        return simulate(setting, constants, train_s, free).utilisation >= least

    return find_least(is_enough, SHORTEST_S, LONGEST_S)


def find_bottleneck(setting: Setting, constants: Constants, train_s: float) -> str:
    """Returns the part without which rounds of this length would have the highest utilisation."""
    return max(PARTS, key=lambda part: simulate(setting, constants, train_s, frozenset({part})).utilisation)


def find_bandwidth(
    setting: Setting, constants: Constants, train_s: float, least: float = LEAST
) -> float | None:
    """Returns by which factor every link must be faster in both directions for this utilisation in rounds of
    `train_s`; None if no factor is enough."""

    def is_enough(factor: float) -> bool:
        up, down = factor * setting.up_bytes_s, factor * setting.down_bytes_s
        faster = replace(setting, up_bytes_s=up, down_bytes_s=down)
        return simulate(faster, constants, train_s).utilisation >= least

    return find_least(is_enough, 1e-6, 1e9)


NODE_CORES = 64
"""Cores of a machine with eight accelerators."""
ACCELERATOR_CORES = 4_096
"""Cores' worth of an accelerator in work that is bound by memory; a core here moves a gigabyte a second."""
FAST_MBIT_S = 10_000
"""The link of a node in a data centre."""
SMALL_DELTA_BYTES = 4 / 146
"""Bytes of a parameter: float32 made 146 times smaller."""


@dataclass(frozen=True)
class Case:
    """A published run. `train_s` is the training of a round, `reported` the utilisation that its authors
    give."""

    name: str
    setting: Setting
    train_s: float
    reported: float


def compute_ring_mbit_s(parameters: float, nodes: int, seconds: float) -> float:
    """Returns the speed at which an all-reduce of a byte a parameter takes `seconds`: each node sends and
    receives 2 (n - 1) / n of it."""
    return 2 * (nodes - 1) / nodes * parameters * 8 / 1e6 / seconds


def make_intellect(utilisation: float) -> Case:
    """Returns INTELLECT-1: 10 B parameters, 14 nodes, 38 minutes of training a round. Its links are as fast
    as the reported utilisation implies for an all-reduce."""
    parameters, nodes, train_s = 10e9, 14, 38 * 60.0
    mbit_s = compute_ring_mbit_s(parameters, nodes, train_s / utilisation - train_s)
    speed = to_bytes_s(mbit_s)
    setting = Setting(parameters, speed, speed, BLOCKS[12], solvers=nodes)
    return Case(f"INTELLECT-1, {mbit_s:.0f} Mbit/s", setting, train_s, utilisation)


def make_covenant() -> Case:
    """Returns Covenant-72B: 20 peers a round, 110 Mbit/s up and 500 down, pseudo-gradients 146 times smaller
    than float32, through a store. Its training time follows from 70 s of exchange at 94.5 %."""
    utilisation, exchange_s = 0.945, 70.0
    train_s = exchange_s * utilisation / (1 - utilisation)
    setting = Setting(
        72e9, to_bytes_s(110), to_bytes_s(500), BLOCKS[12], solvers=20, delta_bytes=SMALL_DELTA_BYTES,
        is_stored=True,
    )  # fmt: skip
    return Case("Covenant-72B, 110 / 500 Mbit/s", setting, train_s, utilisation)


CASES = (make_intellect(0.830), make_intellect(0.957), make_covenant())


def list_changes(setting: Setting) -> dict[str, Setting]:
    """Returns the setting as nodes are built now, then with one improvement after the other; those that it
    already has are left out."""
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
    """Returns what the protocol gives in rounds of that length, for each change."""
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
    """Returns the utilisation in rounds of that length and its bottleneck, the shortest round with 0.96, and
    the factor by which links must be faster for 0.96 in rounds of that length (None if that is not
    enough)."""
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
"""One core hashes, encodes and merges, as nodes are built now; and as they could be."""


@dataclass(frozen=True)
class Row:
    """A row of the table. `round_s` is the training of the shortest round with a utilisation of 0.96 or more,
    None if no round is long enough because solvers differ too much."""

    params: float
    mbit_s: int
    block_s: int
    cores: int
    round_s: float | None
    bottleneck: str


def make_row(params: float, mbit_s: int, block_s: int, cores: int, constants: Constants) -> Row:
    """Makes one row."""
    speed = to_bytes_s(mbit_s)
    setting = Setting(params, speed, speed, BLOCKS[block_s], cores=cores)
    shortest = find_round(setting, constants)
    looked_at = LONGEST_S if shortest is None else A_LITTLE_SHORTER * shortest
    bottleneck = find_bottleneck(setting, constants, looked_at)
    return Row(params, mbit_s, block_s, cores, shortest, bottleneck)


def make_table(
    constants: Constants, parameters: Sequence[float] = PARAMETERS, cores: Sequence[int] = CORES
) -> list[Row]:
    """Makes all rows."""
    return [
        make_row(params, mbit_s, block_s, count, constants)
        for count in cores
        for params in parameters
        for mbit_s in MBIT_S
        for block_s in BLOCKS
    ]


def show_row(row: Row) -> dict[str, Any]:
    """Returns a row as JSON, rounded to a tenth of a second."""
    return {
        name: round(value, 1) if isinstance(value, float) else value for name, value in asdict(row).items()
    }


WIDTH, HEIGHT = 860, 400
LEFT, TOP, PANEL, BETWEEN, TALL = 70, 62, 350, 60, 240
COLOURS = {100: "#c8553d", 1_000: "#1b6ca8", 10_000: "#3c8d5a"}
DASHES = {1: "", 16: ' stroke-dasharray="5 4"'}
"""Line styles by cores."""
SIZES = {1e7: "10 M", 1e8: "100 M", 1e9: "1 B", 1e10: "10 B"}
MARKS = {60.0: "1 min", 600.0: "10 min", 3_600.0: "1 h", 86_400.0: "1 day"}
TITLE = "Shortest round in which solvers train 96 % of the time"


def build_chart(rows: Sequence[Row]) -> str:
    """Returns the whole picture. Raises ValueError if no row has a round."""
    powers = _find_powers(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11" fill="#222">',
        '<rect width="100%" height="100%" fill="white"/>',
        draw_text(WIDTH / 2, 20, TITLE, "middle", 14),
    ]
    for place, block_s in enumerate(BLOCKS):
        left = LEFT + place * (PANEL + BETWEEN)
        parts += _draw_axes(left, block_s, powers)
        parts += _draw_lines(left, [row for row in rows if row.block_s == block_s], powers)
    return "\n".join([*parts, *_draw_legend(), "</svg>\n"])


def _find_powers(rows: Sequence[Row]) -> tuple[int, int]:
    """Returns the powers of ten at the ends of the vertical axis."""
    found = [log10(row.round_s) for row in rows if row.round_s]
    if not found:
        raise ValueError("nothing to draw: expected a row with a round, all have none")
    return floor(min(found)), ceil(max(found))


def _across(left: float, params: float) -> float:
    return left + (log10(params) - 7) / 3 * PANEL


def _down(seconds: float, powers: tuple[int, int]) -> float:
    low, high = powers
    return TOP + TALL * (1 - (log10(seconds) - low) / (high - low))


def _draw_axes(left: float, block_s: int, powers: tuple[int, int]) -> Iterator[str]:
    right, bottom = left + PANEL, TOP + TALL
    yield draw_text((left + right) / 2, TOP - 14, f"blocks of {block_s} s", "middle", 12)
    for power in range(powers[0], powers[1] + 1):
        y = _down(10.0**power, powers)
        yield f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>'
        yield draw_text(left - 6, y + 4, f"{10**power:,}", "end")
    for seconds, name in MARKS.items():
        y = _down(seconds, powers)
        if TOP <= y <= bottom:
            yield f'<path d="M{left} {y:.1f}H{right}" stroke="#aaa" stroke-dasharray="1 4"/>'
            yield draw_text(left + 4, y - 3, name, "start", 9)
    for params, name in SIZES.items():
        yield draw_text(_across(left, params), bottom + 16, name, "middle")
    yield f'<rect x="{left}" y="{TOP}" width="{PANEL}" height="{TALL}" fill="none" stroke="#999"/>'
    yield draw_text((left + right) / 2, bottom + 34, "parameters", "middle")
    yield draw_text(left - 6, TOP - 14, "training of a round, s", "middle", 10)


def _draw_lines(left: float, rows: Sequence[Row], powers: tuple[int, int]) -> Iterator[str]:
    for cores, dash in DASHES.items():
        for mbit_s, colour in COLOURS.items():
            points = [
                f"{_across(left, row.params):.1f} {_down(row.round_s, powers):.1f}"
                for row in rows
                if row.cores == cores and row.mbit_s == mbit_s and row.round_s
            ]
            if points:
                path = "L".join(points)
                yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'


def _draw_legend() -> Iterator[str]:
    y = TOP + TALL + 58
    names = {100: "100 Mbit/s", 1_000: "1 Gbit/s", 10_000: "10 Gbit/s"}
    for place, mbit_s in enumerate(MBIT_S):
        x = LEFT + 130 * place
        yield f'<path d="M{x} {y}h26" stroke="{COLOURS[mbit_s]}" stroke-width="2"/>'
        yield draw_text(x + 32, y + 4, names[mbit_s], "start")
    said = {1: "one core hashes, encodes and merges, as nodes are built", 16: "16 cores do"}
    for place, (cores, dash) in enumerate(DASHES.items()):
        x = LEFT + 400 * place
        yield f'<path d="M{x} {y + 22}h26" stroke="#222" stroke-width="2"{dash}/>'
        yield draw_text(x + 32, y + 26, said[cores], "start")
