"""Metrics as Prometheus reads them, over real HTTP, and the file in which a node tells of itself."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.reports import metrics_server
from touchstone.protocol.adapters.reports.metrics_server import Metric, MetricsServer, Samples
from touchstone.protocol.adapters.reports.node_state import (
    STALE_S,
    STATE_FILE,
    End,
    HealthIssue,
    NodeState,
    SeenHealthIssue,
    describe_node_state,
    read_node_state,
)
from touchstone.protocol.adapters.wire.limits import RateLimit
from touchstone.protocol.spec.errors import EnvironmentFault

METRICS = (
    Metric("touchstone_loss", "Loss."),
    Metric("touchstone_rpc_errors_total", "Errors.", ("kind",)),
)


class Values:
    """What is read, and how often it was."""

    def __init__(self) -> None:
        self.now: dict[str, Samples] = {}
        self.reads = 0

    def read(self) -> Mapping[str, Samples]:
        self.reads += 1
        return self.now


@pytest.fixture
async def shown() -> AsyncIterator[tuple[Values, int]]:
    values = Values()
    server = MetricsServer(METRICS, values.read)
    yield values, await server.start("127.0.0.1", 0)
    await server.stop()


async def fetch(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


def read_samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Names of samples to their labels and values, as Prometheus' own parser understands them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def test_values_are_read_by_name_and_label(shown: tuple[Values, int]) -> None:
    values, port = shown
    values.now = {
        "touchstone_loss": {(): 2.5},
        "touchstone_rpc_errors_total": {("timeout",): 3.0, ("http",): 1.0},
    }
    status, text = await fetch(port)
    found = read_samples(text)
    assert status == 200 and found["touchstone_loss"] == [({}, 2.5)]
    assert found["touchstone_rpc_errors_total"] == [({"kind": "timeout"}, 3.0), ({"kind": "http"}, 1.0)]
    assert found["process_resident_memory_bytes"][0][1] > 1_000_000
    assert "# TYPE touchstone_rpc_errors_total counter" in text and "# TYPE touchstone_loss gauge" in text


async def test_what_is_not_there_has_no_value(shown: tuple[Values, int]) -> None:
    assert "touchstone_loss" not in read_samples((await fetch(shown[1]))[1])


async def test_two_nodes_of_one_process_have_a_registry_each(shown: tuple[Values, int]) -> None:
    other = MetricsServer(METRICS, Values().read)
    try:
        assert await other.start("127.0.0.1", 0) != shown[1]
    finally:
        await other.stop()
    assert not any(family.name.startswith("touchstone") for family in REGISTRY.collect())


async def test_a_text_is_made_once_however_often_it_is_asked_for(
    shown: tuple[Values, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    values, port = shown
    await fetch(port)
    monkeypatch.setattr(metrics_server, "FRESH_S", 3_600.0)
    first = values.reads
    await asyncio.gather(*(fetch(port) for _ in range(10)))
    assert values.reads == first == 1
    monkeypatch.setattr(metrics_server, "FRESH_S", 0.0)
    await fetch(port)
    assert values.reads == 2


async def test_who_asks_too_often_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock pauses: on a slow machine the requests would come slowly enough."""
    monkeypatch.setattr(metrics_server, "RateLimit", partial(RateLimit, now=lambda: 0.0))
    server, burst = MetricsServer(METRICS, Values().read), metrics_server.LIMITS.burst_requests
    port = await server.start("127.0.0.1", 0)
    statuses = [(await fetch(port))[0] for _ in range(burst + 1)]
    await server.stop()
    assert statuses == [200] * burst + [429]


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/", "GET", 404), ("/status", "GET", 404), ("/metrics", "POST", 405)]
)
async def test_nothing_else_is_answered(
    shown: tuple[Values, int], path: str, method: str, status: int
) -> None:
    assert (await fetch(shown[1], path, method))[0] == status


async def test_a_taken_port_is_named() -> None:
    server = MetricsServer(METRICS, Values().read)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentFault) as caught:
            await server.start("127.0.0.1", port)
    assert caught.value.where == f"127.0.0.1:{port}" and "metrics_port" in caught.value.remedy
    await server.stop()


# The file
HEALTH_ISSUE = SeenHealthIssue(HealthIssue.RPC_SILENT, 990, "the chain's node is silent")
STATE = NodeState("0xab", 900, 1_000, End.KILLED, 3, 2, End.KILLED, 77, (HEALTH_ISSUE,))


def test_the_file_says_again_what_was_written(tmp_path: Path) -> None:
    assert read_node_state(tmp_path) is None
    (tmp_path / STATE_FILE).write_bytes(encode_message(STATE))
    assert read_node_state(tmp_path) == STATE


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[" * 5_000, encode_message(STATE)[:-1], encode_message(STATE) + b" " * 100_000],
    ids=["empty", "object", "deep", "cut", "long"],
)
def test_a_file_that_is_none_counts_as_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / STATE_FILE).write_bytes(data)
    assert read_node_state(tmp_path) is None


def test_an_operator_is_told_of_health_issues_and_restarts() -> None:
    assert list(describe_node_state(STATE, 1_003)) == [
        "the node of this home has run for 103 s, at block 77",
        "it was started again 3 times, 2 of them after it was killed; the run before was killed",
        "WARNING: for 13 s: the chain's node is silent",
    ]


def test_a_node_that_has_ended_and_one_that_went_silent_are_told_apart() -> None:
    ended = NodeState("0xab", 900, 1_000, End.STOPPED, 0, 0, None, 77, ())
    assert list(describe_node_state(ended, 1_500)) == [
        "the node of this home does not run: it was stopped 500 s ago"
    ]
    assert not ended.is_running(1_001)
    silent = list(describe_node_state(STATE, 1_000 + STALE_S))
    assert silent[0].startswith("WARNING: the node of this home was seen last 10 s ago")
    assert not STATE.is_running(1_000 + STALE_S) and STATE.is_running(999 + STALE_S)


async def test_health_is_what_the_node_finds_now() -> None:
    """200 while nothing is wrong; 503 with the reason for a container's health check."""
    issues: dict[str, str] = {}
    server = MetricsServer(METRICS, Values().read, lambda: issues)
    port = await server.start("127.0.0.1", 0)
    try:
        assert await fetch(port, "/health") == (200, '{"health_issues": {}}')
        issues["disk_full"] = "the disk is full"
        assert await fetch(port, "/health") == (503, '{"health_issues": {"disk_full": "the disk is full"}}')
        assert (await fetch(port, "/health", "POST"))[0] == 405
    finally:
        await server.stop()
