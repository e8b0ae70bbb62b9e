"""Asks nodes for reports of their work, and keeps those that their accounts have signed.

    chain: whose claim or vote is there --> ask its announced endpoint --> signed by it? --> EventIndex

Any account may announce any address, and anybody may run a node that answers anything. So nodes are asked
only for reports that the chain gives reason to expect: of the submitter, which paid an escrow, and of
accounts with a claim or a vote, which took a stake. An announced endpoint alone leads to no connection.
Addresses that are not public are asked only if the operator says so. Answers are limited in bytes and time,
and they are kept only with the signature of the account that the chain names. Nodes that give no valid answer
are asked more and more seldom. No page shows why, because that would reveal what this machine can reach.

Nobody has proven the reports: a node may sign any figures.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from touchstone.explorer.chain_view import BROKEN, ChainView
from touchstone.explorer.report_documents import (
    LOSS,
    Reported,
    list_heldout_reporters,
    list_reporters,
    show_report,
)
from touchstone.protocol.adapters.reports.round_reports import (
    AnyReport,
    DistancesSaid,
    HeldoutSaid,
    LossSaid,
    ReportClient,
    ReportsSaid,
    is_signed,
    read_distances,
    read_heldout,
    read_loss,
)
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState

LOOK_S, LEAST_LOOK_S = 1.0, 0.1
"""Seconds between two looks for missing reports. A new block causes one at once, but never more often than
the second number."""
ROUNDS_A_LOOK, NODES_A_LOOK = 4, 8
REPORTED_ROUNDS = 16
"""The number of a task's newest rounds about which nodes are asked."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 600.0
"""Seconds until a node that has not answered, or not fully, is asked again. They double each time, up to the
second number."""
MOST_PAUSES = 16_384
"""The most pauses that are remembered; beyond that, all begin anew."""

log = logging.getLogger(__name__)


class Asked(Enum):
    """Which nodes are asked for their reports."""

    NOBODY = "no node"
    PUBLIC = "nodes at addresses of the public internet"
    ALL = "all nodes"


async def follow(view: ChainView, asked: Asked) -> None:
    """Runs a view without end, and asks nodes meanwhile. Raises as `ChainView.run` does."""
    asking = asyncio.create_task(ReportAsker(view).run(asked))
    try:
        await view.run()
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


Place = tuple[int, int, int]
"""(slot, draw, rank), as `Reported` has it."""


@dataclass(frozen=True)
class Question:
    """A request to a node, and the places whose reports are missing."""

    task: bytes
    round: int
    account: str
    places: frozenset[Place]


@dataclass
class Pause:
    """How often a node has failed, and until when it is not asked, in seconds of the loop's clock."""

    failures: int = 0
    until_s: float = 0.0

    def extend(self, now_s: float) -> None:
        """Counts one more failure."""
        self.until_s = now_s + min(FIRST_PAUSE_S * 2.0 ** min(self.failures, 16), LONGEST_PAUSE_S)
        self.failures += 1


@dataclass
class ReportAsker:
    """Asks nodes for the missing reports. `pauses` are by account, and by task, round and account."""

    view: ChainView
    pauses: defaultdict[tuple[object, ...], Pause] = field(default_factory=lambda: defaultdict(Pause))
    _next: int = 0

    async def run(self, asked: Asked) -> None:
        """Asks nodes without end. Does nothing if no node may be asked."""
        if asked is Asked.NOBODY:
            return
        async with ReportClient(are_private_asked=asked is Asked.ALL) as client:
            while True:
                turn = self.view.turn
                await self._look(client)
                await asyncio.sleep(LEAST_LOOK_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self.view.wait_for_change(turn)

    async def _look(self, client: ReportClient) -> None:
        """Asks for missing reports. A bug is logged; the pages stay up, and other nodes are asked."""
        try:
            chosen = self.choose()
        except Exception:
            log.exception("No node was chosen to be asked for reports")
            return
        answers = [self.ask(client, one) for one in chosen]
        for error in await asyncio.gather(*answers, return_exceptions=True):
            if error is not None:
                log.error("Asking a node ended with an error", exc_info=error)

    def choose(self) -> list[Question]:
        """Returns a few questions, at most one for each account. Rounds take turns."""
        view, chosen = self.view, dict[str, Question]()
        if view.head is None or view.fault:
            return []
        if len(self.pauses) > MOST_PAUSES:
            self.pauses.clear()
        rounds = [(task, index) for task, game in view.state.games.items() for index in _list_newest(game)]
        for task, index in (rounds * 2)[self._next : self._next + min(ROUNDS_A_LOOK, len(rounds))]:
            for one in self._list_missing(task, index):
                if len(chosen) < NODES_A_LOOK and self._is_due(one):
                    chosen.setdefault(one.account, one)
        self._next = (self._next + ROUNDS_A_LOOK) % max(1, len(rounds))
        return list(chosen.values())

    def _list_missing(self, task: bytes, index: int) -> Iterator[Question]:
        view, missing = self.view, defaultdict[str, set[Place]](set)
        try:
            game = get_state_at(view.state.games[task], view.next_block)
            known = {(one.place, one.claim_root) for one in view.index.list_reports(task, index)}
            for account, place, root in list_reporters(game, game.rounds[index], view.next_block):
                if (place, root) not in known:
                    missing[account].add(place)
        except BROKEN as error:
            log.error("Nobody is asked about round %d of %s: %s", index, task.hex(), error)
        for account, places in missing.items():
            if account in view.state.network.peers:
                yield Question(task, index, account, frozenset(places))

    def _is_due(self, one: Question) -> bool:
        now_s = asyncio.get_running_loop().time()
        return all(self.pauses[key].until_s <= now_s for key in _name_pauses(one))

    async def ask(self, client: ReportClient, one: Question) -> None:
        """Asks a node, and keeps the valid reports."""
        node, question = (self.pauses[key] for key in _name_pauses(one))
        now_s = asyncio.get_running_loop().time
        try:
            said = await client.ask(self.view.state.network.find(one.account), one.task, one.round)
            kept = await self._keep(one, said)
        except (EnvironmentFault, ProtocolFault) as fault:
            log.info("No reports of %s: %s", one.account, fault)
            node.extend(now_s())
            return
        self.pauses.pop((one.account,), None)
        if kept < one.places:
            question.extend(now_s())

    async def _keep(self, one: Question, said: ReportsSaid) -> set[Place]:
        """Returns the places whose reports were valid, and are kept. Raises ProtocolFault for the first one
        that the account has not signed, because checking signatures takes longest."""
        kept = set[Place]()
        for said_one in _list_said(said):
            game = self.view.state.games.get(one.task)
            found = None if game is None else _find_report(game, one, said_one)
            if found is None or found.place not in one.places - kept:  # The chain may have changed meanwhile.
                continue
            signed = (found.report, said_one.signature, one.account, self.view.chain.signing)
            if not await asyncio.to_thread(is_signed, *signed):
                raise _unsigned_report(one)
            shown = Reported(*found.place, found.root, one.account, show_report(found.report))
            await self.view.take_report(one.task, one.round, shown, said_one.signature)
            kept.add(found.place)
        return kept


def _unsigned_report(one: Question) -> ProtocolFault:
    return ProtocolFault(
        what="a report is not signed by its account",
        expected=f"the signature of {one.account}",
        actual="another one",
        culprit=one.account,
        remedy="The report is left out. The explorer asks the node again later.",
    )


def _list_newest(game: GameState) -> list[int]:
    """Returns the rounds of a task about which nodes are asked; none once it is closed."""
    oldest = game.next_round - REPORTED_ROUNDS
    return [] if game.is_closed else [index for index in game.rounds if index >= oldest]


def _name_pauses(one: Question) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Returns the keys of a node's failures, in total and for this question."""
    return (one.account,), (one.task, one.round, one.account)


def _list_said(said: ReportsSaid) -> Iterator[LossSaid | DistancesSaid | HeldoutSaid]:
    if said.loss is not None:
        yield said.loss
    yield from said.audits
    yield from said.heldout


@dataclass(frozen=True)
class FoundReport:
    """A report of the asked account, its place, and the root of the claim or the model that it is about."""

    place: Place
    root: bytes
    report: AnyReport


def _find_report(
    game: GameState, one: Question, said: LossSaid | DistancesSaid | HeldoutSaid
) -> FoundReport | None:
    """Returns what a node said as the chain has it; None if the chain has no such claim, audit or model of
    the account."""
    if isinstance(said, HeldoutSaid):
        return _find_heldout(game, one, said)
    if isinstance(said, LossSaid):
        found, place = read_loss(game, one.round, said), (said.slot, LOSS, 0)
        if found is not None and found[0] == one.account:
            return FoundReport(place, found[1].claim_root, found[1])
        return None
    drawn = read_distances(game, one.round, said)
    if drawn is not None and drawn[0] == one.account:
        return FoundReport((said.slot, said.draw, said.rank), drawn[1].claim_root, drawn[1])
    return None


def _find_heldout(game: GameState, one: Question, said: HeldoutSaid) -> FoundReport | None:
    report = read_heldout(game, one.round, said)
    if report is None:
        return None
    for account, place, root in list_heldout_reporters(game, game.rounds[one.round]):
        if account == one.account and root == report.root and place in one.places:
            return FoundReport(place, root, report)
    return None
