"""What all who harass honest parties share: victims, a war chest, and transactions that are sent although the
chain refuses them.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from protocol.actions.challenge import accuse, name_solver_claim, to_claim
from protocol.actions.loop import Due
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.actions.suspicion import OpenAccusation
from protocol.adapters.chain import Chain, ContractRefused, Patience
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.transactions import Sender
from protocol.adapters.records import AccusationMade
from protocol.spec.clock import NEVER
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import Move, check_move, compute_opening_seal
from protocol.spec.drawn import get_drawn
from protocol.spec.events import Committed, Event, Revealed
from protocol.spec.params import TOKEN_WEI
from protocol.spec.round import get_settle_block
from protocol.spec.statuses import AuditRef, ClaimRef
from tests.e2e.false_moves import FalseMove, KnownStep, learn_step

CHEST_WEI = 60_000 * TOKEN_WEI
"""Bonds double: the twelfth dispute of a queue costs 20,480 tokens."""
DOOMED_GAS = 2_000_000
"""Enough for every proof on the tiny model: no refusal is to be for want of gas."""


IN_TIME, AFTERWARDS = "while it is open", "once it is closed"


@dataclass(frozen=True)
class Landed:
    """A false move as the chain took it. error: of the contract, empty where it was accepted."""

    name: str
    expected: str
    error: str

    @property
    def is_right(self) -> bool:
        """Whether it failed for a reason that it deserves."""
        return self.error in self.expected.split("|")


@dataclass
class Record:
    """What somebody hostile did that no event tells of. failed: gas by hash of its failed transactions."""

    landed: list[Landed] = field(default_factory=list)
    failed: dict[bytes, int] = field(default_factory=dict)
    proof_slacks: list[int] = field(default_factory=list)
    """Blocks between false moves and the end of their window."""
    answers: list[str] = field(default_factory=list)
    """Of HTTP servers to a flood of requests."""


class StubbornConnection(Connection):
    """A call that the estimate refuses is sent nevertheless."""

    def __init__(self, rpc_url: str) -> None:
        super().__init__(rpc_url)
        self.failed: dict[bytes, dict[str, Any]] = {}

    async def estimate_gas(self, sender: str, to: str, data: bytes, value_wei: int, where: str) -> int:
        try:
            return await super().estimate_gas(sender, to, data, value_wei, where)
        except ContractRefused:
            return DOOMED_GAS

    async def receipt(self, transaction_hash: bytes) -> dict[str, Any] | None:
        found = await super().receipt(transaction_hash)
        if found is not None and not found["status"]:
            self.failed[transaction_hash] = found
        return found


@asynccontextmanager
async def open_stubborn(party: Party) -> AsyncIterator[tuple[Chain, StubbornConnection]]:
    """The party's chain once more, for what is refused."""
    connection, deployment = StubbornConnection(party.config.rpc_url), party.chain.deployment
    sender = Sender(connection, party.config.key, deployment.chain_id, Patience())
    try:
        yield Chain(connection, deployment, sender), connection
    finally:
        await connection.close()


@dataclass(frozen=True)
class SealOnly:
    """Seal an opening, and do not open yet, or ever."""

    made: AccusationMade


@dataclass(frozen=True)
class Learn:
    """Trace the step of a dispute, to lie about it."""

    dispute: bytes


@dataclass(frozen=True)
class Lie:
    """Send false moves in a dispute; when: what tells several times apart."""

    dispute: bytes
    when: str


@dataclass
class Hostile(Participant):
    """Enrolled for nothing. Disputes each of `segments` of each of its victims as soon as it is claimed, and
    the audits of them if told so; a subclass says what it does then."""

    victims: frozenset[str] = frozenset()
    segments: tuple[int, ...] = (1,)
    accuses_audits: bool = False
    record: Record = field(default_factory=Record)
    steps: dict[bytes, KnownStep] = field(default_factory=dict)

    async def run(self) -> None:
        """Put the war chest in, and take part until the task is over."""
        chain = self.party.chain
        await chain.token.approve(chain.deployment.vault, CHEST_WEI)
        await chain.vault.deposit(CHEST_WEI)
        async with open_stubborn(self.party) as (self.stubborn, self.connection):
            await super().run()

    # --- Accusing ------------------------------------------------------------------------------------------
    def react(self, event: Event) -> None:
        """Accuse each claim of a victim, whatever it says."""
        if isinstance(event, Committed) and event.solver in self.victims:
            audit = AuditRef(event.task, event.round, event.slot, 0, 0)
            for segment in self.segments:
                accuse(self.party, name_solver_claim(audit, segment))
        if isinstance(event, Revealed) and self.accuses_audits:
            self._accuse_audit(event)

    def _accuse_audit(self, event: Revealed) -> None:
        state = self.party.round(event.round)
        drawn = get_drawn(state, event.slot, event.draw)
        if drawn is not None and state.solvers[event.slot] in self.victims:
            audit = AuditRef(event.task, event.round, event.slot, event.draw, event.rank)
            accuse(self.party, ClaimRef(audit, drawn.segment, by_solver=False))

    def list_disputes(self) -> list[DisputeState]:
        """All that were opened on this task."""
        return list(self.party.view.disputes[self.party.task].disputes.values())

    def list_openings(self, block: int) -> Iterator[OpenAccusation | SealOnly]:
        """Accusations without a dispute of one's own, whoever pursues the claim too."""
        opened = {one.claim for one in self.list_disputes() if one.opener == self.party.account}
        for made in self.party.memory.accusations:
            if to_claim(made) not in opened and block < self.get_closing_block(made.round, block):
                yield OpenAccusation(made)

    def get_closing_block(self, index: int, block: int) -> int:
        """From which block no dispute of a round can be opened."""
        return get_settle_block(self.party.round(index), block)

    # --- Deciding ------------------------------------------------------------------------------------------
    def decide(self, block: int) -> Due[Hashable]:
        """What it can torment others with in `block`."""
        wanted: list[Hashable] = [*self.list_openings(block)]
        clocks = [self.get_next_opening(block)]
        for state in self.list_disputes():
            wanted += [one for one in self.list_torments(state, block) if one not in self.done]
            clocks.append(self.get_next_torment(state, block))
        return Due(wanted, min(clocks))

    def list_torments(self, state: DisputeState, block: int) -> Iterable[Hashable]:
        """What it does in one dispute, its own or not."""
        return ()

    def get_next_opening(self, block: int) -> int:
        """The block that it waits for to open a dispute."""
        return NEVER

    def get_next_torment(self, state: DisputeState, block: int) -> int:
        """The block that it waits for in a dispute."""
        return NEVER

    def is_allowed(self, state: DisputeState, move: Move, block: int) -> bool:
        """Whether the contract takes it."""
        return check_move(state, move, self.party.account, block) is None

    # --- Performing ----------------------------------------------------------------------------------------
    async def perform(self, action: Hashable) -> None:
        """A move, honest in form, or a false one."""
        if isinstance(action, Learn):
            self.steps[action.dispute] = await learn_step(self.party, self._find_dispute(action.dispute))
        elif isinstance(action, Lie):
            await self.lie(action)
        elif isinstance(action, SealOnly):
            seal = compute_opening_seal(to_claim(action.made), self.party.account, action.made.salt)
            await self.party.chain.dispute_game.seal_opening(seal)
        else:
            await super().perform(action)
            return
        self.done.add(action)

    async def lie(self, action: Lie) -> None:
        """Send all false moves of a dispute, and note how far its window was from its end."""
        clock = self._find_dispute(action.dispute).clock_block
        blocks = await self.send_all(await asyncio.to_thread(list, self.list_lies(action)))
        if action.when == IN_TIME:
            self.record.proof_slacks += [clock - block for block in blocks]

    async def send_all(self, moves: Iterable[FalseMove]) -> list[int]:
        """Send false moves at once and wait for what becomes of them; return the blocks in which they
        failed."""
        before = set(self.connection.failed)
        await asyncio.gather(*map(self.attempt, moves))
        receipts = {name: self.connection.failed[name] for name in self.connection.failed.keys() - before}
        self.record.failed |= {name: int(one["gasUsed"]) for name, one in receipts.items()}
        return [int(one["blockNumber"]) for one in receipts.values()]

    def list_lies(self, action: Lie) -> Iterable[FalseMove]:
        """The false moves of one dispute."""
        return ()

    async def attempt(self, move: FalseMove) -> None:
        """Send one false move, and keep how it ended."""
        error = ""
        try:
            await move.send(self.stubborn)
        except ContractRefused as refusal:
            error = refusal.name
        self.record.landed.append(Landed(move.name, move.expected, error))
