"""What a node reports: to its operator metrics and a file, to anybody signed reports of a round.

The metrics come from a plain HTTP listener of its own, the file is read by `touchstone status`.

The library `prometheus_client` writes the text, from a registry of this node alone. Whoever reaches the
listener may read everything: no value of it is a secret, and no label is a text that a peer chose. So that a
reader costs the node next to nothing, the text is made once a second at most, however often it is asked for.

Reports of a round are read with suspicion. They name no place that the chain does not have, and each counts
only with the signature of the account whose claim or vote stands there. What they say nobody has proven.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from aiohttp import web
from msgspec import Meta
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from touchstone.protocol.adapters.keys import recover_signer
from touchstone.protocol.adapters.messages import Count, Form, Message, Signature
from touchstone.protocol.adapters.wire import conventions
from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.limits import ConnectionWatch, RateLimit, WireLimits
from touchstone.protocol.adapters.wire.listener import make_request_log
from touchstone.protocol.adapters.wire.session import Patience, Peer, PeerSession, read_at_most
from touchstone.protocol.spec.containers import MILLIONTHS_MAX, Comparison, DistanceReport, LossReport
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.auditing import get_drawn
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.statements import SigningDomain, VoteWord

# --- Metrics ------------------------------------------------------------------------------------------------
PATH = "/metrics"
LIMITS = WireLimits(connections=16, burst_requests=50)
FRESH_S = 1.0
"""A text is answered with so long."""

Samples = Mapping[tuple[str, ...], float]
"""A metric's values by those of its labels; `()` for one without labels. What is not there now has none."""


@dataclass(frozen=True)
class Metric:
    """What a value means. is_counter: it only grows, and begins at 0 with each process; its name ends with
    `_total`, as Prometheus has it. labels: names, each with few values that the code lists."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether it only grows."""
        return self.name.endswith("_total")


Read = Callable[[], Mapping[str, Samples]]
"""All values of now, by the names of their metrics."""


class _Values(Collector):
    """What the library asks for each text."""

    def __init__(self, metrics: Sequence[Metric], read: Read) -> None:
        self._metrics, self._read = metrics, read

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Every metric with the values that it has now."""
        values = self._read()
        for metric in self._metrics:
            make = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = make(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in values.get(metric.name, {}).items():
                family.add_metric(labels, value)
            yield family


class MetricsServer:
    """Answers GET /metrics, to anyone. `start` it once, `stop` it once."""

    def __init__(self, metrics: Sequence[Metric], read: Read) -> None:
        """read: called in the event loop, and at most once a second."""
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
        """Listen; return the port (a free one for 0). Raises EnvironmentFault where the address cannot be
        had."""
        application = web.Application(client_max_size=1)
        application.add_routes([web.get(PATH, self._answer, allow_head=False)])
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
            raise EnvironmentFault(
                what="the metrics cannot be shown",
                expected="a free address of this machine",
                actual=error.strerror or str(error),
                where=f"{host}:{port}",
                remedy="Change metrics_port or metrics_host in config.toml, or stop what uses the port.",
                retryable=False,
            ) from error
        self._runner = runner
        self._watching = asyncio.create_task(self._watch.run(runner.server))
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening."""
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

    def _make_text(self) -> bytes:
        if time.monotonic() - self._made_s >= FRESH_S:
            self._text, self._made_s = generate_latest(self._registry), time.monotonic()
        return self._text


# --- The file -----------------------------------------------------------------------------------------------
STATE_FILE = "node-state.json"
STALE_S = 10.0
"""A node that has not written its file for so long is killed, hangs, or has a disk that takes nothing."""
FULL_DISK_BYTES = 50_000_000
SPARE_DISK_BYTES = 1_000_000_000
"""Less is nearly full: journal, logs and what disputes take."""


class Trouble(StrEnum):
    """What may be wrong with a node or with what it stands on."""

    RPC_SILENT = "rpc_silent"
    RPC_LAGGING = "rpc_lagging"
    ENDPOINT_SILENT = "endpoint_silent"
    CHAIN_CHANGED = "chain_changed"
    CLOCK_WRONG = "clock_wrong"
    NOTHING_SIGNED = "nothing_signed"
    HEAD_UNPROVABLE = "head_unprovable"
    FEE_CAPPED = "fee_capped"
    DISK_LOW = "disk_low"
    DISK_FULL = "disk_full"


class End(StrEnum):
    """How a run of a node ended; KILLED: without a word, or it still runs. DECLINED: before it began,
    since its operator did not agree."""

    KILLED = ""
    STOPPED = "stopped"
    FAILED = "failed"
    DECLINED = "declined"


END_WORDS = {
    End.KILLED: "was killed",
    End.STOPPED: "was stopped",
    End.FAILED: "ended with an error",
    End.DECLINED: "was declined by its operator",
}


class SeenTrouble(Message, frozen=True):
    """A trouble that a node has, since when (Unix time in seconds), and what it says of it."""

    kind: Trouble
    since_s: Count
    said: str


class NodeState(Message, frozen=True):
    """What a node writes of itself into its home. Times are Unix time in seconds. seen_s: when it wrote this;
    end: how this run ended; earlier_end: the run before it, None where this is the first; kills: runs before
    this one that ended without a word."""

    account: str
    started_s: Count
    seen_s: Count
    end: End
    restarts: Count
    kills: Count
    earlier_end: End | None
    head_block: Count
    troubles: tuple[SeenTrouble, ...]

    def is_running(self, now_s: float) -> bool:
        """Whether the node that wrote it runs, as far as the file tells."""
        return self.end is End.KILLED and now_s - self.seen_s < STALE_S


FORM = Form(NodeState, 64 * 1024, "not the state of a node")


def read_node_state(home: Path) -> NodeState | None:
    """What the node of a home wrote last; None where there is nothing that can be read: it is no record of
    worth."""
    with suppress(InvalidInput):
        return FORM.read_file(home / STATE_FILE, "Remove it: a node writes it anew.")
    return None


def tell_node_state(state: NodeState, now_s: float) -> Iterator[str]:
    """The same in lines for an operator."""
    age_s = max(0, int(now_s) - state.seen_s)
    if state.end is not End.KILLED:
        yield f"the node of this home does not run: it {END_WORDS[state.end]} {age_s} s ago"
        return
    if not state.is_running(now_s):
        yield (
            f"WARNING: the node of this home was seen last {age_s} s ago and has not said that it ends: it "
            "was killed, it hangs, or the disk takes nothing"
        )
    else:
        lasts_s = max(0, int(now_s) - state.started_s)
        yield f"the node of this home has run for {lasts_s} s, at block {state.head_block}"
    if state.earlier_end is not None:
        kills = f", {state.kills} of them after it was killed" if state.kills and state.restarts > 1 else ""
        before = f"the run before {END_WORDS[state.earlier_end]}"
        times = "once" if state.restarts == 1 else f"{state.restarts} times"
        yield f"it was started again {times}{kills}; {before}"
    for one in state.troubles:
        yield f"WARNING: for {max(0, int(now_s) - one.since_s)} s: {one.said}"


# --- Reports of a round -------------------------------------------------------------------------------------
AUDITS_MAX = 128
"""More than one seat can have audits in a round: three ranks of every third of 64 claims."""
REPORTS_BYTES = 64 * 1024
PATIENCE = Patience(attempts=1, connect_s=3.0, silence_s=2.0)
"""A node has nine seconds at most, and is asked once."""
Figure = Annotated[int, Meta(ge=0, le=MILLIONTHS_MAX)]
Number = Annotated[int, Meta(ge=0, lt=1 << 32)]


class LossSaid(Message, frozen=True):
    """`LossReport`, but for what the chain says."""

    slot: Number
    steps: Number
    first_micronats: Figure
    last_micronats: Figure
    mean_micronats: Figure
    signature: Signature


class DistancesSaid(Message, frozen=True):
    """`DistanceReport`, but for what the chain says."""

    slot: Number
    draw: Number
    rank: Number
    word: VoteWord
    comparison: Comparison
    weights_microlimits: Figure
    first_moment_microlimits: Figure
    second_moment_microlimits: Figure
    signature: Signature


class ReportsSaid(Message, frozen=True):
    """What a node reports of its own work in a round, as far as anybody may know it."""

    loss: LossSaid | None = None
    audits: Annotated[tuple[DistancesSaid, ...], Meta(max_length=AUDITS_MAX)] = ()


REPORTS_FORM = Form(ReportsSaid, REPORTS_BYTES, "the reports of a round are malformed")


def say_loss(report: LossReport, signature: bytes) -> LossSaid:
    """The message of a report."""
    figures = (report.first_micronats, report.last_micronats, report.mean_micronats)
    return LossSaid(report.slot, report.steps, *figures, signature)


def say_distances(report: DistanceReport, signature: bytes) -> DistancesSaid:
    """The message of a report."""
    far = (report.weights_microlimits, report.first_moment_microlimits, report.second_moment_microlimits)
    place = (report.slot, report.draw, report.rank)
    return DistancesSaid(*place, VoteWord(report.word), report.comparison, *far, signature)


def read_loss(game: GameState, index: int, said: LossSaid) -> tuple[str, LossReport] | None:
    """The report, with the account that must have signed it: whose claim of round `index` is in that slot.
    None where there is none."""
    game_round = game.rounds.get(index)
    claim = None if game_round is None else game_round.claims.get(said.slot)
    if claim is None:
        return None
    figures = (said.steps, said.first_micronats, said.last_micronats, said.mean_micronats)
    return claim.account, LossReport(game.terms.domain, index, said.slot, claim.claim_root, *figures)


def read_distances(game: GameState, index: int, said: DistancesSaid) -> tuple[str, DistanceReport] | None:
    """The report, with the account that must have signed it: which the chain drew for that place. None where
    it drew none."""
    drawn = get_drawn(game, index, said.slot, said.draw, said.rank)
    if drawn is None:
        return None
    at = drawn.place
    place = (at.domain, index, at.base_root, at.seed, at.slot, at.claim_root, at.draw, at.rank, drawn.segment)
    far = (said.weights_microlimits, said.first_moment_microlimits, said.second_moment_microlimits)
    return drawn.seat.account, DistanceReport(*place, said.word, said.comparison, *far)


def is_signed(
    report: LossReport | DistanceReport, signature: bytes, account: str, signing: SigningDomain
) -> bool:
    """Whether the account has signed the report."""
    try:
        return recover_signer(report, signature, signing, account) == account
    except ProtocolFault:
        return False


class ReportClient:
    """Asks nodes for their reports, with their pinned certificates and without an account. Use as
    `async with`."""

    def __init__(self, *, are_private_asked: bool = False) -> None:
        """are_private_asked: whether nodes are asked whose addresses are not of the public internet. Any
        account announces any address: asked there, a stranger has this machine connect inside its network."""
        self._session = PeerSession(PATIENCE, (lambda address: True) if are_private_asked else is_public)

    async def __aenter__(self) -> "ReportClient":
        self._session.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, peer: Peer, task: bytes, index: int) -> ReportsSaid:
        """What a node reports of round `index`; nothing of it is checked yet. Raises ProtocolFault or
        EnvironmentFault."""
        path = conventions.format_reports(task, index)
        async with self._session.get(peer, path, {}, REPORTS_BYTES) as response:
            body = await read_at_most(response, REPORTS_BYTES)
        return REPORTS_FORM.decode(body, peer.account, peer.format_url(path))
