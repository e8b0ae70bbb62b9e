"""The dashboard and the alerts of docs/monitoring parse, and name no metric that a node does not show."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry, ProcessCollector

from tests.architecture.sources import ROOT
from touchstone.node.health.metrics import METRICS
from touchstone.protocol.adapters.reports.node_state import HealthIssue

FOLDER = Path(ROOT, "docs", "monitoring")
NAME = re.compile(r"\b(?:touchstone|process)_[a-z_]+\b|\bup\b")
LABEL = re.compile(r"([a-z]+)=~?\"")
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds."""


def read_alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load(FOLDER.joinpath("alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def read_panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(FOLDER.joinpath("grafana.json").read_text())["panels"]
    return panels


def list_expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in read_alerts())
    yield from (target["expr"] for panel in read_panels() for target in panel["targets"])


def list_shown() -> set[str]:
    """`up` is Prometheus' own."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    of_process = {sample.name for family in registry.collect() for sample in family.samples}
    return {metric.name for metric in METRICS} | of_process | {"up"}


@pytest.mark.parametrize("expression", sorted(set(list_expressions())))
def test_each_metric_that_is_named_exists_with_its_labels(expression: str) -> None:
    names, shown = NAME.findall(expression), list_shown()
    assert names and set(names) <= shown
    labels = {label for metric in METRICS if metric.name in names for label in metric.labels}
    assert set(LABEL.findall(expression)) <= labels | OF_PROMETHEUS


def test_every_metric_has_a_place_on_the_dashboard() -> None:
    found = {
        name
        for panel in read_panels()
        for target in panel["targets"]
        for name in NAME.findall(target["expr"])
    }
    assert {metric.name for metric in METRICS} <= found


def test_every_health_issue_and_every_duty_with_a_deadline_has_an_alert() -> None:
    expressions = " ".join(rule["expr"] for rule in read_alerts())
    # Silence is told by its length.
    kinds = [kind.value for kind in HealthIssue if kind is not HealthIssue.RPC_SILENT]
    for word in [*kinds, "touchstone_rpc_silence_seconds", "ask", "dispute", "contest", "commit", "vote"]:
        assert word in expressions, word


@pytest.mark.parametrize("name", ["NodeKilled", "NodeKeepsRestarting"])
def test_a_restart_is_told_of_also_where_the_node_was_down_for_a_while(name: str) -> None:
    """While it is down no value comes: what was before has to lie inside of the range that is looked at."""
    (expression,) = (rule["expr"] for rule in read_alerts() if rule["alert"] == name)
    (metric, hours) = re.findall(r"min_over_time\((\w+)\[(\d+)h\]\)", expression)[0]
    assert expression.startswith(f"{metric} > ") and int(hours) >= 1


def test_an_alert_says_what_to_do() -> None:
    for rule in read_alerts():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule["alert"]


def test_the_dashboard_can_be_imported() -> None:
    """Its data source is asked for at the import; panels have ids of their own and do not overlap."""
    document = json.loads(FOLDER.joinpath("grafana.json").read_text())
    assert document["title"] and document["uid"] and document["__inputs"][0]["name"] == "DS_PROMETHEUS"
    panels = read_panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert panel["title"] and not cells & taken and at["x"] + at["w"] <= 24
        assert panel["datasource"]["uid"] == "${DS_PROMETHEUS}"
        taken |= cells
