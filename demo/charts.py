"""Draws the losses of a run as SVG, with every label inside of the frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 26, 36
"""Pixels between the frame and the area of the values."""
LETTER = 7
"""Pixels of a letter, about."""
HEADROOM = 1.08
MOST_LOSS = 1.6
"""A training loss of more than this many times the untrained model's is drawn at the upper edge."""


@dataclass(frozen=True)
class Line:
    """A line of a chart: `points` are (x, y); `color` is a variable of the page's style."""

    name: str
    points: Sequence[tuple[float, float]]
    color: str
    is_dashed: bool = False
    has_values: bool = False


def draw_heldout(report: Mapping[str, Any]) -> str:
    """Returns the held-out loss of the model by round, and what it would have been with the cheat."""
    points = [(float(one["rounds_done"]), float(one["loss"])) for one in report["loss"]]
    lines = [Line("the model", points, "--blue", has_values=True)]
    other = report.get("with_cheat")
    if other is not None and other["loss"] is not None and points:
        before = [point for point in points if point[0] == other["round"]]
        false = [*before, (other["round"] + 1.0, other["loss"])]
        lines.append(Line("with the false claim", false, "--bad", is_dashed=True))
    return draw(lines, lambda x: "untrained" if x == 0 else f"round {x - 1:.0f}")


def draw_training(report: Mapping[str, Any]) -> str:
    """Returns the losses that the solvers report of their own steps, the cheat's in another color. Of steps
    that were trained again the last report counts."""
    losses: dict[str, dict[int, float]] = {}
    for one in report["trained"]:
        losses.setdefault(one["name"], {})[one["step"]] = one["loss"]
    first = max((one["loss"] for one in report["loss"][:1]), default=10.0)
    cheats = {one["name"] for one in report["parties"] if not one["is_honest"]}
    lines = [
        Line(
            name,
            [(float(step), min(loss, MOST_LOSS * first)) for step, loss in sorted(found.items())],
            "--bad" if name in cheats else "--blue",
        )
        for name, found in sorted(losses.items(), key=lambda one: one[0] in cheats)
    ]
    return draw(lines, lambda x: f"step {x:.0f}")


def draw(lines: Sequence[Line], name_x: Any) -> str:
    """Returns a chart of the lines; empty if they have no points. `name_x` gives the label of an x."""
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    xs = sorted({x for x, _ in points})
    most, span = HEADROOM * max(y for _, y in points) or 1.0, (xs[-1] - xs[0]) or 1.0
    floor, wide = HEIGHT - BOTTOM, WIDTH - LEFT - RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * (x - xs[0]) / span, floor - (floor - TOP) * y / most

    marks = [f'<path d="M{LEFT} {TOP}V{floor}H{WIDTH - RIGHT}" fill="none" stroke="var(--about)"/>']
    marks += [put_text(place(xs[n], 0)[0], floor + 18, name_x(xs[n])) for n in _choose(len(xs))]
    marks += [put_text(LEFT - 30, floor, "0"), put_text(30, TOP - 10, "nats")]
    for line in lines:
        marks += _draw_line(line, [place(*point) for point in line.points])
    names = [(f"{one.name} (dashed)" if one.is_dashed else one.name, one.color) for one in lines]
    words = "".join(f'<li style="color: var({color})">{escape(name)}</li>' for name, color in names)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(marks)}</svg>'
        f'<ul class="legend">{words}</ul>'
    )


def _choose(count: int, most: int = 5) -> list[int]:
    """Returns which of so many places get a label: at most `most`, the first and the last among them."""
    return sorted({round(n * (count - 1) / max(1, min(count, most) - 1)) for n in range(min(count, most))})


def _draw_line(line: Line, places: Sequence[tuple[float, float]]) -> list[str]:
    color = f"var({line.color})"
    path, dashes = "L".join(f"{x:.1f} {y:.1f}" for x, y in places), ' stroke-dasharray="5 4"'
    marks = [
        f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"{dashes if line.is_dashed else ""}/>'
    ]
    marks += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places]
    if line.has_values:
        marks += [
            put_text(x, y - 8, f"{value:.3f}") for (x, y), (_, value) in zip(places, line.points, strict=True)
        ]
    return marks


def put_text(x: float, y: float, text: str) -> str:
    """Returns a text centered at x, or moved so far that it is inside of the frame."""
    half = LETTER * len(text) / 2
    inside = min(max(x, half), WIDTH - half)
    return f'<text x="{inside:.1f}" y="{max(y, 12):.1f}" text-anchor="middle">{escape(text)}</text>'
