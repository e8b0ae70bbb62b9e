"""Builds `report.html`: one self-contained page of a run, without scripts and without the network."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from touchstone.demo.report import COLUMNS
from touchstone.demo.screen import TimelineEntry, describe_gas, describe_utilisation
from touchstone.demo.verdict import Finding
from touchstone.explorer.names import show_wei

Report = Mapping[str, Any]

STYLE = """
:root { color-scheme: light dark; --good: #2a7d4f; --bad: #c0392b; --line: #8886; --about: #8888; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); }
th { text-align: left; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); } .who { white-space: nowrap; }
.number-box { border-left: 4px solid var(--bad); padding-left: 1rem; overflow-wrap: anywhere; }
.timeline { max-height: 34rem; overflow: auto; border: 1px solid var(--line); }
svg { max-width: 100%; } svg text { fill: currentColor; font-size: 12px; }
"""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 240, 60, 40, 14
"""Pixels of the chart, and its margins."""
SHOWN_TERMS = 8
"""Of a long sum."""


def build_page(report: Report, findings: Sequence[Finding], timeline: Sequence[TimelineEntry]) -> str:
    """Returns the whole page: verdict, loss, convicted numbers, money, costs, timeline."""
    is_good = all(finding.holds for finding in findings)
    parts = (
        ("All of it holds" if is_good else "Something is wrong", _list_findings(findings)),
        ("Held-out loss of the global model", _draw_loss([one["loss"] for one in report["loss"]])),
        ("The convicted number", _show_numbers(report["convicted_numbers"])),
        ("Money, in tokens", _tabulate_money(report)),
        ("Costs", _list_costs(report)),
        ("Timeline", _tabulate_timeline(timeline)),
    )
    body = "\n".join(f"<h2>{escape(title)}</h2>\n{content}" for title, content in parts)
    head = f'<meta charset="utf-8"><title>Touchstone: a run of the demo</title><style>{STYLE}</style>'
    body = f"{_head(report)}\n{body}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _head(report: Report) -> str:
    cast = ", ".join(one["name"] for one in report["parties"])
    size = f"{report['task_rounds']} rounds, {report['wall_s']:.0f} s, {report['blocks']} blocks"
    return f"<h1>Touchstone: a run of the demo</h1><p>{escape(f'{size}. Parties: {cast}.')}</p>"


def _list_findings(findings: Sequence[Finding]) -> str:
    marks = {True: '<span class="good">ok</span>', False: '<span class="bad">WRONG</span>'}
    items = (f"<li>{marks[finding.holds]} {escape(finding.statement_key)}</li>" for finding in findings)
    return f"<ul>{''.join(items)}</ul>"


def _draw_loss(losses: Sequence[float]) -> str:
    """Nats per byte by round: the untrained model, then the model after each round."""
    most = max(losses) * 1.05
    step = (WIDTH - LEFT - 20) / max(1, len(losses) - 1)
    places = [
        (LEFT + step * i, TOP + (HEIGHT - TOP - BOTTOM) * (1 - loss / most)) for i, loss in enumerate(losses)
    ]
    floor = HEIGHT - BOTTOM
    names = ["untrained", *(f"round {index}" for index in range(len(losses) - 1))]
    marks = [f'<path d="M{LEFT} {TOP}V{floor}H{WIDTH - 10}" fill="none" stroke="var(--about)"/>']
    for (x, y), name, loss in zip(places, names, losses, strict=True):
        anchor = "start" if x == LEFT else "middle"
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1b6ca8"/>',
            f'<text x="{x + 6:.1f}" y="{y - 8:.1f}" text-anchor="{anchor}">{loss:.3f}</text>',
            f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="{anchor}">{name}</text>',
        ]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    marks.append(f'<path d="M{line}" fill="none" stroke="#1b6ca8" stroke-width="2"/>')
    marks.append(f'<text x="{LEFT - 8}" y="{floor}" text-anchor="end">0</text>')
    marks.append(f'<text transform="translate(16 {HEIGHT - BOTTOM}) rotate(-90)">nats per byte</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{"".join(marks)}</svg>'


def _show_numbers(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    found = [_show_number(name, number) for name, number in numbers.items()]
    return "".join(found) or "<p>No party was convicted.</p>"


def _show_number(name: str, number: Mapping[str, Any]) -> str:
    terms = [" and ".join(term) for term in number["operands"]]
    rest = f"; ... {len(terms)} terms, all in report.json" if len(terms) > SHOWN_TERMS else ""
    rows = (
        ("operation", f"{number['operation']}, element {number['element']} of node {number['node']}"),
        ("operands", "; ".join(terms[:SHOWN_TERMS]) + rest),
        ("claimed", number["claimed"]),
        ("exact", number["exact_shown"]),
        ("allowed distance", number["bound_shown"]),
        ("verdict", "farther off than allowed: a fault" if number["is_fault"] else "within the bound"),
    )
    table = _tabulate((), ([_cell(key), _cell(value)] for key, value in rows))
    about = f"{name} lost its stake for this number. The contract computed it again from the operands."
    return f'<div class="number-box"><p>{escape(about)}</p>{table}</div>'


def _tabulate_money(report: Report) -> str:
    rows = [
        [
            _cell(one["name"] if one["is_honest"] else f"{one['name']} (cheat)"),
            *(_cell(_tokens(one["moved"].get(reason, 0)), "number") for reason in COLUMNS),
            _cell(_tokens(one["change"]), "number"),
        ]
        for one in report["parties"]
    ]
    burned = (_cell(_tokens(report["burned_from"].get(reason, 0)), "number") for reason in COLUMNS)
    rows.append([_cell("burned"), *burned, _cell(_tokens(report["burned"]), "number")])
    return _tabulate(("party", *COLUMNS, "in the wallet"), rows)


def _tokens(wei: int) -> str:
    return show_wei(wei).split()[0] if wei else "0"


def _list_costs(report: Report) -> str:
    lines = (*describe_utilisation(report["utilisation"]), *describe_gas(report["gas"]))
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _tabulate_timeline(timeline: Sequence[TimelineEntry]) -> str:
    rows = (
        [_cell(f"{entry.seconds:.1f}", "number"), _cell(entry.who, "who"), _cell(entry.line)]
        for entry in timeline
    )
    return f'<div class="timeline">{_tabulate(("s", "who", "what"), rows)}</div>'


def _tabulate(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = [f"<th>{escape(title)}</th>" for title in titles]
    lines = ["".join(row) for row in ([head] if head else []) + [list(row) for row in rows]]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"
