"""A blind audit: fetch the start state, replay the segment, commit to the result, reveal it, compare
leaves.

The auditor commits before the solver opens the end, so there is nothing to copy. What it then says on chain
is its own claim, and the contract does the judging; the auditor's own look at the whole state decides only
whether it opens a dispute.
"""

import asyncio
import secrets
from dataclasses import dataclass

from protocol.actions.claim import Train, get_dealt_batches
from protocol.actions.memory import header_fields, header_of
from protocol.actions.party import Party
from protocol.actions.states import fetch_state, keep_state, load_state, open_state_leaves
from protocol.adapters.records import AuditMade
from protocol.adapters.wire.session import Peer
from protocol.compute.compare import Verdict, judge_state
from protocol.compute.digest import build_state_trees
from protocol.compute.step import TrainingState
from protocol.spec import codec
from protocol.spec.containers import StateHeader
from protocol.spec.drawn import get_drawn
from protocol.spec.merkle import compute_path
from protocol.spec.round import get_opening
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from protocol.spec.statuses import AuditRef


def get_server(party: Party, audit: AuditRef) -> list[Peer]:
    """Where the audited solver serves. Raises EnvironmentFault when it never announced an endpoint."""
    return [party.view.network.find(party.round(audit.round).solvers[audit.slot])]


async def replay_segment(party: Party, audit: AuditRef, segment: int, train: Train) -> StateHeader:
    """Replay a drawn segment from the state that the solver opened; the end state is kept in the store."""
    start = get_opening(party.round(audit.round), audit.slot, audit.draw).start
    assert start is not None
    state = await fetch_state(party, get_server(party, audit), start)
    batches, steps = get_dealt_batches(party, audit.round, audit.slot), party.spec.terms.segment_steps
    end, _ = await asyncio.to_thread(train, state, party.spec.training, batches, segment * steps, steps)
    return await asyncio.to_thread(keep_state, party, end)


async def prepare_replay(party: Party, audit: AuditRef, segment: int, train: Train) -> AuditMade:
    """Replay, if that is not done, and write down the result and its salt. One at a time."""
    key = (audit.round, *audit.key)
    async with party.joined.locks["replay", key]:
        if key not in party.memory.audits:
            end = await replay_segment(party, audit, segment, train)
            names = (party.task, audit.round, audit.slot, audit.draw, audit.rank)
            party.memory.write(AuditMade(*names, **header_fields(end), salt=secrets.token_bytes(32)))
        return party.memory.audits[key]


async def commit_replay(party: Party, audit: AuditRef, segment: int, train: Train) -> None:
    """Commit to the result of a replay, blind."""
    made = await prepare_replay(party, audit, segment, train)
    end_root = codec.compute_state_root(header_of(made))
    commitment = codec.compute_audit_commitment(
        party.domain, audit.round, audit.slot, audit.draw, audit.rank, party.account, end_root, made.salt
    )
    await party.chain.audit_book.commit_replay(audit, commitment)


async def reveal(party: Party, audit: AuditRef) -> None:
    """Reveal the end state that was committed to."""
    made = party.memory.audits[(audit.round, *audit.key)]
    await party.chain.audit_book.reveal(audit, header_of(made), made.salt)


@dataclass(frozen=True)
class Comparison:
    """The solver's end state, the auditor's, and what the limits say of the worst element between them."""

    claimed: TrainingState
    replayed: TrainingState
    verdict: Verdict


async def compare_ends(party: Party, audit: AuditRef, segment: int) -> Comparison:
    """Fetch the end state that the solver opened and judge it against the auditor's own, all elements."""
    end, terms = get_opening(party.round(audit.round), audit.slot, audit.draw).end, party.spec.terms
    assert end is not None
    claimed = await fetch_state(party, get_server(party, audit), end)
    made = party.memory.audits[(audit.round, *audit.key)]
    replayed = await asyncio.to_thread(load_state, party, header_of(made))
    rate_sum, _ = get_schedule_proof(party, audit.round, segment)
    verdict = await asyncio.to_thread(judge_state, claimed, replayed, rate_sum, terms.accept, terms.reject)
    return Comparison(claimed, replayed, verdict)


async def compare_leaves(party: Party, audit: AuditRef, indices: tuple[int, ...]) -> None:
    """Open the drawn leaves of both end states, and the worst one beside them; the contract judges."""
    drawn = get_drawn(party.round(audit.round), audit.slot, audit.draw)
    assert drawn is not None
    segment = drawn.segment
    comparison = await compare_ends(party, audit, segment)
    worst = comparison.verdict.leaf
    extra = [] if worst in indices else [worst]
    opened = [*indices, *extra]
    claimed = open_state_leaves(await asyncio.to_thread(build_state_trees, comparison.claimed), opened)
    replayed = open_state_leaves(await asyncio.to_thread(build_state_trees, comparison.replayed), opened)
    rate_sum, path = get_schedule_proof(party, audit.round, segment)
    await party.chain.audit_book.compare_leaves(audit, claimed, replayed, extra, rate_sum, path)


def get_schedule_proof(party: Party, index: int, segment: int) -> tuple[int, list[bytes]]:
    """The segment's summed learning rate (units of 2^-64) and its path under the task's schedule root."""
    sums = compute_schedule_sums(party.spec)
    place = index * party.spec.terms.segment_count + segment
    return sums[place], compute_path(compute_schedule_levels(sums), place)
