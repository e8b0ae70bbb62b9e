"""Builds `report.html`: one self-contained page of a run, without scripts and without the network."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from touchstone.demo.charts import draw_heldout, draw_training
from touchstone.demo.report import COLUMNS
from touchstone.demo.results import describe_gas, describe_utilisation
from touchstone.demo.screen import TimelineEntry
from touchstone.demo.verdict import Finding
from touchstone.explorer.conviction_words import describe_number
from touchstone.explorer.names import show_wei

Report = Mapping[str, Any]

STYLE = """
:root { color-scheme: light dark; --good: #1e6b40; --bad: #b3261e; --blue: #1b5f96;
  --line: #8886; --about: #8888; --card: #f6f1ee; }
@media (prefers-color-scheme: dark) {
  :root { --good: #6fd89b; --bad: #ff9d8f; --blue: #8cc4ff; --line: #fff3; --about: #fff6; --card: #2a2220; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); }
th { text-align: left; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); } .who { white-space: nowrap; }
.card { background: var(--card); border-left: 6px solid var(--bad); padding: 1rem 1.5rem; }
.card { overflow-wrap: anywhere; }
.card.calm { border-color: var(--good); } .card h1 { margin: 0 0 .5rem; }
.timeline { max-height: 34rem; overflow: auto; border: 1px solid var(--line); }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0 1.2rem; }
svg { max-width: 100%; height: auto; } svg text { fill: currentColor; font-size: 12px; }
"""
SHOWN_TERMS = 8
"""Of a long sum."""


def build_page(report: Report, findings: Sequence[Finding], timeline: Sequence[TimelineEntry]) -> str:
    """Returns the page: the convicted number, losses, money, code and machine, verdict, costs, timeline."""
    is_good = all(finding.holds for finding in findings)
    parts = (
        ("Held-out loss of the model", draw_heldout(report)),
        ("Training loss of each solver, the cheat beside the honest", draw_training(report)),
        ("Money, in tokens", _tabulate_money(report)),
        ("Code and machine", _list_origin(report)),
        ("All of it holds" if is_good else "Something is wrong", _list_findings(findings)),
        ("Costs", _list_costs(report)),
        ("Timeline", _tabulate_timeline(timeline)),
    )
    body = "\n".join(f"<h2>{escape(title)}</h2>\n{content}" for title, content in parts)
    head = f'<meta charset="utf-8"><title>Touchstone: a run of the demo</title><style>{STYLE}</style>'
    body = f"{_show_cards(report['convicted_numbers'])}\n{_head(report)}\n{body}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _head(report: Report) -> str:
    cast = ", ".join(one["name"] for one in report["parties"])
    size = f"{report['task_rounds']} rounds, {report['wall_s']:.0f} s, {report['blocks']} blocks"
    return f"<p>{escape(f'A run of the Touchstone demo. {size}. Parties: {cast}.')}</p>"


def _list_origin(report: Report) -> str:
    items = "".join(
        f"<li>{escape(name)}: {escape(str(value))}</li>" for name, value in report["origin"].items()
    )
    return f"<ul>{items}</ul>"


def _list_findings(findings: Sequence[Finding]) -> str:
    marks = {True: '<span class="good">ok</span>', False: '<span class="bad">WRONG</span>'}
    items = (f"<li>{marks[finding.holds]} {escape(finding.statement_key)}</li>" for finding in findings)
    return f"<ul>{''.join(items)}</ul>"


def _show_cards(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    found = [_show_card(name, number) for name, number in numbers.items()]
    return "".join(found) or '<div class="card calm"><h1>No party was convicted.</h1></div>'


def _show_card(name: str, number: Mapping[str, Any]) -> str:
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
    title = f"{describe_number(name, number['claimed'], number['exact_shown'])}."
    about = f"{name} lost its stake for this number. The contract computed it again from the operands."
    return f'<div class="card"><h1>{escape(title)}</h1><p>{escape(about)}</p>{table}</div>'


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
