"""Writes the scoreboard, docs/scoreboard.md and .svg, from docs/scoreboard.json alone.

The JSON holds the figures of the last full run of `./dev attacks`. A test writes both pages again and
compares.
"""

import json
from collections.abc import Iterator
from math import log10
from pathlib import Path
from typing import Any

from lab.benchmarks.hunting.seam import compute_share_beyond, list_bins
from lab.benchmarks.replays.pairs import RATIO_UNIT
from lab.benchmarks.reports import draw_text
from tests.e2e.world import AMOUNTS

DOCS = Path(__file__).resolve().parents[3] / "docs"
TINY_SEAT_WEI = AMOUNTS.auditor_stake
POISON_NATS = 2.178
"""The loss of the sentence that docs/decisions/0011-chunks.md steers towards if nobody steers. This much must
be gained before the model says the sentence."""
DIGITS = 4
KEPT = (
    "number",
    "name",
    "samples",
    "detected",
    "margin",
    "median",
    "largest",
    "saved",
    "step_excess",
    "kept",
    "moved",
    "loss",
    "net",
    "bearable_gain",
    "on_chain",
    "weakest",
)
# Figures
Figures = dict[str, Any]


def distil(report: dict[str, Any]) -> Figures:
    """Returns the figures of a report that the pages show, with four digits."""
    honest, chain = report["honest"], report["chain"]
    counts = ("replays", "start_states", "configurations", "rejected", "noise", "ill_conditioned")
    figures = {
        "honest": None if honest is None else {name: honest[name] for name in (*counts, "histogram")},
        "attacks": [{name: attack[name] for name in KEPT} for attack in report["attacks"]],
        "adaptive": report["adaptive"],
        "plays": report["plays"],
        "histogram": report["histogram"],
        "arenas": report["arenas"],
        "verifiers": report["verifiers"],
        "chain": {name: value for name, value in chain.items() if name not in ("attacks", "seconds")},
        "played_on_chain": len(chain["attacks"]),
        "deal": report["deal"],
        "quick": report["quick"],
    }
    rounded: Figures = _round(figures)
    return rounded


def _round(value: Any) -> Any:
    """Rounds every float to four digits, so that the pages do not change with the last bit."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round(item) for key, item in value.items()}
    return [_round(item) for item in value] if isinstance(value, list | tuple) else value


def keep_campaign(figures: Figures, published: Figures) -> Figures:
    """Returns the figures with the published honest campaign, if that has more replays. The distances of
    honest machines do not depend on the attacks."""
    mine, kept = figures["honest"], published["honest"]
    has_more = kept is not None and (mine is None or kept["replays"] > mine["replays"])
    return {**figures, "honest": kept, "is_honest_kept": True} if has_more else figures


def publish(report: dict[str, Any]) -> None:
    """Writes all three files."""
    published = json.loads((DOCS / "scoreboard.json").read_text())
    figures = keep_campaign(distil(report), published)
    (DOCS / "scoreboard.json").write_text(json.dumps(figures, indent=1) + "\n")
    (DOCS / "scoreboard.md").write_text(build_page(figures))
    (DOCS / "scoreboard.svg").write_text(build_chart(figures))


# The page
def build_page(figures: Figures) -> str:
    """Returns the text of docs/scoreboard.md."""
    sections = (
        _introduce(figures),
        _describe_honest(figures),
        _list_attacks(figures),
        _describe_chain(figures),
        _list_plays(figures),
        _describe_steer(figures),
        _describe_arenas(figures),
    )
    return "\n".join("\n".join(section) + "\n" for section in sections)


def _introduce(figures: Figures) -> list[str]:
    is_whole = figures["honest"] is not None and figures["adaptive"] is not None
    run = "a quick run" if figures["quick"] else "the last full run" if is_whole else "a run of cheats only"
    return [
        "# Scoreboard: honest machines and cheats",
        "",
        f"Written from `docs/scoreboard.json`, the figures of {run} of `./dev attacks`; do not edit. How it",
        "is measured and what it does not show: `docs/decisions/0016-attacks.md`.",
        "",
        "![Distances of honest machines and cheats over the limit](scoreboard.svg)",
    ]


def _describe_honest(figures: Figures) -> list[str]:
    honest = figures["honest"]
    if honest is None:
        return ["## Honest machines", "", "Not part of this run."]
    voided = honest["rejected"] + honest["noise"]
    return [
        "## Honest machines",
        "",
        *(["The campaign of an earlier run.", ""] if figures.get("is_honest_kept") else []),
        "Beyond the limits: a vote would reject these honest claims. Loud: ill-conditioned segments,",
        "whose own noise is far above their run's median; limits rest on the others",
        "(`docs/decisions/0024-conditioning.md`).",
        "",
        "| replays | start states | configurations | beyond the limits | share | loud segments |",
        "|---|---|---|---|---|---|",
        f"| {honest['replays']:,} | {honest['start_states']:,} | {honest['configurations']} "
        f"| {voided} | {voided / honest['replays']:.2g} | {honest['ill_conditioned']} |",
    ]


def _list_attacks(figures: Figures) -> list[str]:
    rows = [_describe_attack(attack) for attack in figures["attacks"]]
    return [
        "## Attacks of solvers",
        "",
        "A sample is one claim seen by one verifier. Rejected: void, unmerged, unpaid. Margin: the",
        "smallest distance over the limit of all samples. Steps: the worst step, over the limit of a",
        "step, of the best defence that the claimant can show before it is disputed; at 1 or below none",
        "disputes, and the seat is kept. Seat: rejected claims that keep it. Moved: W's distance from",
        "honest work over the update, at most; loss: what that does to the held-out loss at a segment's",
        "end, nats. Saved: share of the honest compute. Net: tokens beyond honest work at the sampling",
        "and amounts of `scripts/tasks/task.toml`, half of all auditors owned. Worth: what one spoiled "
        "segment",
        "must be worth to an outsider before it pays, the same half owned.",
        "",
        "| # | attack | samples | rejected | margin | steps | seat | moved | loss | saved | net | worth "
        "| over Anvil |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _describe_attack(attack: dict[str, Any]) -> str:
    status = (attack["on_chain"] or "-").lower()
    steps = "-" if attack["step_excess"] is None else _notify(attack["step_excess"])
    return (
        f"| {attack['number']} | {attack['name']} | {attack['samples']} | {attack['detected']:.1%} "
        f"| {_notify(attack['margin'])} | {steps} | {attack['kept']} | {attack['moved']:.2g} "
        f"| {attack['loss']:+.2g} | {attack['saved']:.0%} | {attack['net']:.1f} "
        f"| {attack['bearable_gain']:.0f} | {status} |"
    )


def _describe_chain(figures: Figures) -> list[str]:
    chain = figures["chain"]
    lines = [
        "## Over a real chain",
        "",
        f"{figures['played_on_chain']} attacks as solvers of {chain['rounds']} rounds: {chain['caught']} "
        f"caught, {chain['convicted']} convicted by computation, {chain['idle']} changed no bit there and",
        f"were no cheats; honest parties lost {chain['honest_lost']} wei in stakes and bonds.",
    ]
    if chain["collusion"] is not None:
        [outcome] = chain["collusion"]["outcomes"]
        lines += [
            "",
            "With half of the verifiers on its side, who say in all audits of its claim what it says,",
            f"'{outcome['name']}' ended as {outcome['status'].lower()}; the accomplices lost "
            f"{chain['collusion']['accomplice_lost']} wei (a seat is {TINY_SEAT_WEI}),",
            "and the claim of the honest "
            f"solver beside it ended as {chain['collusion']['honest_status'].lower()}.",
        ]
    return lines


def _list_plays(figures: Figures) -> list[str]:
    return [
        "## What other attacks earn",
        "",
        "| # | attack | net, tokens |",
        "|---|---|---|",
        *(f"| {play['number']} | {play['name']} | {play['net']:.2f} |" for play in figures["plays"]),
    ]


def _describe_steer(figures: Figures) -> list[str]:
    adaptive = figures["adaptive"]
    lines = ["## Steer of an adversary who knows the limits", ""]
    if not adaptive:
        return [*lines, "Not part of this run."]
    rows = [_describe_plan(name, plan) for name, plan in adaptive["plans"].items()]
    share, honest = -adaptive["best"]["objective_nats"] / POISON_NATS, adaptive["honest"]
    return [
        *lines,
        f"{adaptive['steps']:,} steps. Riders stay inside the limits: nothing tells of them, and nothing",
        "costs them anything, unless honest noise on top carries them outside. Drift stays inside the",
        "limits of each step: audits reject it, a void round is honest work's, and where the worst step is",
        "at 1 or below no seat is lost. A sentence that the model shall say needs",
        f"{POISON_NATS} nats (`docs/decisions/0011-chunks.md`); the best plan gained {share:.2g} of that.",
        f"Honest machines part by {honest['objective_spread_nats']:.2g} nats of it in the whole run,",
        f"and in one step by {honest['worst_step_excess']:.2g} of its limit.",
        "",
        "| plan | audits accepted | rounds void | worst step | steer a step, lr | objective, nats "
        "| held-out, nats | beyond honest spread from round |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _describe_plan(name: str, plan: dict[str, Any]) -> str:
    beyond = plan["objective_beyond_spread_round"]
    return (
        f"| {name} | {plan['accepted']} of {plan['audits']} | {plan['voided']} of {plan['rounds']} "
        f"| {plan['step_excess']:.3g} | {plan['steer_in_learning_rates']:.2g} "
        f"| {plan['objective_nats']:+.2g} | {plan['heldout_nats']:+.2g} "
        f"| {'never' if beyond is None else beyond} |"
    )


def _describe_arenas(figures: Figures) -> list[str]:
    rows = [
        f"| {a['parameters']:,} | {a['segment_steps']} | {a['segments']} | {a['attacked_segments']} "
        f"| {a['honest_pairs']:,} | {a['limits']['tau_m']:.2g} | {a['limits']['tau_v']:.2g} "
        f"| {a['limits']['tau_w']:.2g} |"
        for a in figures["arenas"]
    ]
    return [
        "## Where it was fought",
        "",
        f"Verifiers: {', '.join(figures['verifiers'])}.",
        "",
        "| parameters | k | segments | attacked | honest pairs | limit m | limit v | limit W |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _notify(value: float) -> str:
    return f"{value:.3g}" if value < 1e4 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


# The chart
WIDTH, LEFT, RIGHT, TOP = 900, 290, 24, 56
ROW, BARS = 13, 90
LOW, HIGH = -5, 11
"""Powers of ten at the ends of the axis."""
ROC = 240
HONEST_COLOUR, CHEAT_COLOUR, LIMIT_COLOUR = "#3c8d5a", "#1b6ca8", "#c8553d"


def build_chart(figures: Figures) -> str:
    """Returns docs/scoreboard.svg: honest and cheating distances on one axis with the limit, and below it how
    well they can be told apart."""
    attacks = [attack for attack in figures["attacks"] if attack["number"] != "23"]
    bottom = TOP + BARS + ROW * len(attacks) + 16
    height = bottom + 40 + ROC + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="10" fill="#222">',
        '<rect width="100%" height="100%" fill="white"/>',
        draw_text(WIDTH / 2, 20, "Distance of claims from replays, over the limit", "middle", 13),
        *_draw_axis(bottom),
        *_draw_honest(figures),
        *(line for place, attack in enumerate(attacks) for line in _draw_attack(place, attack)),
        *_draw_limit(bottom),
        *_draw_roc(figures, bottom + 60),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _place(value: float) -> float:
    """Returns the horizontal place of a distance."""
    power = min(max(log10(max(value, 10.0**LOW)), LOW), HIGH)
    return LEFT + (power - LOW) / (HIGH - LOW) * (WIDTH - LEFT - RIGHT)


def _draw_axis(bottom: float) -> Iterator[str]:
    for power in range(LOW, HIGH + 1, 2):
        x = _place(10.0**power)
        yield f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>'
        yield draw_text(x, bottom + 14, f"1e{power}", "middle", 10)


def _draw_limit(bottom: float) -> Iterator[str]:
    x = _place(1.0)
    yield f'<path d="M{x:.1f} {TOP - 12}V{bottom}" stroke="{LIMIT_COLOUR}" stroke-dasharray="4 3"/>'
    yield draw_text(x, TOP - 16, " the limit", "start", 10)


def _draw_honest(figures: Figures) -> Iterator[str]:
    """Draws bars: honest pairs by tenths of a decade; the campaign counts in RATIO_UNIT."""
    yield draw_text(LEFT - 8, TOP + BARS / 2, "honest machines (share of pairs, log)", "end", 10)
    if figures["honest"] is None:
        return
    bins = list_bins(figures["honest"]["histogram"])
    most = log10(max(count for _, count in bins) + 1)
    step = bins[1][0] / bins[0][0] if len(bins) > 1 else 1.26
    for edge, count in bins:
        if count:
            x, end = _place(edge * RATIO_UNIT), _place(edge * step * RATIO_UNIT)
            tall = (BARS - 14) * log10(count + 1) / most
            base = TOP + BARS - 8
            yield (
                f'<rect x="{x:.1f}" y="{base - tall:.1f}" width="{end - x:.1f}" height="{tall:.1f}" '
                f'fill="{HONEST_COLOUR}"/>'
            )


def _draw_attack(place: int, attack: dict[str, Any]) -> Iterator[str]:
    """Draws a line from the smallest distance to the largest, with a dot at the median."""
    y = TOP + BARS + ROW * place + ROW / 2
    yield draw_text(LEFT - 8, y + 3, f"{attack['number']}  {attack['name']}", "end", 10)
    if attack["samples"]:
        low, middle, high = (_place(attack[name]) for name in ("margin", "median", "largest"))
        yield f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{CHEAT_COLOUR}" stroke-width="3"/>'
        yield f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="3.2" fill="{CHEAT_COLOUR}"/>'


def list_roc(figures: Figures) -> list[tuple[float, float, float]]:
    """Returns (threshold over the limit, share of honest pairs beyond it, share of cheats beyond it)."""
    if figures["honest"] is None:
        return []
    honest, cheats = figures["honest"]["histogram"], figures["histogram"]
    edges = [edge for edge, _ in list_bins(honest)] + [1 / RATIO_UNIT]
    thresholds = sorted({edge * RATIO_UNIT for edge in edges} | {edge for edge, _ in list_bins(cheats)})
    return [
        (t, compute_share_beyond(honest, t / RATIO_UNIT), compute_share_beyond(cheats, t)) for t in thresholds
    ]


def _draw_roc(figures: Figures, top: float) -> Iterator[str]:
    """Draws false alarms (horizontal, log) against detection (vertical), for every threshold."""
    points = list_roc(figures)
    left, right = LEFT, WIDTH - RIGHT
    yield draw_text(
        WIDTH / 2,
        top - 12,
        "ROC: share of cheats beyond a threshold, by honest pairs beyond it",
        "middle",
        12,
    )
    yield f'<rect x="{left}" y="{top}" width="{right - left}" height="{ROC}" fill="none" stroke="#999"/>'
    if not points:
        yield draw_text((left + right) / 2, top + ROC / 2, "no honest figures in this run", "middle", 10)
        return
    least = -7

    def put(alarm: float, seen: float) -> str:
        power = max(log10(alarm), least) if alarm else least
        return f"{left + (power - least) / -least * (right - left):.1f} {top + ROC * (1 - seen):.1f}"

    path = "L".join(put(alarm, seen) for _, alarm, seen in points)
    yield f'<path d="M{path}" fill="none" stroke="{CHEAT_COLOUR}" stroke-width="2"/>'
    for power in range(least, 1):
        x = left + (power - least) / -least * (right - left)
        yield draw_text(x, top + ROC + 14, "none" if power == least else f"1e{power}", "middle", 10)
    for seen in (0.0, 0.5, 1.0):
        yield draw_text(left - 6, top + ROC * (1 - seen) + 4, f"{seen:.0%}", "end", 10)
    at_limit = min(points, key=lambda point: abs(point[0] - 1))
    across, down = put(at_limit[1], at_limit[2]).split()
    yield f'<circle cx="{across}" cy="{down}" r="4" fill="{LIMIT_COLOUR}"/>'
    yield draw_text(float(across) + 8, float(down) + 14, "the limit", "start", 10)
