"""Runs an audit up to the seal: fetches the start, replays the segment, writes down the result.

An auditor asks a solver again and again until a given block. So neither a short outage nor a slow server
costs the auditor its vote. The deadline is counted in blocks, never in seconds.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from touchstone.node.records.audit_records import SealMade, WrongStart, make_sealed
from touchstone.node.serving.audit_messages import (
    START,
    AskStart,
    PlaceSaid,
    StartShown,
    compute_leaf,
    make_form,
    read_boundary,
)
from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.audit_deadlines import is_only_unserved, is_wanted
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit, find_drawn
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import compute_seal
from touchstone.verifier.own_network import was_anybody_reached
from touchstone.verifier.replayed_segment import find_segment

ASK_PAUSE_S = 0.25
"""Seconds between two requests to a solver that did not serve."""
LAST_ASK_S = 5.0
"""Seconds for one last request after nobody at all had answered."""

log = logging.getLogger(__name__)

Served = TypeVar("Served")


class NotServed(EnvironmentFault):
    """A solver did not serve what it owes before its time was over."""


async def ask_until(
    room: AuditRoom, solver: str, ask: Callable[[], Awaitable[Served]], until_block: int, what: str
) -> Served:
    """Calls `ask` at least once, and again until the chain is at `until_block`; returns the answer. Raises
    NotServed, or ReachesNobody if this node's own network is down."""
    begun_s = asyncio.get_running_loop().time()
    asking = asyncio.ensure_future(_keep_asking(ask))
    clock = asyncio.ensure_future(_run_out(room, until_block))
    try:
        await asyncio.wait((asking, clock), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        clock.result()
    finally:
        for one in (asking, clock):
            one.cancel()
        await asyncio.gather(asking, clock, return_exceptions=True)
    if not await was_anybody_reached(room, solver, begun_s):
        # This node's own network may be back only now, so the solver is asked once more.
        with suppress(ProtocolFault, EnvironmentFault, TimeoutError):
            async with asyncio.timeout(LAST_ASK_S):
                return await ask()
    raise make_unserved(what, until_block)


async def _run_out(room: AuditRoom, until_block: int) -> None:
    """Waits until `until_block`, and for at least one new block: a node that was down has not read the latest
    ones."""
    head = await room.wait_for_block(0)
    await room.wait_for_block(max(until_block, head + 1))


async def _keep_asking(ask: Callable[[], Awaitable[Served]]) -> Served:
    while True:
        try:
            return await ask()
        except GateShut:
            raise
        except (ProtocolFault, EnvironmentFault) as fault:
            log.info("%s", fault)
        await asyncio.sleep(ASK_PAUSE_S)


def make_unserved(what: str, until_block: int) -> NotServed:
    """Returns the error that says what a solver did not serve."""
    return NotServed(
        what="no node serves the data that a claim depends on",
        expected=f"{what} before block {until_block}",
        actual="nothing that fits the claim's roots",
        remedy="You need to do nothing: the vote says so.",
    )


START_FORM = make_form(StartShown)


async def make_seal(room: AuditRoom, drawn: DrawnAudit, until: int) -> SealMade | None:
    """Fetches the start, replays the segment and writes the seal into the journal. Returns None if a vote
    would no longer count.

    Raises NotServed and ReachesNobody."""

    game_round = room.get_game().rounds[drawn.place.round]
    segment = find_segment(room.about, game_round, drawn.place.slot, drawn.segment)

    async def ask() -> tuple[BoundaryProof, BoundaryProof]:
        """Returns boundary 0 and the start. It stores the start state if both have the right step
        counters."""
        first, start = await _ask_start(room, drawn)
        if segment.are_numbers_right(first.header, start.header):
            hold(room, drawn, start.header)
            await room.states.fetch(room.client, [room.find_peer(drawn.solver)], start.header)
        return first, start

    first, start = await ask_until(room, drawn.solver, ask, until, "the start of the segment")
    if not segment.are_numbers_right(first.header, start.header):
        _keep_wrong_start(room, drawn, first)
        raise make_unserved("a start state with the right step counters", until)
    # The solver has served by now, so a pause of this node cannot count against it.
    await room.pause()
    if find_drawn(room.get_game(), drawn.place) is None:
        # A reorg took the draw back, and may bring it again.
        return None
    if not _is_wanted(room, drawn):
        room.book.passed.add(drawn.place)
        return None
    # Missing data of the dataset is not the solver's fault, so it leads to no vote against the solver.
    await segment.prepare()
    work = (segment.replay, room.states, start.header, room.train, segment.get_batches())
    own = await room.run_apart(*work)
    # Hold the state before it is stored: another duty might delete a state with this root.
    hold(room, drawn, start.header, own.header)
    await asyncio.to_thread(room.states.put, own)
    if find_drawn(room.get_game(), drawn.place) is None:
        return None
    return _write_seal(room, drawn, first, start, own.header)


def hold(room: AuditRoom, drawn: DrawnAudit, *headers: StateHeader) -> None:
    """Keeps these states in the store while the audit lasts. Otherwise `ForgetSteps` deletes blobs that no
    record names."""
    refs = (ref for header in headers for ref in room.states.refer(header))
    room.book.held[drawn.place] = frozenset(ref.key for ref in refs)


async def _ask_start(room: AuditRoom, drawn: DrawnAudit) -> tuple[BoundaryProof, BoundaryProof]:
    place = PlaceSaid(**vars(drawn.place))
    shown = await room.client.ask(room.find_peer(drawn.solver), START, AskStart(place), START_FORM)
    return read_boundary(drawn, 0, shown.first), read_boundary(drawn, drawn.segment, shown.start)


def _keep_wrong_start(room: AuditRoom, drawn: DrawnAudit, first: BoundaryProof) -> None:
    """Writes down a boundary 0 with wrong step counters: it proves the claim false."""
    header, about = first.header, room.about
    is_placed = header.global_step == drawn.place.round * about.inner_steps
    is_begun = about.carry_moments or header.local_step == 0
    if not (is_placed and is_begun) and drawn.place not in room.book.wrong_starts:
        said = make_sealed(drawn.place, drawn.segment, ZERO_WORD, ZERO_WORD)
        room.book.write(WrongStart(about.task, said, first))


def _is_wanted(room: AuditRoom, drawn: DrawnAudit) -> bool:
    """Returns whether a verdict that needs a replay would still count. It would not if the draw takes
    UNSERVED alone."""
    game, place = room.get_game(), drawn.place
    return is_wanted(game, place, room.block) and not is_only_unserved(game, place, room.block)


def _write_seal(
    room: AuditRoom, drawn: DrawnAudit, first: BoundaryProof, start: BoundaryProof, own: StateHeader
) -> SealMade:
    place, salt = drawn.place, secrets.token_bytes(32)
    leaf = compute_leaf(drawn, drawn.segment, start)
    where = (place.domain, place.round, place.slot, place.draw, place.rank)
    seal = compute_seal(*where, room.account, leaf, compute_state_root(own), salt)
    sealed = make_sealed(place, drawn.segment, leaf, seal)
    made = SealMade(room.about.task, sealed, salt, first, start, own)
    room.book.write(made)
    return made
