"""Serves a node's metrics and health to its operator, by a plain HTTP listener of its own.

The library `prometheus_client` writes the text, from a registry of this node alone. Anybody who reaches the
listener may read everything: no value is a secret, and no label is a peer's text. The text is made at most
once a second, so that readers cost the node little.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from touchstone.protocol.adapters.wire.limits import ConnectionWatch, RateLimit, WireLimits
from touchstone.protocol.adapters.wire.request_log import make_request_log
from touchstone.protocol.spec.errors import EnvironmentFault

PATH, HEALTH_PATH = "/metrics", "/health"
LIMITS = WireLimits(connections=16, burst_requests=50)
FRESH_S = 1.0
"""Seconds for which a text of the metrics is served again."""
Samples = Mapping[tuple[str, ...], float]
"""A metric's values by the values of its labels; `()` without labels. A missing value is left out."""


@dataclass(frozen=True)
class Metric:
    """What a metric means. `is_counter` says that it only grows, from 0 in each process; its name then ends
    with `_total`, as Prometheus requires. `labels` are names; the code lists the few values of each."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether the value only grows."""
        return self.name.endswith("_total")


Read = Callable[[], Mapping[str, Samples]]
"""Returns all present values, by the names of their metrics."""
FindIssues = Callable[[], Mapping[str, str]]
"""Returns what is wrong with the node now, in words, by the name of the health issue."""


class _Values(Collector):
    """The collector that the library calls whenever it writes the text."""

    def __init__(self, metrics: Sequence[Metric], read: Read) -> None:
        self._metrics, self._read = metrics, read

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yields every metric with its present values."""
        values = self._read()
        for metric in self._metrics:
            make = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = make(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in values.get(metric.name, {}).items():
                family.add_metric(labels, value)
            yield family


class MetricsServer:
    """Answers GET /metrics and GET /health, to anyone. `start` it once, `stop` it once."""

    def __init__(self, metrics: Sequence[Metric], read: Read, find_issues: FindIssues = dict) -> None:
        """Prepares the server. `read` is called in the event loop, at most once a second."""
        self._find_issues = find_issues
        self._registry = CollectorRegistry()
        self._registry.register(_Values(metrics, read))
        # Memory, processor time and open files of this process.
        ProcessCollector(registry=self._registry)
        self._text, self._made_s = b"", -FRESH_S
        self._rate = RateLimit(LIMITS.requests_per_second, LIMITS.burst_requests)
        self._watch = ConnectionWatch(LIMITS)
        self._runner: web.AppRunner | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port (a free one for 0). Raises EnvironmentFault if the address is not
        available."""
        application = web.Application(client_max_size=1)
        pages = ((PATH, self._answer), (HEALTH_PATH, self._answer_health))
        application.add_routes([web.get(path, answer, allow_head=False) for path, answer in pages])
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=make_request_log(),
            shutdown_timeout=0.0,
            keepalive_timeout=LIMITS.idle_seconds,
            lingering_time=0.0,
            max_line_size=LIMITS.header_bytes,
            max_field_size=LIMITS.header_bytes,
            max_headers=LIMITS.headers,
        )
        await runner.setup()
        assert runner.server is not None
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise _unusable_metrics_place(error, host, port) from error
        self._runner = runner
        self._watching = asyncio.create_task(self._watch.run(runner.server))
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Stops listening."""
        if self._runner is None or self._watching is None:
            return
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        await self._runner.cleanup()
        self._runner = self._watching = None

    async def _answer(self, request: web.Request) -> web.Response:
        with self._watch.mark_busy(request):
            if not self._rate.try_take(request.remote or ""):
                return web.Response(status=429, headers={"Retry-After": "1"})
            return web.Response(body=self._make_text(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _answer_health(self, request: web.Request) -> web.Response:
        """Answers 200 if the node has no health issue, else 503, with the issues as JSON."""
        with self._watch.mark_busy(request):
            if not self._rate.try_take(request.remote or ""):
                return web.Response(status=429, headers={"Retry-After": "1"})
            issues = dict(self._find_issues())
            return web.json_response({"health_issues": issues}, status=503 if issues else 200)

    def _make_text(self) -> bytes:
        if time.monotonic() - self._made_s >= FRESH_S:
            self._text, self._made_s = generate_latest(self._registry), time.monotonic()
        return self._text


def _unusable_metrics_place(error: OSError, host: str, port: int) -> EnvironmentFault:
    return EnvironmentFault(
        what="the metrics cannot be shown",
        expected="a free address of this machine",
        actual=error.strerror or str(error),
        where=f"{host}:{port}",
        remedy="Change metrics_port or metrics_host in config.toml, or stop what uses the port.",
        retryable=False,
    )
