"""A node's watch over its own troubles, and over whether somebody else uses its machine.

Every second it looks whether the chain's node answers, whether its newest block is old, and how much room the
disk has; every few seconds it asks whether it is still the chain of the deployment. What comes and what goes
is one line of the log each. The home's file `node-state.json` has the same, for `touchstone status`: a file
can be read where the node hangs or has ended, and it needs no port. It is no journal: without it nothing is
lost but the count of restarts.

A node whose machine is lent leaves its task as soon as somebody uses the machine, and waits between two
seats. What it owes meanwhile is nobody's choice: rounds whose pools were frozen before hold the seat.

    idle --> takes a seat --> used --> leaves --> serves rounds that hold it --> paid out --> waits for idle
"""

import asyncio
import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from protocol.actions.runtime.config import PartyConfig
from protocol.actions.runtime.party import Party
from protocol.adapters.chain.chain_client import BLOCK_S, is_old
from protocol.adapters.chain.refusal_words import ContractRefused
from protocol.adapters.files import replace_private_file
from protocol.adapters.machine import MachineInUse, MachineUse
from protocol.adapters.messages import encode_message
from protocol.adapters.reports import (
    END_WORDS,
    FULL_DISK_BYTES,
    SPARE_DISK_BYTES,
    STATE_FILE,
    End,
    NodeState,
    SeenTrouble,
    Trouble,
    read_node_state,
)
from protocol.compute.program.step import forget_steps
from protocol.spec.errors import Declined, EnvironmentFault, TouchstoneError
from protocol.spec.game.fates import find_seat
from protocol.spec.game.state import SeatRole, SeatStatus

LOOK_S = 1.0
WRITE_S = 2.0
PROBE_S = 2.0
"""So long the watch waits for an answer of its own questions to the chain's node."""
PROBE_LOOKS = 6
"""On a chain that providers serve, and count requests of, the watch asks at one look in so many."""
COIN_LOOKS = 60
"""So seldom it asks for how much gas the account can pay."""
QUIET_S = 2.5
"""The loop asks the chain's node every 2 s at least, once it runs. While it does not (a node opens its task,
and trains a step before it takes its seat), the watch asks in its place."""
SILENT_S = 4.0
"""So a silence is seen within 7 s, a probe included."""
RETRY_S = 60.0
"""Before a node of a lent machine tries again what failed: to take its seat, or to go on with it."""

log = logging.getLogger(__name__)


ENDS = {
    Trouble.RPC_SILENT: "the chain's node answers again",
    Trouble.RPC_LAGGING: "the chain's node tells of new blocks again",
    Trouble.CHAIN_CHANGED: "the chain is the deployment's again",
    Trouble.DISK_LOW: "the disk is not nearly full any more",
    Trouble.DISK_FULL: "the disk has room again",
}


@dataclass(frozen=True)
class Past:
    """The runs before this one: how often a node of this home was started after the first time, how many runs
    were killed, and how the last one ended."""

    restarts: int = 0
    kills: int = 0
    end: End | None = None


def take_over(home: Path, use: MachineUse | None = None) -> Past:
    """What the home's file tells of the runs before, said in the log. To be asked before the chain, which may
    keep a node waiting. use: learns whether the seat that the file tells of leaves because of it."""
    earlier = read_node_state(home)
    if earlier is None:
        return Past()
    if use is not None:
        use.is_leaving = earlier.is_leaving
    if earlier.end in (End.WAITING, End.DECLINED):
        # Between two seats: the same process, as a rule. And what was declined is no run.
        return Past(earlier.restarts, earlier.kills, earlier.earlier_end)
    past = Past(earlier.restarts + 1, earlier.kills + (earlier.end is End.KILLED), earlier.end)
    log.warning(
        "the node was started again (restarts so far: %d): the run before %s, it was seen last %d s ago",
        past.restarts,
        END_WORDS[earlier.end],
        max(0, int(time.time()) - earlier.seen_s),
    )
    return past


@dataclass
class Watch:
    """The watch of one party. troubles: those of now; counts: how often each began; gas_left: gas that the
    account's coin pays for at the price of now, None before that is known."""

    party: Party
    past: Past = Past()
    troubles: dict[Trouble, SeenTrouble] = field(default_factory=dict)
    counts: Counter[Trouble] = field(default_factory=Counter)
    gas_left: int | None = None
    _started_s: int = field(default_factory=lambda: int(time.time()))
    _written_s: float = 0.0
    _change: str = ""
    _origin: bytes | None = None
    _turn: int = 0
    _looks: int = 0
    _refused: str = ""
    _was_used: bool = False
    _end: End = End.KILLED
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Watch"]:
        """Watch inside the block, and write down how it ends."""
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
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            self.write(end)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                # A bug of ours: the node goes on, and so does its watch.
                log.exception("the watch cannot look")
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """One look at everything, told and written down."""
        connection = self.party.chain.connection
        if self._looks % (PROBE_LOOKS if self.party.chain.limits.name in BLOCK_S else 1) == 0:
            await self._probe()
        elif time.monotonic() - connection.health.answered_s > QUIET_S:
            await self._ask(connection.head())
        self._looks += 1
        self._look_at_use()
        found = dict(self._list_troubles())
        is_news = found.keys() != self.troubles.keys()
        self._tell(found)
        if is_news or self._refused or time.monotonic() - self._written_s >= WRITE_S:
            await asyncio.to_thread(self.write)

    async def _probe(self) -> None:
        """Ask the chain's node whether it is still that of the deployment, and now and then for the coin:
        each in a time of its own, or a slow node would never tell of the coin."""
        is_known = await self._ask(self._note_change())
        if is_known and self._looks % COIN_LOOKS == 0:
            await self._ask(self._note_gas_left())

    async def _ask(self, question: Awaitable[object]) -> bool:
        """Whether an answer came. What does not answer is silent; an answer that is none must not hide what
        else is wrong."""
        try:
            async with asyncio.timeout(PROBE_S):
                await question
                return True
        except (TimeoutError, TouchstoneError):
            pass
        except Exception:
            log.exception("the watch cannot ask the chain's node")
        return False

    async def _note_change(self) -> None:
        self._change = await self._find_change()

    async def _note_gas_left(self) -> None:
        self.gas_left = await self._find_gas_left()

    async def _find_gas_left(self) -> int:
        connection = self.party.chain.connection
        price_wei = (await connection.head()).base_fee_wei + await connection.priority_fee()
        return await connection.balance_of(self.party.account) // max(1, price_wei)

    def _look_at_use(self) -> None:
        """A node that has to leave does not wait for the next block."""
        is_used = self.party.config.use is not None and self.party.config.use.is_used
        if is_used != self._was_used:
            self._was_used = is_used
            self.party.wake()

    def _tell(self, found: dict[Trouble, str]) -> None:
        now_s = int(time.time())
        for kind in [kind for kind in self.troubles if kind not in found]:
            log.warning("%s, after %d s", ENDS[kind], now_s - self.troubles.pop(kind).since_s)
        for kind, said in found.items():
            if kind not in self.troubles:
                self.counts[kind] += 1
                log.warning("%s", said)
            since_s = self.troubles[kind].since_s if kind in self.troubles else now_s
            self.troubles[kind] = SeenTrouble(kind, since_s, said)

    def write(self, end: End = End.KILLED) -> None:
        """Write the home's file. Where the disk refuses it, that is a trouble of the next look. After an end
        nothing is written any more: a look may have been under way in another thread."""
        with self._writing:
            if self._end is End.KILLED:
                self._end, self._written_s = end, time.monotonic()
                self._refused = self._try_to_write()

    def _try_to_write(self) -> str:
        """What the system says where it refuses; else empty."""
        party, past, now_s = self.party, self.past, int(time.time())
        counts = (past.restarts, past.kills, past.end)
        is_leaving = party.config.use is not None and party.config.use.is_leaving
        now = (party.state.head_block, tuple(self.troubles.values()), is_leaving)
        state = NodeState(party.account, self._started_s, now_s, self._end, *counts, *now)
        try:
            replace_private_file(party.config.home / STATE_FILE, encode_message(state))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    # --- What may be wrong ----------------------------------------------------------------------------------
    def _list_troubles(self) -> Iterator[tuple[Trouble, str]]:
        health, name = self.party.chain.connection.health, self.party.chain.limits.name
        silence_s = time.monotonic() - health.answered_s
        if silence_s > SILENT_S:
            yield (
                Trouble.RPC_SILENT,
                "the chain's node is silent: no answer for some seconds, and no duty can be done",
            )
        elif health.head is not None and is_old(health.head, name):
            age_s = time.time() - health.head.timestamp_s
            said = f"block {health.head.number} is its newest and was {age_s:.0f} s old"
            yield Trouble.RPC_LAGGING, f"the chain's node lags behind, or this clock is wrong: {said}"
        if self._change:
            yield Trouble.CHAIN_CHANGED, f"the chain's node shows another chain: {self._change}"
        yield from self._list_disk_troubles()

    def _list_disk_troubles(self) -> Iterator[tuple[Trouble, str]]:
        try:
            free_bytes = shutil.disk_usage(self.party.config.home).free
        except OSError as error:
            yield Trouble.DISK_FULL, f"the home of this node cannot be reached: {error.strerror}"
            return
        room, needed_bytes = f"{free_bytes / 1e6:,.0f} MB free", self._compute_needed_bytes()
        if self._refused:
            yield Trouble.DISK_FULL, f"the disk takes no file of this node: {self._refused}, {room}"
        elif free_bytes < FULL_DISK_BYTES:
            yield Trouble.DISK_FULL, f"the disk of this node is full: {room}"
        elif free_bytes < needed_bytes:
            yield Trouble.DISK_LOW, f"the disk is nearly full: {room}, {needed_bytes / 1e6:,.0f} MB needed"

    def _compute_needed_bytes(self) -> int:
        """What a solver writes in one round, or an auditor for one replay; not less than some spare room."""
        party = self.party
        if party.joined is None or not party.is_task_known:
            return SPARE_DISK_BYTES
        seat, terms = find_seat(party.game, party.account), party.task.spec.terms
        is_solver = seat is not None and seat.role == SeatRole.SOLVER
        states = terms.segment_count + 1 if is_solver else 2
        return max(SPARE_DISK_BYTES, 12 * terms.parameter_count * states)

    async def _find_change(self) -> str:
        """In what the chain is another one than the deployment's; empty where it is the same. The contracts
        are looked at in turn, one with each look."""
        chain = self.party.chain
        connection, deployment = chain.connection, chain.deployment
        chain_id = await connection.chain_id()
        if chain_id != deployment.chain_id:
            return f"chain id {chain_id}, the deployment is on {deployment.chain_id}"
        places = [*deployment.contracts().items(), ("token", deployment.token)]
        name, address = places[self._turn % len(places)]
        if not await connection.code_at(address):
            return f"no contract at the address of {name}"
        first = await connection.block(deployment.deploy_block)
        if first is None or first.block_hash != (self._origin or first.block_hash):
            return f"block {deployment.deploy_block}, where the deployment begins, is another or gone"
        self._origin, self._turn = first.block_hash, self._turn + 1
        return ""


# --- While somebody uses the machine ------------------------------------------------------------------------
@dataclass(frozen=True)
class GiveUpSeat:
    """Leave, because somebody uses the machine. seat: the own one."""

    seat: int

    async def perform(self, party: Party) -> None:
        """Write down why, then send it. Raises ContractRefused where the seat does not leave by this."""
        use = party.config.use
        assert use is not None, "only where the machine is lent"
        use.is_leaving = use.is_sent = True
        await asyncio.to_thread(note_state, party.config, is_leaving=True)
        try:
            await party.chain.tasks.leave(party.task.task, self.seat)
        except ContractRefused:
            use.is_sent = False
            raise
        party.say(
            f"{use.reason}: the seat leaves. The node still works for the rounds whose pools hold it, and "
            "answers for them until its stake is out (`touchstone status`)"
        )


def list_duties(party: Party, block: int) -> Iterator[GiveUpSeat]:
    """To leave, while somebody uses a machine that is lent, and the seat is open."""
    use, seat = party.config.use, find_seat(party.game, party.account)
    if use is None or seat is None or seat.status != SeatStatus.OPEN:
        return
    # Of an open seat: what was written down before it was sent, and never sent, is over. What was sent may
    # wait for its block longer than somebody uses the machine.
    use.is_leaving = use.is_used or use.is_sent
    if use.is_used:
        yield GiveUpSeat(seat.number)


async def play_while_idle(
    use: MachineUse,
    is_seated: bool,
    wait: Callable[[], Awaitable[bool]],
    play: Callable[[], Awaitable[bool]],
    say: Callable[[str], None],
) -> bool:
    """Play a task while nobody uses the machine, and wait for that without a seat. wait: until the machine is
    idle, or there is a seat all the same; whether the task takes one. play: as the `run` of a role. Returns
    whether it ended because the task is closed. What may be right later is tried again: nobody is there who
    would start the node."""
    while True:
        try:
            if not is_seated and not await wait():
                return False
            is_seated = False
            is_closed = await play()
        except MachineInUse as fault:
            say(str(fault))
            continue
        except EnvironmentFault as fault:
            if not fault.retryable:
                raise
            say(str(fault))
            await asyncio.sleep(RETRY_S)
            continue
        if is_closed or not use.is_leaving:
            return is_closed


async def wait_until_idle(config: PartyConfig, use: MachineUse) -> None:
    """Wait, without a seat, until nobody has used the machine for long enough. The home's file says so
    meanwhile. The memory of steps is given back again and again, because a thread may still end one after the
    wait has begun."""
    use.is_leaving = use.is_sent = False
    end = End.STOPPED
    try:
        while not use.is_idle:
            forget_steps()
            await asyncio.to_thread(note_state, config, end=End.WAITING)
            await asyncio.sleep(WRITE_S)
        end = End.WAITING
    finally:
        note_state(config, end=end)


def note_state(config: PartyConfig, *, end: End = End.KILLED, is_leaving: bool = False) -> None:
    """Write into the home's file what is known while no watch does. Where the disk refuses it, nothing is
    lost but a word of `touchstone status`."""
    now_s, account = int(time.time()), config.key.address.lower()
    known = read_node_state(config.home) or NodeState(account, now_s, now_s, end, 0, 0, None, 0, ())
    state = structs.replace(known, seen_s=now_s, end=end, troubles=(), is_leaving=is_leaving)
    with suppress(OSError):
        replace_private_file(config.home / STATE_FILE, encode_message(state))
