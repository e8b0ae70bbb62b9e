"""Line charts as plain SVG: a few panels side by side, nothing to install."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path

COLOURS = ("#1b6ca8", "#c8553d", "#3c8d5a", "#7d5ba6", "#b0892f", "#666666")
WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 40, 46
LEGEND_LINE = 15
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """lines: points by name; x_ticks: values to name on a logarithmic x axis, none on a linear one; dashed:
    names of dashed lines. On a logarithmic y axis what is not positive is left out."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]
    x_ticks: tuple[float, ...] = ()
    is_log_y: bool = False
    dashed: frozenset[str] = frozenset()


def write_chart(path: Path, panels: Sequence[Panel]) -> None:
    """Writes the panels side by side."""
    height = HEIGHT + LEGEND_LINE * max(len(panel.lines) for panel in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(panels)} {height}" '
        'font-family="sans-serif" font-size="11" fill="#222">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * WIDTH},0)">', *_draw(panel), "</g>"]
    path.write_text("\n".join([*parts, "</svg>\n"]))


Scale = Callable[[float], float]


def _draw(panel: Panel) -> list[str]:
    lines = {name: [p for p in line if p[1] > 0 or not panel.is_log_y] for name, line in panel.lines.items()}
    points = [point for line in lines.values() for point in line]
    across, along = [p[0] for p in points], [p[1] for p in points]
    x, x_ticks = _scale(across, LEFT, WIDTH - RIGHT)
    if panel.x_ticks:
        x, x_ticks = _log_scale(panel.x_ticks, LEFT + 30, WIDTH - RIGHT - 30)
    y, y_ticks = _scale(along, HEIGHT - BOTTOM, TOP)
    if panel.is_log_y:
        y, y_ticks = _log_scale(_list_powers(along), HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        _text(middle, 20, panel.title, "middle", 'font-weight="bold"'),
        _text(middle, HEIGHT - 10, panel.x_label, "middle"),
        _text(LEFT - 50, TOP - 8, panel.y_label, "start"),
    ]
    for value in x_ticks:
        parts.append(_text(x(value), HEIGHT - BOTTOM + 15, f"{value:g}", "middle"))
    for value in y_ticks:
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:.3g}", "end"))
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd" stroke-width="1"/>')
    for number, (name, line) in enumerate(lines.items()):
        parts += _draw_line(number, name, [(x(a), y(b)) for a, b in line], name in panel.dashed)
    return parts


def _draw_line(number: int, name: str, places: Points, is_dashed: bool) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    dash = ' stroke-dasharray="5 3"' if is_dashed else ""
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    bottom = HEIGHT + LEGEND_LINE * number
    parts = [
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>',
        f'<path d="M{LEFT} {bottom}h22" stroke="{colour}" stroke-width="1.8"{dash}/>',
        _text(LEFT + 28, bottom + 4, name, "start"),
    ]
    if len(places) <= 8:
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{colour}"/>' for a, b in places]
    return parts


def _text(x: float, y: float, text: str, anchor: str, extra: str = "") -> str:
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{safe}</text>'


def _scale(values: Sequence[float], start: float, stop: float) -> tuple[Scale, list[float]]:
    """From values to places, and the values to name."""
    step = _choose_step(max(values) - min(values))
    lowest, highest = floor(min(values) / step) * step, ceil(max(values) / step) * step
    highest = max(highest, lowest + step)
    ticks = [lowest + step * n for n in range(round((highest - lowest) / step) + 1)]
    return lambda value: start + (value - lowest) / (highest - lowest) * (stop - start), ticks


def _log_scale(ticks: Sequence[float], start: float, stop: float) -> tuple[Scale, list[float]]:
    """The same from the first tick to the last, two at least."""
    first, last = log10(ticks[0]), log10(ticks[-1])
    return lambda value: start + (log10(value) - first) / (last - first) * (stop - start), list(ticks)


def _list_powers(values: Sequence[float]) -> list[float]:
    """Powers of ten around positive values."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return [10.0**n for n in range(low, max(high, low + 1) + 1)]


def _choose_step(span: float) -> float:
    """1, 2 or 5 times a power of ten, about five to the span."""
    if span <= 0:
        return 1.0
    power = 10.0 ** floor(log10(span / 5))
    return min((power * factor for factor in (1, 2, 5, 10)), key=lambda step: abs(span / step - 5))
