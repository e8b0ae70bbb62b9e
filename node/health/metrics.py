"""What a node counts: the metrics of its chain, deadlines, seat, work and machine, as they are now.

All values are read from memory, from what the chain told and the journal knows. Labels have values that the
code lists: no text of a peer, no account and no id is one.
"""

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from touchstone.node.health.checks import Watch
from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.records.claim_records import find_own_slot
from touchstone.protocol.adapters.reports.metrics_server import Metric, MetricsServer, Samples
from touchstone.protocol.adapters.reports.node_state import Trouble
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.economics.account_money import AccountMoney, compute_account
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.auditing import DrawnAudit, get_due_block, is_wanted, list_drawn
from touchstone.protocol.spec.game.contests import ENDED, InnerTurn
from touchstone.protocol.spec.game.fates import find_seat, get_required_stake, get_stake, is_closed
from touchstone.protocol.spec.game.inner_dispute import (
    AskEnding,
    InnerDispute,
    Move,
    is_answerable,
    list_moves,
)
from touchstone.protocol.spec.game.ledger import get_state_at
from touchstone.protocol.spec.game.reasons import KINDS, MoneyKind
from touchstone.protocol.spec.game.state import GameState, RoundPhase, Seat, SeatStatus
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    get_live_round,
    get_votes_from,
    is_late_draw,
)
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.statements import VoteWord

log = logging.getLogger(__name__)

METRICS = (
    Metric("touchstone_head_block", "The newest block that the chain's node has told of."),
    Metric("touchstone_head_age_seconds", "Time since the timestamp of that block, by this machine's clock."),
    Metric("touchstone_processed_block", "The block up to which this node has folded the chain's events."),
    Metric("touchstone_rpc_silence_seconds", "Time since the chain's node last answered."),
    Metric("touchstone_rpc_errors_total", "Requests that the chain's node did not answer.", ("kind",)),
    Metric(
        "touchstone_deadline_blocks",
        "Blocks left until the nearest deadline of this node that is not answered; none, no value.",
        ("duty",),
    ),
    Metric("touchstone_open_duties", "Duties that are due now, those under way included.", ("duty",)),
    Metric("touchstone_duty_failures_total", "Attempts at a duty that failed and are made again.", ("duty",)),
    Metric("touchstone_refolds_total", "How often this node has read the whole chain anew."),
    Metric("touchstone_seat_status", "1 for what this node's seat is now.", ("role", "status")),
    Metric("touchstone_seat_stake_tokens", "What the seat has at stake."),
    Metric("touchstone_seat_required_stake_tokens", "What a seat must have at stake to sit in a round."),
    Metric("touchstone_credit_tokens", "What the account may withdraw, stake or put down as a bond."),
    Metric("touchstone_locked_tokens", "Stake, bonds and escrow of the account in its task."),
    Metric("touchstone_earned_tokens", "What settlements will pay if nothing more happens."),
    Metric("touchstone_owed_tokens", "Fees that settlements will take if nothing more happens."),
    Metric("touchstone_settled_tokens", "What became credit of the account in its task.", ("reason",)),
    Metric("touchstone_lost_tokens", "What the account has lost in its task.", ("reason",)),
    Metric("touchstone_gas_left", "Gas that the account's coin pays for at the price of now."),
    Metric("touchstone_gas_factor", "How many times the manual's gas calls take on this chain."),
    Metric("touchstone_rounds_trained_total", "Claims that were trained to their end."),
    Metric("touchstone_tokens_trained_total", "Tokens of the training steps."),
    Metric("touchstone_loss", "Loss of the last training step, in nats."),
    Metric("touchstone_round_loss", "Mean loss of this solver's newest claim of a closed round, in nats."),
    Metric("touchstone_votes", "Own votes in the journal.", ("word",)),
    Metric(
        "touchstone_disputes", "Disputes, asks and contests with a part of ours.", ("kind", "side", "end")
    ),
    Metric("touchstone_served_bytes_total", "Bytes of blobs that were served."),
    Metric("touchstone_fetched_bytes_total", "Bytes that came from peers and their buckets."),
    Metric("touchstone_disk_free_bytes", "Room on the disk of the home."),
    Metric("touchstone_trouble", "1 while the node has this trouble.", ("kind",)),
    Metric("touchstone_troubles_total", "How often the node came to have this trouble.", ("kind",)),
    Metric("touchstone_restarts", "Starts of this home's node after the first."),
    Metric("touchstone_kills", "Runs of this home's node that ended without a word."),
)
"""Beside them the library tells of the process: `process_resident_memory_bytes` and others."""
COMMIT, VOTE, ASK, DISPUTE, CONTEST = "commit", "vote", "ask", "dispute", "contest"
OPENER, ACCUSED, OPEN = "opener", "accused", "open"

Values = dict[str, Samples]


@dataclass
class Measures:
    """What a node's metrics are read from. Deadlines and money take a tenth of a second where a task is
    large: they are listed once for each state of it."""

    party: Party
    watch: Watch
    server: BlobServer
    _listed_for: tuple[object, ...] = ()
    _nearest: Samples = field(default_factory=dict)
    _money: Values = field(default_factory=dict)

    def read(self) -> Values:
        """All values of now. A bug in one part does not take the others away: it is logged."""
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
        health, state = self.party.chain.connection.health, self.party.state
        head = health.head
        values: Values = {
            "touchstone_processed_block": _one(state.head_block),
            "touchstone_rpc_silence_seconds": _one(time.monotonic() - health.answered_s),
            "touchstone_rpc_errors_total": _by_name(health.errors),
            "touchstone_refolds_total": _one(self.party.meter.refolds),
            "touchstone_credit_tokens": _one(state.credits[self.party.account] / TOKEN_WEI),
        }
        if head is not None:
            values["touchstone_head_block"] = _one(head.number)
            values["touchstone_head_age_seconds"] = _one(time.time() - head.timestamp_s)
        return values

    def _read_work(self) -> Values:
        meter = self.party.meter
        return {
            "touchstone_open_duties": _by_name(meter.due),
            "touchstone_duty_failures_total": _by_name(meter.failures),
            "touchstone_rounds_trained_total": _one(meter.rounds_trained),
            "touchstone_tokens_trained_total": _one(meter.tokens_trained),
            "touchstone_loss": {} if meter.loss is None else _one(meter.loss),
            "touchstone_served_bytes_total": _one(self.server.served_bytes),
            "touchstone_fetched_bytes_total": _one(self.party.client.fetched_bytes),
        }

    def _read_machine(self) -> Values:
        watch = self.watch
        return {
            "touchstone_disk_free_bytes": _one(shutil.disk_usage(self.party.config.home).free),
            "touchstone_trouble": {(kind.value,): float(kind in watch.troubles) for kind in Trouble},
            "touchstone_troubles_total": {(kind.value,): float(watch.counts[kind]) for kind in Trouble},
            "touchstone_restarts": _one(watch.past.restarts),
            "touchstone_kills": _one(watch.past.kills),
            "touchstone_gas_left": {} if watch.gas_left is None else _one(watch.gas_left),
            "touchstone_gas_factor": {} if watch.gas_factor is None else _one(watch.gas_factor),
        }

    def _read_task(self) -> Values:
        """Nothing before a task is joined, or while the chain has taken it back."""
        party = self.party
        if party.joined is None or not party.is_task_known:
            return {}
        block = party.state.head_block + 1
        words = Counter(made.vote.word for made in party.task.audits.room.book.votes.values())
        reported = [made.report for made in party.task.claims.reports.values()]
        newest = max(reported, key=lambda report: report.round, default=None)
        self._list(block)
        return {
            "touchstone_round_loss": {} if newest is None else _one(newest.mean_micronats / 1e6),
            "touchstone_deadline_blocks": self._nearest,
            "touchstone_votes": {(word.name,): float(words[word]) for word in VoteWord},
            "touchstone_disputes": count_disputes(party.view),
            **_read_seat(get_state_at(party.game, block), party.account),
            **self._money,
        }

    def _list(self, block: int) -> None:
        state, task = self.party.state, self.party.task.task
        # What is folded anew is another object.
        now = (block, self.party.game, state.inner[task], state.contests[task])
        if not _is_same(now, self._listed_for):
            nearest: dict[tuple[str, ...], float] = {}
            for duty, last_block in list_deadlines(self.party.view, block):
                left = float(last_block - state.head_block)
                nearest[duty,] = min(left, nearest.get((duty,), left))
            game, account = self.party.game, self.party.account
            money = compute_account(get_state_at(game, block), game.money, account, block)
            self._listed_for, self._nearest, self._money = now, nearest, _read_money(money)


def _is_same(now: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Whether the block is the same, and all else the same objects: to compare them would take longer."""
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


# --- Deadlines ----------------------------------------------------------------------------------------------
def list_deadlines(view: View, block: int) -> Iterator[tuple[str, int]]:
    """What this node's account has to bring to the chain, as a duty's name and the last block that takes it,
    where a call of `block` finds it missing."""
    game, account = get_state_at(view.game, block), view.account
    yield from ((CONTEST, last_block) for last_block in _list_contest_moves(view, game))
    for dispute in view.chain_state.inner[view.task].disputes.values():
        if _has_move(game, dispute, account, block):
            yield DISPUTE, dispute.clock
    seat = find_seat(game, account)
    if seat is None or seat.status == SeatStatus.CLOSED:
        return
    for ask in view.chain_state.inner[view.task].asks.values():
        if ask.seat == seat.number and is_answerable(ask, block):
            yield ASK, ask.clock
    yield from ((COMMIT, last_block) for last_block in _list_commitments(game, account))
    for drawn in list_drawn(game, account, block):
        if is_wanted(game, drawn.place, block) and block >= get_due_block(game, drawn.place):
            yield VOTE, _get_last_block(game, drawn, block)


def _list_commitments(game: GameState, account: str) -> Iterator[int]:
    game_round = get_live_round(game)
    if game_round is None or game_round.phase != RoundPhase.RUNNING or game_round.trained_from is None:
        return
    slot = find_own_slot(game, game_round, account)
    if game_round.closed is None and slot is not None and slot not in game_round.claims:
        yield compute_closing_block(game, game_round)


def _get_last_block(game: GameState, drawn: DrawnAudit, block: int) -> int:
    """Until when a vote can have its claim merged; later, until when it counts at all."""
    place, audit_max = drawn.place, game.terms.windows.audit_max
    start = get_votes_from(game, game.rounds[place.round], place.draw) or block
    is_merging = not is_late_draw(game, place.draw) and block <= start + audit_max
    return start + (1 if is_merging else 2) * audit_max


def _has_move(game: GameState, dispute: InnerDispute, account: str, block: int) -> bool:
    """Whether the dispute waits for this account: to end one is nobody's duty."""
    claimant = game.seats.get(dispute.seat)
    is_gone = claimant is None or is_closed(game, dispute.seat)
    moves = list_moves(dispute, account, "" if claimant is None else claimant.account, block, is_gone)
    return any(move is not Move.END for move in moves)


def _list_contest_moves(view: View, game: GameState) -> Iterator[int]:
    """Of contests of a root that this node has signed, and of its own."""
    for contest in view.chain_state.contests[view.task].contests.values():
        side = _find_side(game, contest.contester, contest.round, view.account)
        is_contesters = contest.turn == InnerTurn.CONTESTER
        if contest.turn not in ENDED and side == (OPENER if is_contesters else ACCUSED):
            yield contest.clock


def _find_side(game: GameState, contester: str, index: int, account: str) -> str:
    """The part of an account in a contest; empty where it has none."""
    if contester == account:
        return OPENER
    seat, game_round = find_seat(game, account), game.rounds.get(index)
    is_signer = seat is not None and game_round is not None and seat.number in game_round.signers
    return ACCUSED if is_signer else ""


# --- Disputes -----------------------------------------------------------------------------------------------
def count_disputes(view: View) -> Samples:
    """Disputes, asks and contests that this account opened, or has to answer for, by how they ended."""
    game, account, found = view.game, view.account, Counter[tuple[str, ...]]()
    seat, inner = find_seat(game, account), view.chain_state.inner[view.task]
    for dispute in inner.disputes.values():
        end = OPEN if dispute.is_open else dispute.stage.name.lower()
        found[DISPUTE, _tell_side(seat, dispute.opener, dispute.seat, account), end] += 1
    for ask in inner.asks.values():
        end = OPEN if ask.ending == AskEnding.OPEN else ask.ending.name.lower()
        found[ASK, _tell_side(seat, ask.asker, ask.seat, account), end] += 1
    for contest in view.chain_state.contests[view.task].contests.values():
        end = contest.turn.name.lower() if contest.turn in ENDED else OPEN
        found[CONTEST, _find_side(game, contest.contester, contest.round, account), end] += 1
    return {labels: float(count) for labels, count in found.items() if labels[1]}


def _tell_side(seat: Seat | None, opener: str, accused: int, account: str) -> str:
    if opener == account:
        return OPENER
    return ACCUSED if seat is not None and seat.number == accused else ""


# --- Showing them -------------------------------------------------------------------------------------------
async def show_metrics(measures: Measures, stack: AsyncExitStack) -> None:
    """Listen where the home says, until `stack` is closed; nothing without a port. A port that is taken stops
    no node, since silence would cost more: it is logged."""
    config = measures.party.config
    if not config.metrics_port:
        return
    server = MetricsServer(METRICS, measures.read)
    try:
        await server.start(config.metrics_host, config.metrics_port)
    except EnvironmentFault as fault:
        log.warning("%s", fault)
        return
    stack.push_async_callback(server.stop)
