"""docs/utilisation.svg: the shortest round by size of the model, a line for each bandwidth, a panel for each
block time. It has a background of its own, so that it reads the same on light and dark pages.
"""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from lab.benchmarks.reports import draw_text
from lab.benchmarks.utilisation_model.constants import BLOCKS
from lab.benchmarks.utilisation_model.shortest import MBIT_S, Row

WIDTH, HEIGHT = 860, 400
LEFT, TOP, PANEL, BETWEEN, TALL = 70, 62, 350, 60, 240
COLOURS = {100: "#c8553d", 1_000: "#1b6ca8", 10_000: "#3c8d5a"}
DASHES = {1: "", 16: ' stroke-dasharray="5 4"'}
"""By cores."""
SIZES = {1e7: "10 M", 1e8: "100 M", 1e9: "1 B", 1e10: "10 B"}
MARKS = {60.0: "1 min", 600.0: "10 min", 3_600.0: "1 h", 86_400.0: "1 day"}
TITLE = "Shortest round in which solvers train 96 % of the time"


def build_chart(rows: Sequence[Row]) -> str:
    """The whole picture. Raises ValueError where no row has a round."""
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
    """Powers of ten of the upright axis."""
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
