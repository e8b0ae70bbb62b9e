"""Gathers a node's metrics: chain, deadlines, seat, work and machine.

All values are read from memory: from the folded chain and the journal. The values of labels are listed in the
code, so no text of a peer, no account and no id becomes a label.
"""

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from touchstone.node.health.checks import Watch
from touchstone.node.health.deadlines import list_deadlines
from touchstone.node.health.open_disputes import count_disputes
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Meter
from touchstone.node.kit.view import FindView, View
from touchstone.node.serving.heldout_reports import list_losses
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.reports.metrics_server import Metric, MetricsServer, Samples
from touchstone.protocol.adapters.reports.node_state import HealthIssue
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.economics.account_money import AccountMoney, compute_account
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.money_reasons import KINDS, MoneyKind
from touchstone.protocol.spec.game.pools import find_seat, get_required_stake, get_stake
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.statements import VoteWord

log = logging.getLogger(__name__)


METRICS = (
    Metric("touchstone_head_block", "The newest block that the chain's node has reported."),
    Metric("touchstone_head_age_seconds", "Time since the timestamp of the newest block, by this clock."),
    Metric("touchstone_processed_block", "The block up to which this node has folded the chain's events."),
    Metric("touchstone_rpc_silence_seconds", "Time since the chain's node last answered."),
    Metric("touchstone_rpc_errors_total", "Requests that the chain's node did not answer.", ("kind",)),
    Metric(
        "touchstone_deadline_blocks",
        "Blocks left until this node's nearest deadline; it has no value if nothing is due.",
        ("duty",),
    ),
    Metric("touchstone_open_duties", "Duties that are due now, those under way included.", ("duty",)),
    Metric("touchstone_duty_failures_total", "Failed attempts at a duty, which are repeated.", ("duty",)),
    Metric("touchstone_refolds_total", "How often this node has read the whole chain anew."),
    Metric("touchstone_seat_status", "1 for the present status of this node's seat.", ("role", "status")),
    Metric("touchstone_seat_stake_tokens", "What the seat has at stake."),
    Metric("touchstone_seat_required_stake_tokens", "What a seat must have at stake to be in a round."),
    Metric("touchstone_credit_tokens", "What the account may withdraw, stake or put down as a bond."),
    Metric("touchstone_locked_tokens", "Stake, bonds and escrow of the account in its task."),
    Metric("touchstone_earned_tokens", "What settlements will pay if nothing more happens."),
    Metric("touchstone_owed_tokens", "Fees that settlements will take if nothing more happens."),
    Metric("touchstone_settled_tokens", "What became credit of the account in its task.", ("reason",)),
    Metric("touchstone_lost_tokens", "What the account has lost in its task.", ("reason",)),
    Metric("touchstone_gas_left", "Gas that the account's coin pays for at the present price."),
    Metric("touchstone_gas_factor", "Gas of calls on this chain, divided by the manual's figures."),
    Metric("touchstone_rounds_trained_total", "Claims that were trained to their end."),
    Metric("touchstone_tokens_trained_total", "Tokens of the training steps."),
    Metric("touchstone_loss", "Loss of the last training step, in nats."),
    Metric("touchstone_heldout_loss", "Held-out loss of the newest model that this node measured, in nats."),
    Metric("touchstone_round_loss", "Mean loss of this solver's newest claim of a closed round, in nats."),
    Metric("touchstone_votes", "Own votes in the journal.", ("word",)),
    Metric(
        "touchstone_disputes",
        "Disputes, queries and contests in which this node takes part.",
        ("kind", "side", "end"),
    ),
    Metric("touchstone_served_bytes_total", "Bytes of blobs that were served."),
    Metric("touchstone_fetched_bytes_total", "Bytes that came from peers and their buckets."),
    Metric("touchstone_disk_free_bytes", "Room on the disk of the home."),
    Metric("touchstone_health_issue", "1 while the node has this health issue.", ("kind",)),
    Metric("touchstone_health_issues_total", "How often this health issue began.", ("kind",)),
    Metric("touchstone_restarts", "Starts of this home's node after the first."),
    Metric("touchstone_kills", "Runs of this home's node that were killed, or ended without a note."),
)
"""The Prometheus library adds metrics of the process: `process_resident_memory_bytes` and others."""


Values = dict[str, Samples]


@dataclass
class Measures:
    """The sources of a node's metrics. Deadlines and money take a tenth of a second in a large task, so they
    are computed once for each state of the task."""

    chain: GameChain
    chain_state: ChainState
    client: BlobClient
    meter: Meter
    find_view: FindView
    watch: Watch
    server: BlobServer
    _listed_for: tuple[object, ...] = ()
    _nearest: Samples = field(default_factory=dict)
    _money: Values = field(default_factory=dict)

    def read(self) -> Values:
        """Returns the current values of all metrics. A bug in one part is logged, and the other parts are
        still returned."""
        values: Values = {}
        parts: tuple[Callable[[], Values], ...] = (
            self._read_chain,
            self._read_work,
            self._read_machine,
            self._read_task,
        )
        for part in parts:
            try:
                values |= part()
            except Exception:
                log.exception("%s cannot be measured", part.__name__)
        return values

    def _read_chain(self) -> Values:
        health, state = self.chain.connection.health, self.chain_state
        head = health.head
        values: Values = {
            "touchstone_processed_block": _one(state.head_block),
            "touchstone_rpc_silence_seconds": _one(time.monotonic() - health.answered_s),
            "touchstone_rpc_errors_total": _by_name(health.errors),
            "touchstone_refolds_total": _one(self.meter.refolds),
            "touchstone_credit_tokens": _one(state.credits[self.chain.address] / TOKEN_WEI),
        }
        if head is not None:
            values["touchstone_head_block"] = _one(head.number)
            values["touchstone_head_age_seconds"] = _one(time.time() - head.timestamp_s)
        return values

    def _read_work(self) -> Values:
        meter = self.meter
        return {
            "touchstone_open_duties": _by_name(meter.due),
            "touchstone_duty_failures_total": _by_name(meter.failures),
            "touchstone_rounds_trained_total": _one(meter.rounds_trained),
            "touchstone_tokens_trained_total": _one(meter.tokens_trained),
            "touchstone_loss": {} if meter.loss is None else _one(meter.loss),
            "touchstone_served_bytes_total": _one(self.server.served_bytes),
            "touchstone_fetched_bytes_total": _one(self.client.fetched_bytes),
        }

    def _read_machine(self) -> Values:
        watch = self.watch
        return {
            "touchstone_disk_free_bytes": _one(shutil.disk_usage(self.watch.home).free),
            "touchstone_health_issue": {
                (kind.value,): float(kind in watch.health_issues) for kind in HealthIssue
            },
            "touchstone_health_issues_total": {
                (kind.value,): float(watch.counts[kind]) for kind in HealthIssue
            },
            "touchstone_restarts": _one(watch.past.restarts),
            "touchstone_kills": _one(watch.past.kills),
            "touchstone_gas_left": {} if watch.gas_left is None else _one(watch.gas_left),
            "touchstone_gas_factor": {} if watch.gas_factor is None else _one(watch.gas_factor),
        }

    def _read_task(self) -> Values:
        """Returns metrics of the task; none before a task is joined, or while a reorg has removed it."""
        view = self.find_view()
        if view is None:
            return {}
        block = view.head_block + 1
        words = Counter(made.vote.word for made in view.audits.book.votes.values())
        reported = [made.report for made in view.claims.reports.values()]
        newest = max(reported, key=lambda report: report.round, default=None)
        self._list(view, block)
        losses = list_losses(view)
        return {
            "touchstone_round_loss": {} if newest is None else _one(newest.mean_micronats / 1e6),
            "touchstone_heldout_loss": _one(losses[-1].loss) if losses else {},
            "touchstone_deadline_blocks": self._nearest,
            "touchstone_votes": {(word.name,): float(words[word]) for word in VoteWord},
            "touchstone_disputes": count_disputes(view),
            **_read_seat(get_state_at(view.game, block), view.account),
            **self._money,
        }

    def _list(self, view: View, block: int) -> None:
        state, task, game = self.chain_state, view.task, view.game
        # A fold makes a new object, so identity shows a change.
        now = (block, game, state.inner[task], state.contests[task])
        if not _is_same(now, self._listed_for):
            nearest: dict[tuple[str, ...], float] = {}
            for duty, last_block in list_deadlines(view, block):
                left = float(last_block - state.head_block)
                nearest[duty,] = min(left, nearest.get((duty,), left))
            money = compute_account(get_state_at(game, block), game.money, view.account, block)
            self._listed_for, self._nearest, self._money = now, nearest, _read_money(money)


def _is_same(now: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Returns whether the block and all objects are the same. It compares identities, because comparing
    values would take longer."""
    return now[:1] == before[:1] and all(a is b for a, b in zip(now[1:], before[1:], strict=True))


def _one(value: float) -> Samples:
    return {(): float(value)}


def _by_name(counts: Mapping[str, int]) -> Samples:
    return {(name,): float(count) for name, count in counts.items()}


def _read_seat(game: GameState, account: str) -> Values:
    seat = find_seat(game, account)
    if seat is None:
        return {}
    role = seat.role.name.lower()
    return {
        "touchstone_seat_status": {
            (role, status.name.lower()): float(status == seat.status) for status in SeatStatus
        },
        "touchstone_seat_stake_tokens": _one(get_stake(game, seat.number) / TOKEN_WEI),
        "touchstone_seat_required_stake_tokens": _one(get_required_stake(game, seat.role) / TOKEN_WEI),
    }


def _read_money(money: AccountMoney) -> Values:
    amounts = {"locked": money.locked, "earned": money.earned, "owed": money.owed}
    values: Values = {f"touchstone_{name}_tokens": _one(wei / TOKEN_WEI) for name, wei in amounts.items()}
    for kind in (MoneyKind.SETTLED, MoneyKind.LOST):
        reasons = [reason for reason in KINDS if KINDS[reason] == kind]
        sums: Samples = {(reason.value,): money.sums.get(reason, 0) / TOKEN_WEI for reason in reasons}
        values[f"touchstone_{kind.value}_tokens"] = sums
    return values


async def show_metrics(measures: Measures, host: str, port: int, stack: AsyncExitStack) -> None:
    """Serves metrics and health at `host` and `port` until `stack` is closed; does nothing if the port is 0.
    If the port is taken, it logs that, and the node goes on."""
    if not port:
        return
    server = MetricsServer(METRICS, measures.read, measures.watch.find_issues)
    try:
        await server.start(host, port)
    except EnvironmentFault as fault:
        log.warning("%s", fault)
        return
    stack.push_async_callback(server.stop)
