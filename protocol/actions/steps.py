"""Step states on request: what a solver recomputes when somebody asks, and what is made of it.

    GET /steps/... --> noted --> the segment, recomputed --> k + 1 state roots --> headers (bytes) --> W, m, v

The first and the last root must be those that the claim stands on; in a dispute all of them are on chain. The
states between are checked against their roots, and each step against its neighbours: the optimizer's part of
a step is exact everywhere, and a step computed from the claimed state before it shows which one is wrong.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from protocol.actions.boundaries import find_opened, is_claim_shown
from protocol.actions.claim import Train, get_dealt_batches, get_own_slot
from protocol.actions.defend import Compute, iterate_states
from protocol.actions.party import Party
from protocol.actions.report import MAX_STEPS, StepScreen
from protocol.actions.states import StoredState, fetch_tensors, keep_state, load_state, open_state
from protocol.adapters.blobs import BlobKey, BlobKind, BlobRef, refer_state
from protocol.adapters.wire.session import Peer
from protocol.compute.compare import Verdict, judge_state
from protocol.compute.screens import screen_step
from protocol.compute.step import GetBatch, TrainingState
from protocol.spec import codec
from protocol.spec.containers import StateHeader
from protocol.spec.errors import ProtocolFault
from protocol.spec.round import get_slot
from protocol.spec.schedule import compute_learning_rate_sum
from protocol.spec.statuses import AuditRef, ClaimRef
from protocol.spec.tolerance import Judgement


# --- The solver ---------------------------------------------------------------------------------------------
def list_wanted(party: Party, block: int) -> list[tuple[int, int]]:
    """(round, segment) of what was asked for and may be shown; all other requests are dropped."""
    desk, found = party.steps, []
    for place in list(desk.wanted):
        if place[0] == party.task and _may_show(party, place[1], place[2], block):
            found.append(place[1:])
        else:
            desk.drop(place)
    return found


def _may_show(party: Party, index: int, segment: int, block: int) -> bool:
    """No auditor can copy what follows from a state that is on chain, or shown, already."""
    rounds, me = party.view.tasks[party.task].rounds, party.account
    if index >= len(rounds) or index not in party.memory.claims or segment >= party.spec.terms.segment_count:
        return False
    state, slot = rounds[index], get_slot(rounds[index], me)
    if slot is None or slot in state.settled_slots:
        return False
    is_disputed = any(
        dispute.roots and dispute.claim == _name(party, index, slot, segment)
        for dispute in party.view.disputes[party.task].disputes.values()
    )
    is_open = find_opened(state, slot, segment + 1) is not None
    return is_disputed or is_open or is_claim_shown(state, me, block)


def _name(party: Party, index: int, slot: int, segment: int) -> ClaimRef:
    return ClaimRef(AuditRef(party.task, index, slot, 0, 0), segment, by_solver=True)


async def show_steps(party: Party, index: int, segment: int, compute: Compute) -> None:
    """Recompute a segment of this node's claim and show the state after each step from now on; of what was
    asked for before only the last segments stay."""
    headers = await asyncio.to_thread(_keep_steps, party, index, segment, compute)
    shelf = party.view.shelf
    shelf.released |= {ref.key for header in headers[1:-1] for ref in refer_state(header, 1)}
    roots = tuple(map(codec.compute_state_root, headers))
    for old in party.steps.offer((party.task, index, segment), roots):
        await asyncio.to_thread(_forget, party, old[1:-1])


def _keep_steps(party: Party, index: int, segment: int, compute: Compute) -> list[StateHeader]:
    headers = []
    for state in iterate_states(party, _name(party, index, get_own_slot(party, index), segment), compute):
        headers.append(keep_state(party, state))
        party.store.put_bytes(codec.encode_state(headers[-1]))
    return headers


def _forget(party: Party, roots: tuple[bytes, ...]) -> None:
    kept = {ref.key for header in party.memory.boundaries.values() for ref in refer_state(header, 1)}
    kept |= party.view.shelf.list_shown()
    for root in roots:
        key = BlobKey(BlobKind.BYTES, root)
        header = codec.decode_state(party.store.get(BlobRef(key, codec.STATE_BYTES)))
        keys = {ref.key for ref in refer_state(header, 1)} - kept
        party.view.shelf.released -= keys
        for old in keys:
            party.store.delete(old)


# --- Whoever asks -------------------------------------------------------------------------------------------
async def fetch_headers(
    party: Party, peer: Peer, index: int, segment: int, known: Mapping[int, bytes]
) -> list[StateHeader]:
    """The k + 1 states of a segment of the peer's claim. known: state roots that are on chain, by step.
    Raises ProtocolFault, naming the peer, where it shows others or states in no order, and EnvironmentFault
    while it shows none."""
    count = party.spec.terms.segment_steps + 1
    roots = await party.client.fetch_steps(peer, party.task, index, segment, count)
    for step, root in known.items():
        if roots[step] != root:
            raise _blame(peer, "another state than its claim has", root.hex(), roots[step].hex())
    headers = []
    for root in roots:
        ref = BlobRef(BlobKey(BlobKind.BYTES, root), codec.STATE_BYTES)
        await party.client.fetch_from_any([peer], ref)
        headers.append(codec.decode_state(party.store.get(ref), peer.account))
    first = headers[0]
    expected = [(first.local_step + step, first.global_step + step) for step in range(count)]
    actual = [(header.local_step, header.global_step) for header in headers]
    if actual != expected:
        raise _blame(peer, "step states that do not follow each other", expected, actual)
    return headers


def _blame(peer: Peer, what: str, expected: object, actual: object) -> ProtocolFault:
    return ProtocolFault(
        what=f"the step states of a segment are none: {what}",
        expected=expected,
        actual=actual,
        culprit=peer.account,
        remedy="Judge the segment by its ends.",
    )


@asynccontextmanager
async def borrow_state(party: Party, peer: Peer, header: StateHeader) -> AsyncIterator[StoredState]:
    """A state of the peer inside the block, looked at piece by piece; what was fetched for it is gone
    afterwards."""
    refs = [ref for ref in refer_state(header, party.spec.terms.parameter_count) if not party.store.has(ref)]
    try:
        await fetch_tensors(party, [peer], header)
        yield await asyncio.to_thread(open_state, party, header)
    finally:
        for ref in refs:
            party.store.delete(ref.key)


async def screen_steps(
    party: Party, peer: Peer, index: int, segment: int, ends: tuple[bytes, bytes]
) -> tuple[StepScreen, ...]:
    """What the optimizer's part of each step says, from the states that the solver shows, two at a time.
    ends: the state roots that its claim has. Raises as `fetch_headers` does."""
    steps, spec, found = party.spec.terms.segment_steps, party.spec.training, []
    headers = await fetch_headers(party, peer, index, segment, {0: ends[0], steps: ends[1]})
    for step in range(min(steps, MAX_STEPS - 1)):
        async with (
            borrow_state(party, peer, headers[step]) as before,
            borrow_state(party, peer, headers[step + 1]) as after,
        ):
            seen = await asyncio.to_thread(screen_step, before, after, spec)
        counts = (seen.wrong_weights, seen.wrong_moments)
        found.append(StepScreen(step, 1, *counts, seen.implied_norm, seen.is_consistent))
    return tuple(found)


async def judge_steps(
    party: Party, peer: Peer, claim: ClaimRef, roots: tuple[bytes, ...], first: int, train: Train
) -> list[Verdict]:
    """How far each claimed step from `first` on lies from what this node computes from the claimed state
    before it, up to the first one beyond the reject limits. roots: as posted on chain. Raises as
    `fetch_headers` does."""
    terms, spec, index = party.spec.terms, party.spec.training, claim.audit.round
    headers = await fetch_headers(party, peer, index, claim.segment, dict(enumerate(roots)))
    batches, found = get_dealt_batches(party, index, claim.audit.slot), []
    for step in range(first, terms.segment_steps):
        inner_step = claim.segment * terms.segment_steps + step
        rate_sum = compute_learning_rate_sum(spec.schedule, headers[step].global_step, 1, terms.inner_steps)
        async with (
            borrow_state(party, peer, headers[step]),
            borrow_state(party, peer, headers[step + 1]) as after,
        ):
            own = await asyncio.to_thread(_take_step, party, headers[step], inner_step, batches, train)
            limits = (terms.accept, terms.reject)
            found.append(await asyncio.to_thread(judge_state, after, own, rate_sum, *limits))
        if found[-1].judgement == Judgement.REJECT:
            break
    return found


def _take_step(
    party: Party, start: StateHeader, inner_step: int, batches: GetBatch, train: Train
) -> TrainingState:
    # Nobody but `train` holds the start.
    return train(load_state(party, start), party.spec.training, batches, inner_step, 1)[0]
