"""The demo's page: complete, self-contained, and safe whatever a line says."""

from html.parser import HTMLParser
from io import StringIO
from typing import Any

from rich.console import Console

from touchstone.demo.page import build_page
from touchstone.demo.screen import Screen, TimelineEntry
from touchstone.demo.verdict import Finding

NUMBER = {
    "operation": "SUBTRACT", "node": 375, "element": 9, "operands": [["0.5", "0.25"]], "claimed": "0.75",
    "exact_shown": "0.25", "bound_shown": "0", "is_fault": True,
}  # fmt: skip
LOSSES = [{"rounds_done": 0, "loss": 5.5}, {"rounds_done": 1, "loss": 3.25}]
LINES = [TimelineEntry(1.5, "cheat", "<script>alert(1)</script> & more")]


def make_report(**changes: Any) -> dict[str, Any]:
    cheat = {"name": "cheat", "is_honest": False, "moved": {"lost": -(10**18)}, "change": -(10**18)}
    return {
        "task_rounds": 1, "wall_s": 12.0, "blocks": 34, "loss": LOSSES, "parties": [cheat],
        "burned": 5 * 10**17, "burned_from": {"lost": 3 * 10**17, "spent": 2 * 10**17},
        "convicted_numbers": {"cheat": NUMBER},
        "utilisation": {"all": 0.5, "solvers": {"solver-1": {"train_s": 1.0, "seat_s": 2.0}}},
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
    shown = ["Something is wrong", "a wallet is short", "5.500", "3.250", "nats per byte", "round 0"]
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
