"""A whistleblower of its own accord: read what the auditors of a round report, replay where it is worth it.

    reports of the round's auditors --> ledger --> claims in order --> undrawn segments
                                                                  --> own replay --> report, or accusation

It is owed to nobody and paid by nobody but the slash: a finder's share. A node decides how many segments a
round it replays like this. One of them is drawn by chance, whatever is reported: lies must not draw all eyes.
"""

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from protocol.actions.attention import (
    Attention,
    gather_observations,
    gather_reports,
    get_ledger_path,
    load_ledger,
    publish_audit,
    publish_unserved,
    rank_claims,
    save_ledger,
)
from protocol.actions.boundaries import fetch_boundary
from protocol.actions.challenge import judge_end
from protocol.actions.claim import Train, get_dealt_batches
from protocol.actions.party import Party
from protocol.actions.replay import (
    Comparison,
    NotServed,
    ask_until,
    fetch_served,
    judge_ends,
    train_stored,
)
from protocol.actions.report import AuditReport
from protocol.adapters.blobs import BlobRef, refer_state
from protocol.spec.containers import StateHeader
from protocol.spec.drawn import compute_slot_draws, get_drawn
from protocol.spec.errors import InvalidInput, TouchstoneError
from protocol.spec.ledger import Ledger, take_round
from protocol.spec.round import RoundState, get_audit, get_claim, get_late_deadlines
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimStatus
from protocol.spec.tolerance import Judgement

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReviewRound:
    """Read the reports of a round, and replay what is worth it."""

    round: int


@dataclass(frozen=True)
class Target:
    """A segment to be replayed of one's own accord, and why: reasons of `attention.REASONS`, or none."""

    slot: int
    segment: int
    reasons: tuple[str, ...] = ()


def is_review_due(state: RoundState, block: int) -> bool:
    """Whether a round can be reviewed in `block`: its solvers have had a window to show all of their claims,
    and a dispute can still be opened."""
    late = get_late_deadlines(state, block)
    return late is not None and late.late_show_end <= block < late.dispute_end


async def review_round(party: Party, index: int, limit: int, train: Train) -> None:
    """Take the round's reports into this node's ledger, then replay at most `limit` segments of accepted
    claims, those first that are most worth it. Whoever is beyond the reject limits is accused."""
    state = party.round(index)
    auditors = sorted({*state.verifiers, *state.whistleblowers} - {party.account})
    reports = await gather_reports(party, auditors, index)
    ledger = take_reports(party, index, reports)
    ranked = rank_claims(reports, ledger)
    targets = choose_targets(state, party.account, ranked, limit, random.SystemRandom())
    party.say(f"round {index}: {len(reports)} reports read; {_describe(targets)}")
    for left, target in zip(range(len(targets), 0, -1), targets, strict=True):
        try:
            await replay_target(party, index, target, get_patience(party, index, left), train)
        except TouchstoneError as fault:
            party.say(f"round {index} slot {target.slot} segment {target.segment}: {fault}")


def get_patience(party: Party, index: int, left: int) -> int:
    """The block up to which the next of `left` targets is waited for: what is left of the time before the
    last window of disputes, in equal parts, so that no solver costs another one its turn."""
    head = party.view.head_block
    late = get_late_deadlines(party.round(index), head)
    return head if late is None else head + max(0, late.late_compare_end - head) // left


def _describe(targets: Sequence[Target]) -> str:
    names = [f"slot {t.slot} segment {t.segment} ({', '.join(t.reasons) or 'by chance'})" for t in targets]
    return f"replaying {'; '.join(names)}" if names else "nothing to replay"


# --- The ledger ---------------------------------------------------------------------------------------------
def take_reports(party: Party, index: int, reports: Sequence[AuditReport]) -> Ledger:
    """This node's ledger with one round more, which is on disk then. Only what the chain's own draws audited
    counts, each audit by its own auditor. A round that is in it already, or a damaged file, changes
    nothing."""
    path = get_ledger_path(party.config.home, party.task)
    try:
        ledger = load_ledger(path)
    except InvalidInput as fault:
        party.say(str(fault))
        return Ledger()
    drawn = [report for report in reports if is_drawn(party.round(index), report)]
    observations = gather_observations(drawn)
    if index <= ledger.round or not observations:
        return ledger
    before, ledger = set(ledger.list_flagged()), take_round(ledger, index, observations)
    save_ledger(path, ledger)
    for solver in ledger.list_flagged():
        if solver not in before:
            party.say(f"round {index}: {solver} is flagged: {ledger.entries[solver].strongest}")
    return ledger


def is_drawn(state: RoundState, report: AuditReport) -> bool:
    """Whether a report is that of an auditor on the segment that the chain gave it, revealed in time."""
    for draw in range(state.terms.segment_draws + 1):
        drawn = get_drawn(state, report.slot, draw)
        if drawn is not None and drawn.segment == report.segment and report.auditor in drawn.auditors:
            audit = get_audit(state, (report.slot, draw, drawn.auditors.index(report.auditor)))
            return audit.status >= AuditStatus.REVEALED and audit.status != AuditStatus.SLASHED
    return False


# --- Where to look ------------------------------------------------------------------------------------------
def choose_targets(
    state: RoundState, me: str, ranked: Sequence[Attention], limit: int, chance: random.Random
) -> tuple[Target, ...]:
    """At most `limit` segments that nobody was drawn onto, of accepted claims of others: turn by turn of the
    claims that something speaks against, in their order, then of all others. Where it is two or more the last
    one is any."""
    free = {slot: list_undrawn(state, slot) for slot in range(len(state.solvers)) if is_open(state, slot, me)}
    for segments in free.values():
        chance.shuffle(segments)
    reasons = {attention.place[1]: attention.reasons for attention in reversed(ranked)}
    order = [slot for slot in dict.fromkeys(attention.place[1] for attention in ranked) if slot in free]
    others = [slot for slot in free if slot not in order]
    chance.shuffle(others)
    notable = [slot for slot in order if reasons[slot]]
    quiet = [slot for slot in order if not reasons[slot]] + others
    queue = [*_take_turns(notable, free), *_take_turns(quiet, free)]
    targets = [Target(slot, segment, reasons.get(slot, ())) for slot, segment in queue]
    if limit < 2 or len(targets) <= limit:
        return tuple(targets[:limit])
    last = chance.choice(targets[limit - 1 :])
    return (*targets[: limit - 1], Target(last.slot, last.segment))


def is_open(state: RoundState, slot: int, me: str) -> bool:
    """Whether a claim was accepted, is another's, and can still be disputed."""
    is_accepted = get_claim(state, slot).status == ClaimStatus.ACCEPTED
    return is_accepted and slot not in state.settled_slots and state.solvers[slot] != me


def list_undrawn(state: RoundState, slot: int) -> list[int]:
    """The segments of a claim that no auditor was drawn onto, late ones included."""
    drawn = {found.segment for found in compute_slot_draws(state, slot)}
    late = get_drawn(state, slot, state.late_draw)
    drawn |= {late.segment} if late is not None else set()
    return [segment for segment in range(state.terms.segment_count) if segment not in drawn]


def _take_turns(slots: Sequence[int], free: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    for turn in range(max((len(free[slot]) for slot in slots), default=0)):
        yield from ((slot, free[slot][turn]) for slot in slots if turn < len(free[slot]))


# --- Looking ------------------------------------------------------------------------------------------------
async def replay_target(party: Party, index: int, target: Target, until_block: int, train: Train) -> None:
    """Replay a segment from the state that its solver claims, judge its end, publish what was found, and
    accuse where it is beyond the reject limits. What is not served by `until_block` is published and goes no
    further."""
    audit = AuditRef(party.task, index, target.slot, party.round(index).late_draw, 0)
    fetched: list[BlobRef] = []
    try:
        start, seen = await _replay(party, audit, target.segment, until_block, train, fetched)
    except NotServed as fault:
        party.say(f"round {index} slot {target.slot} segment {target.segment}: {fault.what}")
        publish_unserved(party, audit, target.segment)
        return
    judge_end(party, audit, target.segment, seen.verdict)
    if seen.verdict.judgement != Judgement.ACCEPT or seen.verdict.excess > 0:
        await publish_audit(party, audit, target.segment, start, seen)
    claim = _refer(party, start, seen.claimed.header)
    gone = [ref for ref in _refer(party, seen.replayed.header) if ref not in claim]
    # A dispute needs what was claimed; what follows from its start can be computed again.
    if seen.verdict.judgement != Judgement.REJECT:
        gone += fetched
    for ref in gone:
        party.store.delete(ref.key)


def _refer(party: Party, *headers: StateHeader) -> list[BlobRef]:
    return [ref for header in headers for ref in refer_state(header, party.spec.terms.parameter_count)]


async def _replay(
    party: Party, audit: AuditRef, segment: int, until_block: int, train: Train, fetched: list[BlobRef]
) -> tuple[StateHeader, Comparison]:
    """`fetched` gets what was not in the store before."""
    index, slot = audit.round, audit.slot
    headers = []
    for boundary in (segment, segment + 1):
        ask = partial(fetch_boundary, party, index, slot, boundary)
        headers.append(await ask_until(party, ask, until_block, f"boundary {boundary}"))
    fetched += [ref for ref in _refer(party, *headers) if not party.store.has(ref)]
    for header in headers:
        await fetch_served(party, audit, header, until_block)
    start, end = headers
    batches = get_dealt_batches(party, index, slot)
    own = await asyncio.to_thread(train_stored, party, start, segment, batches, train)
    return start, await judge_ends(party, audit, segment, (start, end, own), train, until_block)
