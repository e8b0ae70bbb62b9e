"""Before a claim is rejected: does its segment multiply noise?

A claim beyond the reject limits is false, unless its segment is ill-conditioned: there two honest machines
part as far (`protocol/compute/conditioning.py`). Whoever has replayed one to that result trains it once more,
from weights shaken in their last bit, and twice on other data to see what is usual. What lies no farther off
than its own results allow is grey to it, and it accuses nobody. That costs three times a segment's training,
and only where a rejection would follow. Nobody is late for it: what is not measured in time counts as usual.
"""

import asyncio
import secrets

from protocol.actions.claim import Train, get_dealt_batches
from protocol.actions.party import Party
from protocol.actions.states import load_state, open_state
from protocol.compute.compare import Verdict
from protocol.compute.conditioning import Conditioning, measure_conditioning, weigh
from protocol.compute.step import GetBatch, TrainingState
from protocol.spec.containers import StateHeader
from protocol.spec.errors import TouchstoneError
from protocol.spec.schedule import compute_schedule_sums
from protocol.spec.statuses import AuditRef
from protocol.spec.tolerance import Judgement

SEED_BITS = 62


async def confirm(
    party: Party,
    audit: AuditRef,
    segment: int,
    ends: tuple[StateHeader, StateHeader],
    verdict: Verdict,
    train: Train,
    until_block: int,
) -> Verdict:
    """A verdict on a claimed end, once the segment's own noise is known: a rejection that may be noise is
    grey, where that is known by `until_block`. ends: the segment's start, and what this node made of it;
    both in the store."""
    if verdict.judgement != Judgement.REJECT:
        return verdict
    found = await get_conditioning(party, audit, segment, ends, train, until_block)
    weighed = verdict if found is None else weigh(verdict, found)
    if found is not None and weighed != verdict:
        party.say(
            f"round {audit.round} slot {audit.slot} segment {segment}: ill-conditioned, own replays differ "
            f"by {max(found.own):.3g} reject limits: a claim {verdict.excess:.3g} of them off accuses nobody"
        )
    return weighed


async def get_conditioning(
    party: Party,
    audit: AuditRef,
    segment: int,
    ends: tuple[StateHeader, StateHeader],
    train: Train,
    until_block: int,
) -> Conditioning | None:
    """How far this node's own results of a segment lie apart, measured once; None where that cannot be known
    by `until_block`. Arguments as those of `confirm`."""
    place = (audit.round, audit.slot, segment)
    name = f"round {audit.round} slot {audit.slot} segment {segment}"
    if place not in party.joined.conditioning:
        party.say(f"{name}: measuring its own noise")
        measuring = asyncio.to_thread(_measure, party, audit, segment, ends, train)
        party.joined.conditioning[place] = asyncio.create_task(measuring)
    found = party.joined.conditioning[place]
    clock = asyncio.create_task(party.chain.wait_for_block(until_block))
    try:
        await asyncio.wait((found, clock), return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        clock.result()
        party.say(f"{name}: its own noise is not known in time")
    except TouchstoneError as fault:
        party.say(f"{name}: {fault}")
    finally:
        clock.cancel()
    return None


def _measure(
    party: Party, audit: AuditRef, segment: int, ends: tuple[StateHeader, StateHeader], train: Train
) -> Conditioning:
    terms, batches = party.spec.terms, get_dealt_batches(party, audit.round, audit.slot)
    start, own = ends

    def run(state: TrainingState, get_batch: GetBatch = batches) -> TrainingState:
        place = (segment * terms.segment_steps, terms.segment_steps)
        return train(state, party.spec.training, get_batch, *place)[0]

    def run_other(state: TrainingState) -> TrainingState:
        # What would be dealt for the steps after the round's last one, which nobody trains on.
        return run(state, lambda step: batches(step + terms.inner_steps))

    return measure_conditioning(
        run,
        run_other,
        lambda: load_state(party, start),
        open_state(party, own),
        compute_schedule_sums(party.spec)[audit.round * terms.segment_count + segment],
        terms.reject,
        # Nobody who claims a state knows which way it is going to be shaken.
        secrets.randbits(SEED_BITS),
    )
