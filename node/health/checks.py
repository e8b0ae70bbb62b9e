"""A node's checks of its own health.

Every second it checks whether the chain's node answers, how old the newest block is, and how much room the
disk has. Every few seconds it checks that each endpoint still shows the deployment's chain. The log gets one
line when an issue begins and one when it ends. The file `node-state.json` in the home has the same for
`touchstone status`: it can be read even if the node hangs or has ended, and needs no port. If it is lost,
only the count of restarts is lost. systemd hears of each look, so that it can restart a node that hangs.
"""

import asyncio
import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from touchstone.node.health.endpoint_watch import (
    EndpointWatch,
    close_endpoints,
    find_origin,
    list_said,
    open_endpoints,
)
from touchstone.node.health.work_words import describe_view
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.gas_factor import measure_gas_factor
from touchstone.node.kit.view import FindView
from touchstone.protocol.adapters.chain.chain_client import GameChain, is_old
from touchstone.protocol.adapters.chain.fees import NO_CAP_WEI
from touchstone.protocol.adapters.chain.gate import BLOCK_S, find_age_fault
from touchstone.protocol.adapters.files.private_files import replace_private_file
from touchstone.protocol.adapters.machine.service_manager import ALIVE, READY, STOPPING, notify_manager
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.reports.node_state import (
    END_WORDS,
    FULL_DISK_BYTES,
    SPARE_DISK_BYTES,
    STATE_FILE,
    End,
    HealthIssue,
    NodeState,
    SeenHealthIssue,
    read_node_state,
)
from touchstone.protocol.spec.errors import Declined, EnvironmentFault, TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.pools import find_seat

GWEI = 10**9
LOOK_S = 1.0
STALE_S = 60.0
"""Seconds without a finished check after which the checks themselves count as an issue."""
WRITE_S = 2.0
PROBE_S = 2.0
"""Seconds that a check waits for an answer of the chain's node."""
PROBE_LOOKS = 6
"""Providers count requests. On a provider's chain, one check in this many asks the chain's node."""
COIN_LOOKS = 60
"""One check in this many asks how much gas the account's coin can pay."""
QUIET_S = 2.5
"""The loop asks the chain's node at least every 2 s. The checks ask instead before the loop runs, while the
node opens its task and trains a step before it takes its seat."""
SILENT_S = 4.0
"""Seconds without an answer after which the chain's node counts as silent. A silent node is noticed within 7
s, the time of a probe included."""
UNREAD_S = 15.0
"""Seconds without a new block, although endpoints answer, before the operator is told. The answering endpoint
may be behind."""

log = logging.getLogger(__name__)


TOLD_BY_NAME = (HealthIssue.ENDPOINT_SILENT, HealthIssue.CHAIN_CHANGED)
"""Health issues that each endpoint reports about itself."""
ENDS = {
    HealthIssue.RPC_SILENT: "the chain's node answers again",
    HealthIssue.RPC_LAGGING: "the chain's node reports new blocks again",
    HealthIssue.CLOCK_WRONG: "this machine's clock is not behind the chain any more",
    HealthIssue.NOTHING_SIGNED: "the node signs again",
    HealthIssue.HEAD_UNPROVABLE: "the contracts can verify this chain's headers again",
    HealthIssue.FEE_CAPPED: "max_fee_gwei is enough again for the waiting transactions",
    HealthIssue.DISK_LOW: "the disk has enough room again",
    HealthIssue.DISK_FULL: "the disk has room again",
}


@dataclass(frozen=True)
class Past:
    """Earlier runs of this home's node: how often it was restarted, how many runs were killed, and how the
    last one ended."""

    restarts: int = 0
    kills: int = 0
    end: End | None = None


def take_over(home: Path) -> Past:
    """Reads and logs what the home's file says about earlier runs. Must be called before the chain is asked,
    because that may take long."""
    earlier = read_node_state(home)
    if earlier is None:
        return Past()
    if earlier.end is End.DECLINED:
        # A run that was declined does not count.
        return Past(earlier.restarts, earlier.kills, earlier.earlier_end)
    past = Past(earlier.restarts + 1, earlier.kills + (earlier.end is End.KILLED), earlier.end)
    log.log(
        logging.INFO if earlier.end is End.STOPPED else logging.WARNING,
        "the node was restarted (restarts so far: %d): the last run %s, and was last seen %d s ago",
        past.restarts,
        END_WORDS[earlier.end],
        max(0, int(time.time()) - earlier.seen_s),
    )
    return past


@dataclass
class Watch:
    """The health checks of one node. `max_fee_wei` is the most that one gas may cost. `health_issues` are the
    present ones, `counts` how often each began. `gas_left` is the gas that the account's coin pays for at
    today's price; `gas_factor` is the gas of calls on this chain over the stored figures. Both are None until
    they are known."""

    chain: GameChain
    chain_state: ChainState
    home: Path
    find_view: FindView
    max_fee_wei: int = NO_CAP_WEI
    past: Past = Past()
    health_issues: dict[HealthIssue, SeenHealthIssue] = field(default_factory=dict)
    counts: Counter[HealthIssue] = field(default_factory=Counter)
    gas_left: int | None = None
    gas_factor: float | None = None
    _started_s: int = field(default_factory=lambda: int(time.time()))
    _written_s: float = 0.0
    _checked_s: float = field(default_factory=time.monotonic)
    _is_ready: bool = False
    _endpoints: list[EndpointWatch] = field(default_factory=list)
    _unproven: str = ""
    _origin: bytes | None = None
    _looks: int = 0
    _refused: str = ""
    _end: End = End.KILLED
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Watch"]:
        """Runs the checks inside the `with` block, and writes down how the node ends."""
        self.write()
        looking, end = asyncio.create_task(self._run()), End.FAILED
        try:
            yield self
            end = End.STOPPED
        except (asyncio.CancelledError, GeneratorExit):
            end = End.STOPPED
            raise
        except Declined:
            end = End.DECLINED
            raise
        finally:
            notify_manager(STOPPING)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await close_endpoints(self._endpoints, self.chain.connection)
            self.write(end)

    async def _run(self) -> None:
        while True:
            try:
                await self.check()
                self._note_check()
            except Exception:
                # A bug here stops neither the node nor the checks.
                log.exception("the health checks failed")
            await asyncio.sleep(LOOK_S)

    async def check(self) -> None:
        """Runs all checks once, tells the operator what is new, and writes the file."""
        connection = self.chain.connection
        is_probing = self._looks % (PROBE_LOOKS if self.chain.bounds.name in BLOCK_S else 1) == 0
        if is_probing:
            await self._probe()
        # The node's own connection has just asked its only endpoint.
        is_asked = is_probing and len(self._endpoints) == 1
        if not is_asked and time.monotonic() - connection.health.answered_s > QUIET_S:
            await self._ask(connection.head)
        self._looks += 1
        found = dict(self._list_issues())
        is_news = found.keys() != self.health_issues.keys()
        self._notify(found)
        if is_news or self._refused or time.monotonic() - self._written_s >= WRITE_S:
            await asyncio.to_thread(self.write)

    def _note_check(self) -> None:
        """Tells systemd that the node is alive. A health issue does not stop that, because a restart mends
        none: it would only cost the node its place in a round."""
        self._checked_s = time.monotonic()
        states = (ALIVE,) if self._is_ready else (READY, ALIVE)
        said = "; ".join(seen.said for seen in self.health_issues.values())
        self._is_ready = notify_manager(*states, status=said or "no health issue")

    def find_issues(self) -> dict[str, str]:
        """Returns the present health issues in words, by name; empty if the node is well."""
        found = {kind.value: seen.said for kind, seen in self.health_issues.items()}
        age_s = time.monotonic() - self._checked_s
        if age_s > STALE_S:
            found["health_checks"] = f"the health checks have not run for {age_s:.0f} s"
        return found

    async def _probe(self) -> None:
        """Asks each endpoint whether it still shows the deployment's chain, and sometimes for the account's
        coin. Each question has its own timeout, so that one slow answer does not stop the others."""
        is_known = await self._look_at_endpoints()
        await self._ask(self.chain.gate.pass_through)
        if is_known and self._looks % COIN_LOOKS == 0:
            await self._ask(self._note_gas_left)
            await self._ask(self._note_header)
            await self._ask(self._note_gas_factor)

    async def _ask(self, question: Callable[[], Awaitable[object]]) -> bool:
        """Asks, and returns whether an answer came. No answer is noted as silence. A malformed answer must
        not hide other issues."""
        try:
            async with asyncio.timeout(PROBE_S):
                await question()
                return True
        except (TimeoutError, TouchstoneError):
            pass
        except Exception:
            log.exception("the health checks cannot ask the chain's node")
        return False

    async def _look_at_endpoints(self) -> bool:
        """Asks each endpoint, and returns whether one has answered."""
        chain = self.chain
        connection, deployment = chain.connection, chain.deployment
        if not self._endpoints:
            self._endpoints = open_endpoints(connection, PROBE_S)
        looks = (self._ask(partial(one.check, deployment)) for one in self._endpoints)
        answered = await asyncio.gather(*looks)
        if self._origin is None:
            await self._ask(self._note_origin)
        for one, is_answering in zip(self._endpoints, answered, strict=True):
            one.note(is_answering=is_answering, origin=self._origin, deployment=deployment)
        return any(answered)

    async def _note_origin(self) -> None:
        self._origin = await find_origin(self._endpoints, self.chain.gate.folded)

    async def _note_header(self) -> None:
        """Notes whether the header of the newest block can be proven to the contracts. If the chain's node
        does not answer, notes nothing."""
        self._unproven = ""
        try:
            await self.chain.require_provable()
        except EnvironmentFault as fault:
            if not fault.retryable:
                self._unproven = str(fault.actual)

    async def _note_gas_left(self) -> None:
        self.gas_left = await self._find_gas_left()

    async def _note_gas_factor(self) -> None:
        self.gas_factor = await measure_gas_factor(self.chain)

    async def _find_gas_left(self) -> int:
        connection = self.chain.connection
        price_wei = (await connection.head()).base_fee_wei + await connection.priority_fee()
        return await connection.balance_of(self.chain.address) // max(1, price_wei)

    def _notify(self, found: dict[HealthIssue, str]) -> None:
        now_s = int(time.time())
        for kind in [kind for kind in self.health_issues if kind not in found]:
            lasted_s = now_s - self.health_issues.pop(kind).since_s
            if kind not in TOLD_BY_NAME:
                log.warning("%s, after %d s", ENDS[kind], lasted_s)
        for kind, said in found.items():
            if kind not in self.health_issues:
                self.counts[kind] += 1
                if kind not in TOLD_BY_NAME:
                    log.warning("%s", said)
            since_s = self.health_issues[kind].since_s if kind in self.health_issues else now_s
            self.health_issues[kind] = SeenHealthIssue(kind, since_s, said)

    def write(self, end: End = End.KILLED) -> None:
        """Writes the home's file. If the disk refuses it, the next check reports a health issue. After the
        node's end nothing is written any more, although a check may still run in another thread."""
        with self._writing:
            if self._end is End.KILLED:
                self._end, self._written_s = end, time.monotonic()
                self._refused = self._try_to_write()

    def _try_to_write(self) -> str:
        """Writes the file. Returns the system's message if it refuses, else an empty text."""
        past, now_s = self.past, int(time.time())
        counts = (past.restarts, past.kills, past.end)
        now = (self.chain_state.head_block, tuple(self.health_issues.values()))
        work = describe_view(self.find_view())
        state = NodeState(
            self.chain.address, self._started_s, now_s, self._end, *counts, *now,
            work.model, work.model_warning, work.next_duty, work.next_block, work.peers,
        )  # fmt: skip
        try:
            replace_private_file(self.home / STATE_FILE, encode_message(state))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    # Possible issues
    def _list_issues(self) -> Iterator[tuple[HealthIssue, str]]:
        of_chain = list(self._list_chain_issues())
        yield from of_chain
        reason, sender = self.chain.gate.reason, self.chain.sender
        if reason and not of_chain:
            yield HealthIssue.NOTHING_SIGNED, f"nothing is signed or sent now: {reason}"
        if said := list_said(one.silence for one in self._endpoints):
            yield HealthIssue.ENDPOINT_SILENT, said
        if self._unproven:
            said = (
                "the contracts cannot verify this chain's headers, so no round is trained: look for an update"
            )
            yield HealthIssue.HEAD_UNPROVABLE, f"{said} ({self._unproven})"
        if sender is not None and sender.is_capped:
            said = "a transaction waits, and the chain asks for more than max_fee_gwei"
            yield HealthIssue.FEE_CAPPED, f"{said}: {self._describe_fees()}. Deadlines pass meanwhile"
        yield from self._list_disk_issues()

    def _describe_fees(self) -> str:
        """Describes the price of gas now, and the most that the node pays."""
        head, cap_wei = self.chain.connection.health.head, self.max_fee_wei
        asked = "" if head is None else f"one gas costs {head.base_fee_wei / GWEI:.4g} gwei and a tip now, "
        return f"{asked}{cap_wei / GWEI:.4g} gwei are allowed"

    def _list_chain_issues(self) -> Iterator[tuple[HealthIssue, str]]:
        health, name = self.chain.connection.health, self.chain.bounds.name
        silence_s = time.monotonic() - health.answered_s
        if silence_s > SILENT_S:
            yield (
                HealthIssue.RPC_SILENT,
                "the chain's node is silent: no answer for some seconds, and no duty can be done",
            )
        elif health.unread and time.monotonic() - health.unread_s > UNREAD_S:
            yield HealthIssue.RPC_SILENT, f"the chain cannot be read, though it answers: {health.unread}"
        elif health.head is not None and is_old(health.head, name):
            age_s = time.time() - health.head.timestamp_s
            said = f"block {health.head.number} is its newest and was {age_s:.0f} s old"
            yield HealthIssue.RPC_LAGGING, f"the chain's node lags behind, or this clock is wrong: {said}"
        elif health.head is not None and (early := find_age_fault(health.head, name, time.time())):
            yield HealthIssue.CLOCK_WRONG, f"this machine's clock is behind the chain: {early}"
        if said := list_said(one.change for one in self._endpoints):
            yield HealthIssue.CHAIN_CHANGED, said

    def _list_disk_issues(self) -> Iterator[tuple[HealthIssue, str]]:
        try:
            free_bytes = shutil.disk_usage(self.home).free
        except OSError as error:
            yield HealthIssue.DISK_FULL, f"the home of this node cannot be reached: {error.strerror}"
            return
        room, needed_bytes = f"{free_bytes / 1e6:,.0f} MB free", self._compute_needed_bytes()
        if self._refused:
            yield HealthIssue.DISK_FULL, f"the disk refuses the files of this node: {self._refused}, {room}"
        elif free_bytes < FULL_DISK_BYTES:
            yield HealthIssue.DISK_FULL, f"the disk of this node is full: {room}"
        elif free_bytes < needed_bytes:
            yield (
                HealthIssue.DISK_LOW,
                f"the disk is nearly full: {room}, {needed_bytes / 1e6:,.0f} MB needed",
            )

    def _compute_needed_bytes(self) -> int:
        """Returns the bytes that a solver writes in one round, or an auditor for one replay, plus some spare
        room."""
        view = self.find_view()
        if view is None:
            return SPARE_DISK_BYTES
        seat, terms = find_seat(view.game, view.account), view.spec.terms
        is_solver = seat is not None and seat.role == SeatRole.SOLVER
        states = terms.segment_count + 1 if is_solver else 2
        return max(SPARE_DISK_BYTES, 12 * terms.parameter_count * states)
