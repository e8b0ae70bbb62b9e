"""Folds the stored events for the explorer, and follows the chain.

    chain --> EventIndex (stored) --> ChainState (folded, as nodes do it) --> documents of the pages
                                  --> lines that describe events, money by reason, convictions, old rounds

It only reads: it has no account, so it can neither sign nor send. The index also has reports of nodes
(`node_reports.py`), which are shown beside the claims and audits that they are about.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from touchstone.explorer.account_documents import Totals, add_round, add_votes
from touchstone.explorer.convicted_number import find_number
from touchstone.explorer.conviction_facts import find_shares, find_statement, find_untouched
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.money_documents import TOTALS, Money, find_money, sum_money
from touchstone.explorer.names import Names
from touchstone.explorer.report_documents import Reported, add_reports, make_losses
from touchstone.explorer.round_documents import make_round
from touchstone.explorer.story import TOLD_POTS, Conviction, Teller, group_names
from touchstone.explorer.suspicious_documents import LOOKED_ROUNDS, list_suspicious
from touchstone.explorer.task_documents import make_training
from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.own_contracts import find_other_contracts, find_other_creations
from touchstone.protocol.adapters.chain.pace import RECENT_BLOCKS, Pace, measure_pace
from touchstone.protocol.adapters.chain.pots import name_pot
from touchstone.protocol.spec.errors import EnvironmentFault, TouchstoneError
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.epochs import get_epoch
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.training_codec import decode_training

NUMBERS_AT_ONCE = 32
"""Transactions of convictions that are read in one block."""
SILENT_S, SILENT_POLLS = 6.0, 3
"""Seconds, and polls, without an answer after which the chain counts as silent."""
RETRY_S = 2.0
"""Seconds before a silent chain is asked again."""
BROKEN = (TouchstoneError, LookupError, ValueError, ArithmeticError)
"""Errors that a stranger's task may cause which this program does not understand."""

log = logging.getLogger(__name__)


@dataclass
class ChainView:
    """What the chain says of one deployment. `names` are accounts' names here; the chain knows none.

    By task: `convictions`, `posted` (block), `totals` (of votes, and of freed rounds), and `touched`, the
    turn of its last change. `turn` counts changes. `head` is the last folded block. `fault` says why the
    chain is not read, else empty. `others` are contracts that are not those of this version, with the
    difference, None before the check."""

    chain: GameChain
    index: EventIndex
    names: Names = field(default_factory=lambda: Names({}))
    state: ChainState = field(init=False)
    convictions: dict[bytes, list[Conviction]] = field(default_factory=dict)
    posted: dict[bytes, int] = field(default_factory=dict)
    totals: dict[bytes, Totals] = field(default_factory=dict)
    touched: dict[bytes, int] = field(default_factory=dict)
    turn: int = 0
    head: Head | None = None
    fault: str = ""
    others: dict[str, str] | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _pots: dict[bytes, bytes] = field(default_factory=dict)
    _tellers: dict[bytes, Teller] = field(default_factory=dict)
    _sought: list[Event] = field(default_factory=list)
    _events: Counter[bytes] = field(default_factory=Counter)
    _added: dict[bytes, tuple[int, Totals]] = field(default_factory=dict)
    _losses: dict[tuple[bytes, int], tuple[GameRound, int, dict[str, Any]]] = field(default_factory=dict)
    """The losses of rounds, as of a block, that have not changed since and got no new report."""
    _suspicious: dict[bytes, tuple[tuple[int, int], list[dict[str, Any]]]] = field(default_factory=dict)
    """What is suspicious by task, as of a block and a turn."""
    _heads: deque[Head] = field(default_factory=lambda: deque(maxlen=RECENT_BLOCKS))
    """The newest heads, from which the block time is measured."""

    def __post_init__(self) -> None:
        self.state = ChainState.of(self.chain)

    @property
    def next_block(self) -> int:
        """The block that would hold a call sent now."""
        return self.state.head_block + 1

    @property
    def pace(self) -> Pace:
        """The newest block, and the block time of the last ones."""
        return Pace(0, None) if not self._heads else measure_pace(self._heads[0], self._heads[-1])

    def describe_fault(self) -> str:
        """Returns why the chain is not read now; empty if it is read. Tells of a silent node of the chain
        some seconds after its last answer. No text of the node itself is in it, which may hold a key."""
        health, now_s = self.chain.connection.health, time.monotonic()
        if self.fault:
            return self.fault
        if now_s - health.answered_s > max(SILENT_S, SILENT_POLLS * self.chain.connection.poll_s):
            return "no endpoint answers"
        return "its answers cannot be read" if health.unread and now_s - health.unread_s > SILENT_S else ""

    async def run(self) -> None:
        """Folds the stored events, then follows the chain without end; a silent chain is asked again. Raises
        EnvironmentFault if waiting cannot help."""
        await self.refold()
        while True:
            try:
                if self.others is None:
                    self.others = await self._find_others()
                async for batch in self.chain.follow(self.index.list_heads()):
                    await self.take(batch)
            except EnvironmentFault as fault:
                if not fault.retryable:
                    raise
                log.warning("The chain is not read for now: %s", fault)
                # Show only a part of the error, because the URL of the chain's node may hold a key.
                await self._announce(fault=fault.what)
                await asyncio.sleep(RETRY_S)

    async def _find_others(self) -> dict[str, str] | None:
        chain = self.chain
        try:
            told = chain.connection, chain.deployment, chain.bounds
            found = await find_other_creations(*told) | await find_other_contracts(*told)
        except EnvironmentFault as fault:
            if fault.retryable:
                raise
            log.warning("The contracts cannot be compared with those of this version: %s", fault)
            return None
        for name, words in found.items():
            log.warning("%s of this deployment is not the contract of this version: %s %s", name, name, words)
        return found

    async def refold(self) -> None:
        """Folds all stored events anew: at the start, and after a reorg."""
        self.state = ChainState.of(self.chain)
        told = (self.convictions, self.posted, self.totals, self._events, self._added)
        for fold in (*told, self._pots, self._tellers, self._sought):
            fold.clear()
        self._losses.clear()
        self._suspicious.clear()
        self.index.forget_told()
        self.touched = dict.fromkeys(self.touched, self.turn + 1)
        heads = self.index.list_heads()
        for events in self.index.list_blocks():
            await self._fold_in_turns(events)
        self._heads = deque(heads, maxlen=RECENT_BLOCKS)
        if heads:
            self.head, self.state.head_block = heads[-1], heads[-1].number

    async def take(self, batch: LogBatch) -> None:
        """Stores a batch, folds it, and wakes all that wait for a change."""
        self.index.take(batch)
        if batch.forget_from is not None:
            await self.refold()
        else:
            await self._fold_in_turns(batch.events)
        self.head, self.state.head_block = batch.head, batch.head.number
        self._heads.append(batch.head)
        await self._read_numbers()
        await self._announce()

    async def wait_for_change(self, turn: int) -> int:
        """Returns the first turn after `turn`."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.turn > turn)
            return self.turn

    async def _announce(self, fault: str = "") -> None:
        async with self.changed:
            self.turn, self.fault = self.turn + 1, fault
            self.changed.notify_all()

    async def _fold_in_turns(self, events: Sequence[Event]) -> None:
        """Folds block by block, and lets requests be answered between two blocks."""
        for _, of_block in groupby(events, attrgetter("block_number")):
            self._fold(list(of_block))
            await asyncio.sleep(0)

    def _fold(self, events: Sequence[Event]) -> None:
        """Folds `events` of whole blocks, so that all events of a transaction are together."""
        beside, lines = group_names(events), list[tuple[bytes, int, int, str]]()
        for event in events:
            if event.name == "TaskPosted":
                self._begin(event.arguments["task"], event)
        before: Event | None = None
        for event in events:
            self._fold_one(event, beside[event.transaction_hash], lines)
            if event.name == "SeatConvicted" and event.arguments["task"] in self.posted:
                together = [one for one in events if one.transaction_hash == event.transaction_hash]
                self._convict(event.arguments["task"], event, _find_ended(before, event), together)
            before = event if event.name in ("DisputeEnded", "SeatConvicted") else before
        self.index.put_lines(lines)

    def _begin(self, task: bytes, event: Event) -> None:
        """Prepares a task before the events of its block are folded."""
        self.posted[task], self.convictions[task], self.totals[task] = event.block_number, [], {}
        self._pots |= {name_pot(kind, task): task for kind in TOLD_POTS}

    def _fold_one(self, event: Event, beside: set[str], lines: list[tuple[bytes, int, int, str]]) -> None:
        values = event.arguments
        task = self._pots.get(values["pot"]) if event.name == "Given" else values.get("task")
        if event.name == "EpochFreed":
            self._keep_rounds(values["task"], values["epoch"], event.block_number)
        self.state.fold(event)
        if task not in self.posted:
            return
        self.touched[task] = self.turn + 1
        self._events[task] += 1
        if task in self.state.games:
            self._add_votes(task, event)
        place = (task, event.block_number, event.log_index)
        lines += [(*place, line) for line in self._describe(task, event, beside)]

    def _add_votes(self, task: bytes, event: Event) -> None:
        try:
            add_votes(self.totals[task], self.state.games[task], event.name, event.arguments)
        except BROKEN as error:
            log.error("%s of block %d cannot be added up: %s", event.name, event.block_number, error)

    def _describe(self, task: bytes, event: Event, beside: set[str]) -> list[str]:
        if task not in self.state.games:
            return []
        teller = self._tellers.get(task) or Teller(self.names, self.state, task)
        self._tellers[task] = teller
        try:
            return list(teller.describe_event(event, beside))
        except BROKEN as error:
            # A stranger's terms that cannot be described must not hide others.
            log.error("%s of block %d cannot be described: %s", event.name, event.block_number, error)
            return []

    def _keep_rounds(self, task: bytes, epoch: int, block: int) -> None:
        """Stores the rounds of a freed epoch, because the contracts, and so the fold, forget them."""
        game = self.state.games.get(task)
        if game is None:
            return
        for game_round in game.rounds.values():
            if get_epoch(game_round.index) <= epoch:
                try:
                    document = self._make_whole(task, game, game_round, block)
                    add_round(self.totals[task], game, game_round, block, self._read_training(task))
                except BROKEN as error:
                    log.error("Round %d of %s cannot be kept: %s", game_round.index, task.hex(), error)
                    continue
                self.index.put_round(task, game_round.index, document)
                self._losses.pop((task, game_round.index), None)

    def _make_whole(self, task: bytes, game: LoggedGame, game_round: GameRound, block: int) -> dict[str, Any]:
        reported = self.index.list_reports(task, game_round.index)
        document = make_round(game, game_round, block, self.names)
        return add_reports(document | make_losses(game, game_round, reported, block), reported)

    def make_round(self, task: bytes, number: int) -> dict[str, Any] | None:
        """Returns a round in full, even of a freed epoch; None if it was not opened."""
        game = self.state.games.get(task)
        if game is not None and number in game.rounds:
            return self._make_whole(task, game, game.rounds[number], self.next_block)
        return self.index.find_round(task, number)

    def make_losses(self, task: bytes, game_round: GameRound) -> dict[str, Any]:
        """Returns the losses that nodes report for a round that the contracts know."""
        key, known = (task, game_round.index), self._losses.get((task, game_round.index))
        if known is None or known[0] is not game_round or known[1] != self.next_block:
            reported = self.index.list_reports(*key, of_losses=True)
            made = make_losses(self.state.games[task], game_round, reported, self.next_block)
            known = self._losses[key] = game_round, self.next_block, made
        return known[2]

    def list_suspicious(self, task: bytes) -> list[dict[str, Any]]:
        """Returns what an auditor may want to look at in a task; computed once for each head and change."""
        key, known = (self.next_block, self.touched.get(task, 0)), self._suspicious.get(task)
        if known is None or known[0] != key:
            game = self.state.games[task]
            reported = self.index.list_distances(task, max(0, game.next_round - LOOKED_ROUNDS))
            try:
                told = self.state.inner.get(task), reported, self.next_block, self.names
                rows = list_suspicious(game, *told)
            except BROKEN as error:
                log.error("What is suspicious in %s cannot be listed: %s", task.hex(), error)
                rows = []
            known = self._suspicious[task] = key, rows
        return known[1]

    async def take_report(self, task: bytes, index: int, one: Reported, signature: bytes) -> None:
        """Stores a node's signed report about round `index`, and wakes all that wait for a change."""
        self.index.put_report(task, index, one, signature)
        self._losses.pop((task, index), None)
        self.touched[task] = self.turn + 1
        await self._announce(self.fault)

    async def add_up(self) -> dict[tuple[str, bytes], Counter[str]]:
        """Returns what each account did in each task, by `task_documents.DONE`. Tasks without changes are not
        added up again, and requests are answered between two tasks."""
        found: dict[tuple[str, bytes], Counter[str]] = {}
        for task in list(self.posted):
            if task in self.state.games:
                count, totals = self._added.get(task, (-1, {}))
                if count != self._events[task]:
                    totals = self._add_task(task)
                    self._added[task] = (self._events[task], totals)
                found |= {(account, task): done for account, done in totals.items()}
            await asyncio.sleep(0)
        return found

    def _add_task(self, task: bytes) -> Totals:
        game, training = self.state.games[task], self._read_training(task)
        totals = {account: Counter(done) for account, done in self.totals[task].items()}
        for account, money in self.find_money(task).items():
            sums = sum_money(money)
            wei = {name: sums[name.removesuffix("_wei")] for name in TOTALS}
            totals.setdefault(account, Counter()).update(wei)
        for one in filter(lambda one: one.account, self.convictions[task]):
            totals.setdefault(one.account, Counter())["convictions"] += 1
        for game_round in game.rounds.values():
            try:
                add_round(totals, game, game_round, self.next_block, training)
            except BROKEN as error:
                log.error("Round %d of %s cannot be added up: %s", game_round.index, task.hex(), error)
        return {account: done for account, done in totals.items() if any(done.values())}

    def find_money(self, task: bytes) -> Money:
        """Returns the money of each account in a task; nothing if it cannot be computed."""
        try:
            return find_money(self.state.games[task], self.next_block)
        except BROKEN as error:
            log.error("The money of %s cannot be computed: %s", task.hex(), error)
            return {}

    def _read_training(self, task: bytes) -> dict[str, Any]:
        return make_training(self.state.task_terms[task], self.state.texts[task])

    def _convict(self, task: bytes, event: Event, dispute: bytes | None, together: Sequence[Event]) -> None:
        """Notes a conviction. `together` are all events of its transaction."""
        values, game = event.arguments, self.state.games.get(task)
        seat = None if game is None else game.seats.get(int(values["seat"]))
        statement = find_statement(event, together)
        self.convictions[task].append(
            Conviction(
                event.block_number,
                event.transaction_hash,
                int(values["seat"]),
                "" if seat is None else seat.account,
                str(values["finder"]),
                ProofKind(int(values["proof"])),
                int(values["stake_wei"]),
                dispute,
                statement,
                find_shares(task, together),
                None if game is None else find_untouched(game, statement),
            )
        )
        if not self.index.find_number(event.transaction_hash)[0]:
            self._sought.append(event)

    async def _read_numbers(self) -> None:
        """Reads some of the transactions of convictions, each once. If the chain's node does not show one, it
        is asked again at a later block."""
        sought, self._sought = self._sought[:NUMBERS_AT_ONCE], self._sought[NUMBERS_AT_ONCE:]
        for event in sought:
            task = event.arguments["task"]
            try:
                numeric_format = decode_training(self.state.texts.get(task, b"")).numeric_format
            except BROKEN:
                continue
            try:
                game = self.chain.deployment.game
                found = await find_number(self.chain.connection, game, event, numeric_format)
                shown = None if found is None else found.to_json()
            except EnvironmentFault as fault:
                log.info("A conviction's transaction is not there yet: %s", fault)
                self._sought.append(event)
                continue
            except BROKEN as error:
                # A stranger's own task, program and proof must not stop the reading of others.
                log.error(
                    "The number of a conviction in block %d is not shown: %s", event.block_number, error
                )
                shown = None
            self.index.put_number(event.transaction_hash, shown)
            self.touched[task] = self.turn + 1


def _find_ended(before: Event | None, convicted: Event) -> bytes | None:
    """Returns the dispute that a conviction ended, which the contract logs right before, in the same
    transaction. One transaction may end several. `before` is the last logged end or conviction."""
    if before is None or before.name != "DisputeEnded":
        return None
    is_it = before.transaction_hash == convicted.transaction_hash
    is_convicted = before.arguments["outcome"] == DisputeStage.CONVICTED
    return bytes(before.arguments["dispute"]) if is_it and is_convicted else None
