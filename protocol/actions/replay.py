"""A blind audit: fetch the start state, replay the segment, commit to the result, reveal it, compare
leaves.

The auditor commits before the solver opens the end, so there is nothing to copy. What it then says on chain
is its own claim, and the contract does the judging; the auditor's own look at the whole state decides only
whether it opens a dispute.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from protocol.actions.claim import Train, get_dealt_batches
from protocol.actions.memory import header_fields, header_of, refuse_other_beacon, seal_audit
from protocol.actions.own_noise import confirm
from protocol.actions.party import Party
from protocol.actions.states import (
    StoredState,
    fetch_tensors,
    has_state,
    keep_state,
    load_state,
    open_state,
    open_state_leaves,
)
from protocol.adapters.records import AuditMade
from protocol.adapters.wire.session import Peer
from protocol.compute.compare import Verdict, judge_state
from protocol.compute.step import GetBatch
from protocol.spec import codec
from protocol.spec.clock import AuditDeadlines
from protocol.spec.containers import StateHeader, StateLeaves
from protocol.spec.drawn import get_drawn
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.events import LeavesOpened
from protocol.spec.merkle import compute_path
from protocol.spec.round import get_audit_deadlines, get_opening, get_phase
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from protocol.spec.statuses import AuditRef
from protocol.spec.tolerance import Judgement

ASK_PAUSE_S = 0.5
"""Between two requests to a solver that did not serve."""

MAX_JUDGED = 256
"""Judgements that a node remembers, the latest: one that is forgotten is made again where it is wanted."""

log = logging.getLogger(__name__)

Served = TypeVar("Served")


def get_server(party: Party, audit: AuditRef) -> list[Peer]:
    """Where the audited solver serves. Raises EnvironmentFault when it never announced an endpoint."""
    return [party.view.network.find(party.round(audit.round).solvers[audit.slot])]


class NotServed(EnvironmentFault):
    """A solver did not serve what it owes, or shows others, while whoever asked could wait for it."""


async def fetch_served(party: Party, audit: AuditRef, header: StateHeader, until_block: int) -> None:
    """Have a state of the audited solver in the store, asked for again and again until the chain is at
    `until_block`: neither a short outage nor a server that is slow on purpose may cost the auditor its
    window. Raises NotServed."""
    if has_state(party, header):
        return

    async def ask() -> None:
        await fetch_tensors(party, get_server(party, audit), header)

    await ask_until(party, ask, until_block, f"state {codec.compute_state_root(header).hex()[:8]}")


async def ask_until(
    party: Party, ask: Callable[[], Awaitable[Served]], until_block: int, what: str
) -> Served:
    """What `ask` fetches, asked for again and again until the chain is at `until_block`. Raises NotServed."""
    asking = asyncio.create_task(_keep_asking(ask))
    clock = asyncio.create_task(party.chain.wait_for_block(until_block))
    try:
        await asyncio.wait((asking, clock), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        clock.result()
    finally:
        for task in (asking, clock):
            task.cancel()
    raise NotServed(
        what="what a claim stands on is not served",
        expected=f"{what} before block {until_block}",
        actual="nothing that its roots allow",
        remedy="Nothing: the audit goes on without it.",
    )


async def _keep_asking(ask: Callable[[], Awaitable[Served]]) -> Served:
    while True:
        try:
            return await ask()
        except (ProtocolFault, EnvironmentFault) as fault:
            log.info("%s", fault)
        await asyncio.sleep(ASK_PAUSE_S)


def _get_audit_clock(party: Party, audit: AuditRef) -> AuditDeadlines:
    state = party.round(audit.round)
    phase = get_phase(state, audit.draw, audit.rank)
    clock = get_audit_deadlines(state, phase, party.view.head_block)
    assert clock is not None
    return clock


async def replay_segment(party: Party, audit: AuditRef, segment: int, train: Train) -> StateHeader:
    """Replay a drawn segment from the state that the solver opened; the end state is kept in the store."""
    start = get_opening(party.round(audit.round), audit.slot, audit.draw).start
    assert start is not None
    terms = party.spec.terms
    # A quarter of the window is left for saying that it is not served.
    until_block = _get_audit_clock(party, audit).replay_end - terms.windows.replay // 4
    await fetch_served(party, audit, start, until_block)
    batches = get_dealt_batches(party, audit.round, audit.slot)
    return await asyncio.to_thread(train_stored, party, start, segment, batches, train)


def train_stored(
    party: Party, start: StateHeader, segment: int, batches: GetBatch, train: Train
) -> StateHeader:
    """Train a segment from a state in the store, and keep its end there. Raises as `load_state` does."""
    steps = party.spec.terms.segment_steps
    # Nobody but `train` holds the start: a state less in memory from its first step on.
    end, _ = train(load_state(party, start), party.spec.training, batches, segment * steps, steps)
    return keep_state(party, end)


async def prepare_replay(party: Party, audit: AuditRef, segment: int, train: Train) -> AuditMade:
    """Replay, if that is not done, and write down the result and its salt. One at a time."""
    async with party.joined.locks["replay", (audit.round, *audit.key)]:
        dealt = party.round(audit.round)
        party.memory.note_beacon(dealt)
        made = party.memory.find_audit(dealt, audit.key)
        if made is None:
            start = get_opening(dealt, audit.slot, audit.draw).start
            assert start is not None
            end = await replay_segment(party, audit, segment, train)
            refuse_other_beacon(party.round(audit.round), dealt)
            names = (party.task, audit.round, audit.slot, audit.draw, audit.rank)
            roots = {"start_root": codec.compute_state_root(start), **header_fields(end)}
            made = AuditMade(*names, **roots, salt=secrets.token_bytes(32))
            party.memory.write(made)
        return made


async def commit_replay(party: Party, audit: AuditRef, segment: int, train: Train) -> None:
    """Commit to the result of a replay, blind."""
    made = await prepare_replay(party, audit, segment, train)
    await party.chain.audit_book.commit_replay(audit, seal_audit(party.domain, party.account, made))


async def commit_replays(party: Party, audits: list[AuditRef]) -> None:
    """Commit to replays that are done, all of them, in one transaction."""
    made = [party.memory.audits[(audit.round, *audit.key)] for audit in audits]
    seals = [seal_audit(party.domain, party.account, one) for one in made]
    await party.chain.audit_book.commit_replays(audits, seals)


async def reveal(party: Party, audit: AuditRef) -> None:
    """Reveal the end state that was committed to."""
    made = party.memory.audits[(audit.round, *audit.key)]
    await party.chain.audit_book.reveal(audit, header_of(made), made.salt)


async def reveals(party: Party, audits: list[AuditRef]) -> None:
    """Reveal several in one transaction."""
    made = [party.memory.audits[(audit.round, *audit.key)] for audit in audits]
    headers, salts = [header_of(one) for one in made], [one.salt for one in made]
    await party.chain.audit_book.reveals(audits, headers, salts)


@dataclass(frozen=True)
class Comparison:
    """The solver's end state, the auditor's, and what the limits say of the worst element between them. Both
    stay in the store."""

    claimed: StoredState
    replayed: StoredState
    verdict: Verdict
    is_noise: bool = False
    """Whether the worst element is beyond the reject limits by no more than the segment's own noise."""


async def compare_ends(party: Party, audit: AuditRef, segment: int, train: Train) -> Comparison:
    """Fetch the end state that the solver opened and judge it against the auditor's own, all elements.

    Raises NotServed when it cannot be had while there is time to do without it."""
    end, terms = get_opening(party.round(audit.round), audit.slot, audit.draw).end, party.spec.terms
    assert end is not None
    # Half of the window is left for comparing what is on chain instead.
    until_block = _get_audit_clock(party, audit).compare_end - terms.windows.open // 2
    await fetch_served(party, audit, end, until_block)
    start = get_opening(party.round(audit.round), audit.slot, audit.draw).start
    assert start is not None
    states = (start, end, _get_own_end(party, audit))
    return await judge_ends(party, audit, segment, states, train, until_block)


async def judge_ends(
    party: Party, audit: AuditRef, segment: int, states: tuple[StateHeader, StateHeader, StateHeader],
    train: Train, until_block: int,
) -> Comparison:  # fmt: skip
    """Judge a claimed end of a segment against this node's own; what may be noise is grey, where that is
    known by `until_block`. states: the start, the claimed end, the own one, all in the store."""
    start, end, own = states
    claimed, replayed = [await asyncio.to_thread(open_state, party, header) for header in (end, own)]
    found = await _judge_once(party, audit.round, segment, claimed, replayed)
    # Asked for anew each time: what of it is noise may be known a little later.
    verdict = await confirm(party, audit, segment, (start, own), found, train, until_block)
    return Comparison(claimed, replayed, verdict, verdict != found)


async def _judge_once(
    party: Party, index: int, segment: int, claimed: StoredState, replayed: StoredState
) -> Verdict:
    """What the limits say of two ends of a segment. Whoever asks while that is being computed waits for it,
    and who asks later is told; only a judgement that failed is made again."""
    judged, key = party.joined.judged, (index, segment, claimed.header, replayed.header)
    if key not in judged:
        rate_sum, _ = get_schedule_proof(party, index, segment)
        limits = (party.spec.terms.accept, party.spec.terms.reject)
        judging = asyncio.to_thread(judge_state, claimed, replayed, rate_sum, *limits)
        judged[key] = asyncio.create_task(judging)
        for oldest in list(judged)[:-MAX_JUDGED]:
            del judged[oldest]
    try:
        # Who is cancelled stops waiting; the others still want it.
        return await asyncio.shield(judged[key])
    except Exception:
        judged.pop(key, None)
        raise


async def compare_leaves(party: Party, audit: AuditRef, indices: tuple[int, ...], train: Train) -> Judgement:
    """Open the drawn leaves of both end states, and the worst one beside them unless it may be noise; the
    contract judges. What it says is returned, but GREY where it may be noise.

    The claimed leaves come from the solver's state or, where it is not served, from its own opening on chain:
    a solver that shows its leaves to the contract alone must not cost an auditor its stake."""
    drawn = get_drawn(party.round(audit.round), audit.slot, audit.draw)
    assert drawn is not None
    extra: list[int] = []
    is_noise = False
    try:
        comparison = await compare_ends(party, audit, drawn.segment, train)
    except NotServed as fault:
        party.say(f"round {audit.round} slot {audit.slot}: {fault.what}; comparing what is on chain")
        claimed = find_opened_leaves(party, audit)
    else:
        worst, end, is_noise = comparison.verdict.leaf, comparison.claimed.header, comparison.is_noise
        extra = [] if worst in indices or is_noise else [worst]
        claimed = await asyncio.to_thread(open_state_leaves, party, end, (*indices, *extra))
    own = _get_own_end(party, audit)
    replayed = await asyncio.to_thread(open_state_leaves, party, own, (*indices, *extra))
    rate_sum, path = get_schedule_proof(party, audit.round, drawn.segment)
    claimed_end = get_opening(party.round(audit.round), audit.slot, audit.draw).end
    assert claimed_end is not None
    receipt = await party.chain.audit_book.compare_leaves(
        audit, (claimed_end, own), claimed, replayed, extra, rate_sum, path
    )
    judgement = Judgement(receipt.find("AuditJudged").arguments["worst"])
    return min(judgement, Judgement.GREY) if is_noise else judgement


def find_opened_leaves(party: Party, audit: AuditRef) -> list[StateLeaves]:
    """The drawn leaves of the end state as the solver opened them on chain, for this audit's phase."""
    phase = get_phase(party.round(audit.round), audit.draw, audit.rank)
    place = (audit.task, audit.round, audit.slot, audit.draw, phase)
    return next(
        list(event.leaves)
        for event in party.view.events
        if isinstance(event, LeavesOpened)
        and (event.task, event.round, event.slot, event.draw, event.phase) == place
    )


def _get_own_end(party: Party, audit: AuditRef) -> StateHeader:
    return header_of(party.memory.audits[(audit.round, *audit.key)])


def get_schedule_proof(party: Party, index: int, segment: int) -> tuple[int, list[bytes]]:
    """The segment's summed learning rate (units of 2^-64) and its path under the task's schedule root."""
    sums = compute_schedule_sums(party.spec)
    place = index * party.spec.terms.segment_count + segment
    return sums[place], compute_path(compute_schedule_levels(sums), place)
