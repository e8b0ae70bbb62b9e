"""The demo's page: complete, self-contained, and safe whatever a line says."""

import re
import time
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from touchstone.demo import screen as screens
from touchstone.demo.charts import HEIGHT, LETTER, WIDTH, draw_heldout, draw_training
from touchstone.demo.hearing import REMARK, Bases
from touchstone.demo.page import STYLE, build_page
from touchstone.demo.scenes import describe_shares
from touchstone.demo.screen import Screen, TimelineEntry
from touchstone.demo.verdict import Finding

NUMBER = {
    "operation": "SUBTRACT", "node": 375, "element": 9, "operands": [["0.5", "0.25"]], "claimed": "0.75",
    "exact_shown": "0.25", "bound_shown": "0", "is_fault": True,
}  # fmt: skip
LOSSES = [{"rounds_done": 0, "loss": 5.5}, {"rounds_done": 1, "loss": 3.25}]
TRAINED = [
    {"name": name, "round": 0, "step": step, "loss": loss}
    for name, step, loss in (("cheat", 4, 5.9), ("cheat", 8, 5.8), ("solver-1", 4, 5.4), ("solver-1", 8, 4.9))
]  # fmt: skip
LINES = [TimelineEntry(1.5, "cheat", "<script>alert(1)</script> & more")]


def make_report(**changes: Any) -> dict[str, Any]:
    cheat = {"name": "cheat", "is_honest": False, "moved": {"lost": -(10**18)}, "change": -(10**18)}
    return {
        "task_rounds": 1, "wall_s": 12.0, "blocks": 34, "loss": LOSSES, "parties": [cheat],
        "burned": 5 * 10**17, "burned_from": {"lost": 3 * 10**17, "spent": 2 * 10**17},
        "convicted_numbers": {"cheat": NUMBER},
        "utilisation": {"all": 0.5, "solvers": {"solver-1": {"train_s": 1.0, "seat_s": 2.0}}},
        "with_cheat": None, "trained": TRAINED, "origin": {"version": "0.1.0", "commit": "abc"},
        "gas": {"per_solver_round": 1, "claims": 1, "of_rounds": 1, "of_questions": 1},
    } | changes  # fmt: skip


class Reader(HTMLParser):
    """Tags, attributes and text of a page; complains about tags that are not closed in their order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: dict[str, str] = {}
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name: value or "" for name, value in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_page_shows_verdict_loss_money_timeline_and_the_convicted_number() -> None:
    findings = [Finding(True, "1 of 1 rounds are merged"), Finding(False, "a wallet is short")]
    text = Reader(build_page(make_report(), findings, LINES)).text
    shown = [
        "cheat wrote 0.75 where 0.25 is right.",
        "commit: abc",
        "Something is wrong",
        "a wallet is short",
        "5.500",
        "3.250",
        "nats",
        "round 0",
    ]
    shown += ["element 9 of node 375", "0.5 and 0.25", "0.75", "0.25", "cheat (cheat)", "-1", "1.5"]
    shown += ["0.3", "0.2"]  # what was burned, by what it was before
    assert [word for word in shown if word not in text] == []


def test_page_needs_no_network_and_runs_no_script() -> None:
    reader = Reader(build_page(make_report(), [], LINES))
    assert "<script>alert(1)</script> & more" in reader.text
    assert reader.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert reader.attributes.keys().isdisjoint({"src", "href", "onload"})


def test_page_without_a_conviction_says_so() -> None:
    page = build_page(make_report(convicted_numbers={}), [Finding(True, "fine")], [])
    assert "No party was convicted." in page and "All of it holds" in page


def test_page_shows_the_first_operands_of_a_long_sum_and_a_claim_that_is_no_number() -> None:
    number = {**NUMBER, "operands": [[str(n), "2"] for n in range(512)], "claimed": "0x7fc00000 (not finite)"}
    text = Reader(build_page(make_report(convicted_numbers={"cheat": number}), [], [])).text
    assert "7 and 2; ... 512 terms" in text and "8 and 2" not in text and "not finite" in text


def test_screen_keeps_each_line_whole_and_wraps_it() -> None:
    shown = StringIO()
    screen = Screen(Console(file=shown, width=60))
    screen.notify("demo", "word " * 60 + "end")
    assert screen.timeline[0].line == "word " * 60 + "end"
    lines = shown.getvalue().splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 160
    assert lines[1].index("word") == lines[0].index("word") and lines[2].endswith("end")


def test_the_page_opens_with_the_conviction() -> None:
    text = Reader(build_page(make_report(), [], LINES)).text
    headings = [
        "cheat wrote",
        "Held-out loss",
        "the cheat beside the honest",
        "Money",
        "Code and machine",
    ]
    places = [text.index(one) for one in headings]
    assert places == sorted(places)


@pytest.mark.parametrize("rounds", [1, 2, 9])
def test_labels_of_a_chart_are_inside_of_the_frame(rounds: int) -> None:
    losses = [{"rounds_done": n, "loss": 5.5 / (n + 1)} for n in range(rounds + 1)]
    report = make_report(loss=losses, with_cheat={"round": 0, "loss": 1000.0, "shown": "1000.00"})
    for chart in (draw_heldout(report), draw_training(report)):
        labels = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', chart)
        assert len(labels) >= 4
        for x, y, text in labels:
            half = LETTER * len(text) / 2
            assert half <= float(x) <= WIDTH - half and 0 < float(y) <= HEIGHT


def read_luminance(color: str) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colors_can_be_read_in_light_and_in_dark() -> None:
    """4.5 to 1, what WCAG asks for text; browsers paint a dark page #121212 or nearly so."""
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    for style, ground in ((light, "#ffffff"), (dark.split("}")[0], "#121212")):
        for name in ("good", "bad", "blue"):
            found = re.search(rf"--{name}: (#[0-9a-f]{{6}})", style)
            assert found
            bright, dim = sorted((read_luminance(found[1]), read_luminance(ground)), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (name, ground)


# Screen
def test_a_silent_run_says_what_it_waits_for_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the output is no terminal, and without a line for each time."""
    monkeypatch.setattr(screens, "SILENCE_S", 0.0)
    monkeypatch.setattr(screens, "LOOK_S", 0.01)
    shown = StringIO()
    screen = Screen(Console(file=shown, width=118), is_verbose=False)
    screen.expect("the chain to start", 0.1)
    with screen.open():
        while shown.getvalue().count(" .") < 3:
            time.sleep(0.01)
        screen.show("1  It begins.")
        screen.expect("", 1.0)
    first, second = shown.getvalue().splitlines()[:2]
    assert first.count("waiting for the chain to start") == 1 and second == "1  It begins."


def test_a_quiet_run_keeps_every_line_in_its_log(tmp_path: Path) -> None:
    shown = StringIO()
    screen = Screen(Console(file=shown, width=118), is_verbose=False)
    screen.notify("demo", "before the log")
    screen.keep_log(tmp_path / "demo.log")
    with screen.open():
        screen.notify("cheat", "round 0: trained")
        screen.announce("demo", "explorer at http://x/")
    log = (tmp_path / "demo.log").read_text()
    assert "before the log" in log and "round 0: trained" in log
    assert shown.getvalue() == "   explorer at http://x/\n"


def test_a_loss_on_a_cheats_base_has_a_remark() -> None:
    bases, claims = Bases(), {0: 4}

    def say(line: str) -> str:
        return bases.remark("solver-1", line, {0}, claims)

    ahead = "round 1: training on the model that {} claims of round 0 are expected to give"
    loss = "round 1: trained 10 of 40 steps, loss 3304.867"
    assert say(ahead.format(4)) == ahead.format(4)
    assert say(loss) == loss + REMARK
    say(ahead.format(3))
    assert say(loss) == loss


def test_parties_with_the_same_amount_stand_together() -> None:
    names = {"solver-1": 3, "solver-2": 3, "cheat": -9}
    parties = [{"name": name, "change": tokens * 10**18, "is_honest": True} for name, tokens in names.items()]
    (line,) = describe_shares({"parties": parties, "burned": 10**18})
    assert line == "tokens: solver-1, solver-2 +3 each; cheat -9; burned 1"
    many = [{"name": f"party-{n}", "change": n * 10**21, "is_honest": True} for n in range(9)]
    lines = describe_shares({"parties": many, "burned": 0})
    assert len(lines) == 2 and not lines[1].startswith("+"), "an amount stands beside its name"
