"""A solver's claim of one round: train, keep every boundary, commit to all of them at once, open what is
drawn.

The journal has the salts before training, each boundary as it is reached, and the claim before it is sent.
A node that was killed goes on at its last boundary and can only ever say the same again.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

from protocol.actions.memory import header_fields, refuse_other_beacon
from protocol.actions.party import Party
from protocol.actions.states import has_state, keep_state, load_state, open_state_leaves
from protocol.adapters.chain.types import BoundaryProof
from protocol.adapters.records import BoundaryReached, BoundarySaltsDrawn, ClaimMade
from protocol.compute.data import get_batch
from protocol.compute.digest import build_delta_tree
from protocol.compute.outer import encode_delta
from protocol.compute.step import GetBatch, TrainingState, begin_round
from protocol.spec import codec, merkle
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.round import get_opening, get_shard

Train = Callable[[TrainingState, TrainingSpec, GetBatch, int, int], tuple[TrainingState, list[float]]]
"""The signature of `compute.step.train_segment`: (state, spec, batches, first inner step, steps) to the
state after and the losses."""


def get_dealt_batches(party: Party, index: int, slot: int) -> GetBatch:
    """The data that the beacon of a round dealt to a slot."""
    state = party.round(index)
    assert state.beacon is not None
    return partial(get_batch, party.corpus, party.spec.training, state.beacon, get_shard(state, slot))


async def prepare_claim(party: Party, index: int, slot: int, train: Train) -> ClaimMade:
    """Train the round, if that is not done, and write down what the claim says. One at a time."""
    async with party.joined.locks["claim", index]:
        dealt = party.round(index)
        party.memory.note_beacon(dealt)
        if index not in party.memory.salts:
            salts = tuple(secrets.token_bytes(32) for _ in range(party.spec.terms.segment_count + 1))
            party.memory.write(BoundarySaltsDrawn(party.task, index, salts))
        if index not in party.memory.claims:
            delta = await train_round(party, index, slot, train)
            made = await asyncio.to_thread(_make_claim, party, index, delta)
            refuse_other_beacon(party.round(index), dealt)
            party.memory.write(made)
        return party.memory.claims[index]


async def commit_claim(party: Party, index: int, slot: int, train: Train) -> None:
    """Commit to the round's claim on chain, once."""
    claim = await prepare_claim(party, index, slot, train)
    start = open_boundary(party, index, 0)
    await party.chain.ledger.commit(party.task, index, claim.claim_root, claim.delta_root, start)


async def train_round(party: Party, index: int, slot: int, train: Train) -> bytes:
    """Train the segments that are not done yet; the pseudo-gradient. A boundary is hashed and kept while the
    next segment is trained, the last one while the pseudo-gradient is encoded."""
    terms, batches = party.spec.terms, get_dealt_batches(party, index, slot)
    state, first = await _resume(party, index)
    keeping: Awaitable[None] = asyncio.sleep(0)
    for segment in range(first, terms.segment_count):
        step, steps = segment * terms.segment_steps, terms.segment_steps
        state, losses = await asyncio.to_thread(train, state, party.spec.training, batches, step, steps)
        await keeping
        keeping = asyncio.ensure_future(asyncio.to_thread(_reach, party, index, segment + 1, state))
        party.say(
            f"round {index}: trained {step + steps} of {terms.inner_steps} steps, loss {losses[-1]:.3f}"
        )
    delta = await asyncio.to_thread(_encode, party, index, state)
    await keeping
    return delta


async def begin_state(party: Party, index: int, expected: StateHeader) -> TrainingState:
    """The state with the roots that the contract expects this solver to start a round from."""
    outer = await party.model.load_start(index)
    if expected.first_moment_root == party.spec.terms.zero_root:
        return begin_round(outer.weights, expected.global_step)
    # The carried moments are those of this node's own last state, whose weights it also has.
    last = next(
        h for h in party.memory.boundaries.values() if h.first_moment_root == expected.first_moment_root
    )
    carried = await asyncio.to_thread(load_state, party, last)
    return begin_round(outer.weights, expected.global_step, carried)


async def _resume(party: Party, index: int) -> tuple[TrainingState, int]:
    """The state to go on from and its boundary."""
    reached = {boundary: header for (at, boundary), header in party.memory.boundaries.items() if at == index}
    kept = [boundary for boundary, header in reached.items() if has_state(party, header)]
    if kept:
        return await asyncio.to_thread(load_state, party, reached[max(kept)]), max(kept)
    expected = await party.chain.ledger.expected_start(party.task, index, party.account)
    state = await begin_state(party, index, expected)
    if has_state(party, expected):  # The merge has hashed and kept the weights, an earlier round the moments.
        _note_boundary(party, index, 0, expected)
    else:
        await asyncio.to_thread(_reach, party, index, 0, state)
    return state, 0


def _reach(party: Party, index: int, boundary: int, state: TrainingState) -> None:
    _note_boundary(party, index, boundary, keep_state(party, state))


def _note_boundary(party: Party, index: int, boundary: int, header: StateHeader) -> None:
    party.memory.write(BoundaryReached(party.task, index, boundary, **header_fields(header)))


def _encode(party: Party, index: int, end: TrainingState) -> bytes:
    return encode_delta(load_state(party, party.memory.boundaries[(index, 0)]).weights, end.weights)


def _make_claim(party: Party, index: int, delta: bytes) -> ClaimMade:
    delta_root = build_delta_tree(delta).root
    party.store.put_delta(delta_root, delta)
    return ClaimMade(party.task, index, merkle.compute_root(list_leaves(party, index)), delta_root)


def list_leaves(party: Party, index: int) -> list[bytes]:
    """The leaves of this node's claim on a round, boundary by boundary."""
    headers = [party.memory.boundaries[(index, b)] for b in range(party.spec.terms.segment_count + 1)]
    return [
        codec.compute_boundary_leaf(
            party.domain, index, party.account, b, salt, codec.compute_state_root(header)
        )
        for b, (salt, header) in enumerate(zip(party.memory.salts[index], headers, strict=True))
    ]


def open_boundary(party: Party, index: int, boundary: int) -> BoundaryProof:
    """The opening of one boundary of this node's claim."""
    path = merkle.compute_path(merkle.compute_levels(list_leaves(party, index)), boundary)
    header, salt = party.memory.boundaries[(index, boundary)], party.memory.salts[index][boundary]
    return BoundaryProof(header, salt, tuple(path))


async def open_starts(party: Party, index: int, boundaries: list[int]) -> None:
    """Open the starts of draws 0, 1, ... in one transaction."""
    starts = [open_boundary(party, index, boundary) for boundary in boundaries]
    await party.chain.audit_book.open_starts(party.task, index, starts)


async def open_ends(party: Party, index: int, boundaries: list[int], last: int) -> None:
    """Open the ends of draws 0, 1, ... and the last state in one transaction."""
    ends = [open_boundary(party, index, boundary) for boundary in boundaries]
    await party.chain.audit_book.open_ends(party.task, index, ends, open_boundary(party, index, last))


async def open_end_leaves(party: Party, index: int, draw: int, phase: int, indices: tuple[int, ...]) -> None:
    """Open the drawn leaves of the end state of a draw."""
    end = get_opening(party.round(index), get_own_slot(party, index), draw).end
    assert end is not None
    leaves = await asyncio.to_thread(open_state_leaves, party, end, indices)
    await party.chain.audit_book.open_leaves(party.task, index, draw, phase, end, leaves)


def get_own_slot(party: Party, index: int) -> int:
    """The slot of this node in a round that it trains."""
    return party.round(index).solvers.index(party.account)
