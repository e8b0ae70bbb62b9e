"""The scoreboard says what its figures say, and both pages are those of the committed figures."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.benchmarks.hunting.scoreboard import (
    DOCS,
    WIDTH,
    build_chart,
    build_page,
    distil,
    keep_campaign,
    list_roc,
)
from lab.benchmarks.hunting.seam import compute_share_beyond, count_decades, list_bins

FIGURES: dict[str, Any] = json.loads((DOCS / "scoreboard.json").read_text())


def make_attack(name: str, margin: float, **changes: object) -> dict[str, Any]:
    return {
        "number": "5",
        "name": name,
        "samples": 6,
        "detected": 1.0,
        "margin": margin,
        "median": margin * 2,
        "largest": margin * 4,
        "step_excess": margin,
        "kept": 0,
        "moved": 0.125,
        "loss": 0.5,
        "saved": 0.25,
        "net": -47.123456,
        "bearable_gain": 50.0,
        "on_chain": "CONVICTED",
        "weakest": "x",
        **changes,
    }


@pytest.fixture
def report() -> dict[str, Any]:
    honest = {
        "replays": 1000,
        "start_states": 10,
        "configurations": 12,
        "rejected": 0,
        "noise": 2,
        "ill_conditioned": 3,
        "histogram": count_decades([0.001] * 600 + [0.1] * 399 + [1.5]),
    }
    plan = {
        "accepted": 3,
        "audits": 4,
        "rounds": 2,
        "voided": 1,
        "step_excess": 0.75,
        "steer_in_learning_rates": 1e-3,
        "objective_nats": -0.02,
        "heldout_nats": 0.001,
        "objective_beyond_spread_round": None,
    }
    spread = {"objective_spread_nats": 1e-5, "worst_step_excess": 0.5}
    return {
        "honest": honest,
        "attacks": [make_attack("first", 30.0), make_attack("second <", 0.5, on_chain=None)],
        "adaptive": {
            "steps": 200,
            "honest": spread,
            "plans": {"ride": plan},
            "best": {"objective_nats": -0.02178},
        },
        "plays": [{"number": "28", "name": "false accusation", "net": -10.0}],
        "histogram": count_decades([30.0, 300.0]),
        "arenas": [],
        "verifiers": ["a", "b"],
        "chain": {
            "attacks": [{}],
            "seconds": 1.0,
            "caught": 1,
            "convicted": 1,
            "idle": 0,
            "rounds": 1,
            "honest_lost": 0,
            "collusion": None,
        },
        "deal": {},
        "quick": False,
        "machine": "not shown",
    }


def test_the_pages_are_those_of_the_committed_figures() -> None:
    assert (DOCS / "scoreboard.md").read_text() == build_page(FIGURES)
    assert (DOCS / "scoreboard.svg").read_text() == build_chart(FIGURES)


def test_figures_survive_being_distilled_again(report: dict[str, Any]) -> None:
    figures = distil(report)
    assert figures["attacks"][0]["net"] == -47.12 and "seconds" not in figures["chain"]
    assert json.loads(json.dumps(figures)) == figures


def test_the_page_tells_what_was_measured(report: dict[str, Any]) -> None:
    page = build_page(distil(report))
    assert "| 1,000 | 10 | 12 | 2 | 0.002 | 3 |" in page
    assert "| 5 | first | 6 | 100.0% | 30 | 30 | 0 | 0.12 | +0.5 | 25% | -47.1 | 50 | convicted |" in page
    assert "second < | 6 | 100.0% | 0.5 |" in page
    assert "gained 0.01 of that" in page
    assert "| ride | 3 of 4 | 1 of 2 | 0.75 | 0.001 | -0.02 | +0.001 | never |" in page


def test_what_was_not_measured_is_said(report: dict[str, Any]) -> None:
    figures = distil({**report, "honest": None, "adaptive": None})
    assert build_page(figures).count("Not part of this run.") == 2
    assert "no honest figures" in build_chart(figures)


def test_a_campaign_that_was_larger_is_kept_and_said_to_be(report: dict[str, Any]) -> None:
    figures = distil(report)
    larger = {"honest": {**figures["honest"], "replays": 2000}}
    kept = keep_campaign(figures, larger)
    assert kept["honest"]["replays"] == 2000 and "campaign of an earlier run" in build_page(kept)
    for smaller in ({"honest": {**figures["honest"], "replays": 900}}, {"honest": None}):
        assert keep_campaign(figures, smaller) == figures
    assert keep_campaign({**figures, "honest": None}, larger)["honest"] == larger["honest"]


def test_the_chart_is_sound_and_shows_every_attack(report: dict[str, Any]) -> None:
    root = ElementTree.fromstring(build_chart(distil(report)))
    texts = {element.text for element in root.iter() if element.text}
    assert {"5  first", "5  second <", " the limit"} <= texts
    circles = [float(e.attrib["cx"]) for e in root.iter() if e.tag.endswith("circle")]
    assert all(0 <= x <= WIDTH for x in circles) and circles[0] > circles[1]


def test_a_larger_threshold_lets_more_honest_and_more_cheats_pass(report: dict[str, Any]) -> None:
    points = list_roc(distil(report))
    assert points[0][1:] == (1.0, 1.0)
    for earlier, later in zip(points, points[1:], strict=False):
        assert later[0] > earlier[0] and later[1] <= earlier[1] and later[2] <= earlier[2]
    beyond_limit = next(point for point in points if point[0] >= 1.0)
    assert beyond_limit[1:] == (0.0, 1.0)


def test_bins_hold_what_lies_between_their_edges() -> None:
    histogram = count_decades([1e-9, 1e-4, 1.0, 1.2, 10.0])
    counts = {round(edge, 6): count for edge, count in list_bins(histogram) if count}
    assert counts == {1e-4: 2, 1.0: 2, 10.0: 1}
    assert compute_share_beyond(histogram, 1.0) == 0.6 and compute_share_beyond(histogram, 11.0) == 0.0
    assert compute_share_beyond(count_decades([]), 1.0) == 0.0
