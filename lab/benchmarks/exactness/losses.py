"""Compares the losses of exact tasks with those of float32, over three seeds, and draws their curves."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.benchmarks.exactness.walking import Run, Walk, Way, start_worker
from lab.benchmarks.reports import BUILD, draw_text

AT_ONCE = 2
"""Workers at the same time; nothing is timed."""
SEEDS = (0, 1, 2)
POINTS = 100
"""The points of a curve; each is the mean over equally many steps."""


def compare_losses(
    losses: Mapping[str, tuple[Sequence[str], int]], mean: int, way: Way, folder: Path
) -> dict[str, Any]:
    """Returns, by model and format, the losses of three seeds over the last `mean` steps, their mean, and the
    curve of the first seed. `is_as_good` says whether the mean is as near to float32's as two of float32's
    own seeds may be to each other. `losses` gives formats and steps by model."""
    found: dict[str, Any] = {}
    for size, (formats, steps) in losses.items():
        jobs = [(name, seed) for name in formats for seed in SEEDS]
        walks = [Walk(Run(size, *job), 0, steps) for job in jobs]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            lines = list(pool.map(partial(start_worker, way, folder), walks))
        curves = {job: [loss for _, loss in own] for job, own in zip(jobs, lines, strict=True)}
        found[size] = _judge_losses({n: [curves[n, seed] for seed in SEEDS] for n in formats}, mean)
    return found


def _judge_losses(curves: dict[str, list[list[float]]], last: int) -> dict[str, Any]:
    ends = {name: [fmean(curve[-last:]) for curve in own] for name, own in curves.items()}
    spread = max(ends["float32"]) - min(ends["float32"])
    return {
        name: {
            "seeds": own,
            "mean": fmean(own),
            "distance": abs(fmean(own) - fmean(ends["float32"])),
            "allowed": spread,
            "is_as_good": abs(fmean(own) - fmean(ends["float32"])) <= spread,
            "steps": len(curves[name][0]),
            "curve": _thin(curves[name][0]),
        }
        for name, own in ends.items()
    }


def _thin(curve: list[float], points: int = POINTS) -> list[float]:
    size = max(1, len(curve) // points)
    return [fmean(curve[at : at + size]) for at in range(0, len(curve) - size + 1, size)]


# The picture
COLOURS = {"float32": "#222222", "exact8": "#c8553d", "exact15": "#1b6ca8", "exact20": "#3c8d5a"}
WIDTH, HEIGHT, LEFT, TOP, PANEL, TALL = 290, 330, 48, 50, 220, 190
MARKS = 5


def draw_losses(report: Mapping[str, Any], name: str) -> Path:
    """Draws a panel for each model into the report's folder: the first seed's loss by steps, a line for each
    format. The picture has its own background, so that it reads the same on light and dark pages."""
    panels = [part for n, (size, own) in enumerate(report.items()) for part in _draw_panel(n, size, own)]
    legend = [
        f'<path d="M{LEFT + 110 * n} {HEIGHT - 18}h24" stroke="{colour}" stroke-width="2"/>'
        + draw_text(LEFT + 110 * n + 30, HEIGHT - 14, kind, "start")
        for n, (kind, colour) in enumerate(COLOURS.items())
    ]
    width = WIDTH * len(report)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" '
        'font-size="11" fill="#222"><rect width="100%" height="100%" fill="white"/>'
    )
    title = draw_text(width / 2, 18, "Training loss of float32 and of the exact formats", "middle", 14)
    path = BUILD / name / "losses.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([opening, title, *panels, *legend, "</svg>\n"]))
    return path


def _draw_panel(number: int, size: str, own: Mapping[str, Any]) -> list[str]:
    left, bottom = LEFT + number * WIDTH, TOP + TALL
    values = [value for seen in own.values() for value in seen["curve"]]
    low, high = min(values), max(values)
    steps = next(iter(own.values()))["steps"]
    parts = [
        f'<rect x="{left}" y="{TOP}" width="{PANEL}" height="{TALL}" fill="none" stroke="#999"/>',
        draw_text(left + PANEL / 2, TOP - 8, f"{size} parameters", "middle", 12),
        draw_text(left - 40, TOP - 8, "loss, nats", "start", 10),
        draw_text(left + PANEL / 2, bottom + 32, "steps", "middle"),
    ]
    for n in range(MARKS):
        share = n / (MARKS - 1)
        y, x = bottom - share * TALL, left + share * PANEL
        parts += [
            f'<path d="M{left} {y:.1f}h{PANEL}" stroke="#ddd"/>',
            draw_text(left - 5, y + 4, f"{low + share * (high - low):.2f}", "end"),
            draw_text(x, bottom + 16, f"{share * steps:,.0f}", "middle"),
        ]
    for kind, seen in own.items():
        across, down = PANEL / max(1, len(seen["curve"]) - 1), TALL / ((high - low) or 1.0)
        points = (
            f"{left + n * across:.1f} {bottom - (v - low) * down:.1f}" for n, v in enumerate(seen["curve"])
        )
        line = "L".join(points)
        parts.append(f'<path d="M{line}" fill="none" stroke="{COLOURS[kind]}" stroke-width="1.6"/>')
    return parts
