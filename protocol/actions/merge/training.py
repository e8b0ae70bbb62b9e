"""Training a claim: segment after segment, every boundary kept, then the claim's root. One loop for a round
that runs and for one that is foreseen.

The journal has the salts before training, each boundary as it is reached, and the claim before it is sent.
A node that was killed goes on at its last boundary and can only ever say the same again. What was computed on
another base root or beacon stays in the journal and counts for nothing.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count, takewhile

from protocol.actions.merge.bases import check_base
from protocol.actions.merge.book import ClaimWork
from protocol.actions.merge.opening import compute_leaves
from protocol.actions.merge.origins import Origin
from protocol.actions.merge.records import ClaimBoundaryReached, ClaimFinished, ClaimSaltsDrawn
from protocol.actions.merge.starting import begin_state, compute_start, make_start_header
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.states import has_state, keep_state, load_state
from protocol.adapters.blobs import refer_delta
from protocol.compute.data import get_batch
from protocol.compute.digest import build_delta_tree
from protocol.compute.outer import encode_delta
from protocol.compute.step import TrainingState, train_segment
from protocol.spec.claim_tree import compute_carried_root, compute_claim_root
from protocol.spec.containers import StateHeader

Require = Callable[[], object]
"""Raises EnvironmentFault where a round is, or will be, trained from something else."""


async def finish_claim(party: Party, origin: Origin, require: Require) -> ClaimFinished:
    """The claim of a round: trained, if that is not done, and written down. One at a time; `require` is asked
    before each segment.

    Raises what `require` raises, and ProtocolFault where the own merge contradicts the base root: also where
    all was trained ahead, since the root may be posted over other claims than those that it comes from."""
    await check_base(party, origin.base_root)
    party.task.pruning.note_work(origin.index, origin.basis)
    work = party.task.claims.works[origin.index, origin.basis]
    if not work.salts or not _is_begun_right(party, origin, work):
        salts = tuple(secrets.token_bytes(32) for _ in range(party.task.spec.terms.segment_count + 1))
        party.task.claims.write(ClaimSaltsDrawn(party.task.task, origin.index, origin.basis, salts))
    if not is_whole(party, work):
        delta = await _train(party, origin, work, require)
        party.task.claims.write(await asyncio.to_thread(_conclude, party, origin, work, delta))
    assert work.finished is not None
    return work.finished


def is_whole(party: Party, work: ClaimWork) -> bool:
    """Whether a claim is trained and all of it is in the store: of an older guess it goes, and the guess may
    be made again."""
    if work.finished is None:
        return False
    ref = refer_delta(work.finished.delta_root, party.task.spec.terms.parameter_count)
    return party.store.has(ref) and _count_kept(party, work) == party.task.spec.terms.segment_count + 1


def _count_kept(party: Party, work: ClaimWork) -> int:
    """How many boundaries are in the store, from the first on without a gap."""
    return len(
        list(takewhile(lambda b: b in work.boundaries and has_state(party, work.boundaries[b]), count()))
    )


def _is_begun_right(party: Party, origin: Origin, work: ClaimWork) -> bool:
    """Whether boundary 0, if there is one, has the moments that the claim must start from: a root that was
    posted over other claims may be the guessed one, and the moments of this seat others."""
    first = work.boundaries.get(0)
    if first is None:
        return True
    return first == make_start_header(party, origin.index, first.weights_root, origin.carried)


async def _train(party: Party, origin: Origin, work: ClaimWork, require: Require) -> bytes:
    """Train the segments that are not done yet; the pseudo-gradient. A boundary is hashed and kept while the
    next segment is trained, the last one while the pseudo-gradient is encoded. A segment waits while an
    answer on chain is computed that has no time to wait (`Retraining`)."""
    state, first = await _resume(party, origin, work)
    round_blocks = party.game.terms.windows.train_min
    keeping: Awaitable[None] = asyncio.sleep(0)
    try:
        for segment in range(first, party.task.spec.terms.segment_count):
            await party.task.retraining.let_own_go(party.state.head_block, round_blocks)
            require()
            state = await _train_segment(party, origin, segment, state)
            await keeping
            keeping = asyncio.ensure_future(asyncio.to_thread(_reach, party, origin, segment + 1, state))
        return await asyncio.to_thread(_encode, party, work, state)
    finally:
        party.task.retraining.end_own()
        # Whatever went wrong: what was reached is in the journal before anybody goes on.
        await keeping


async def _train_segment(party: Party, origin: Origin, segment: int, state: TrainingState) -> TrainingState:
    """The state after one more segment."""
    terms, training = party.task.spec.terms, party.task.spec.training
    batches = partial(get_batch, party.task.corpus, training, origin.beacon, origin.shard)
    step, steps = segment * terms.segment_steps, terms.segment_steps
    state, losses = await asyncio.to_thread(train_segment, state, training, batches, step, steps)
    done = f"trained {step + steps} of {terms.inner_steps} steps"
    party.say(f"round {origin.index}: {done}, loss {losses[-1]:.3f}")
    return state


async def _resume(party: Party, origin: Origin, work: ClaimWork) -> tuple[TrainingState, int]:
    """The state to go on from and its boundary."""
    last = _count_kept(party, work) - 1
    if last >= 0:
        return await asyncio.to_thread(load_state, party, work.boundaries[last]), last
    start = await compute_start(party, origin.index, origin.base_root, origin.carried)
    state = await begin_state(party, start)
    if has_state(party, start.header):  # The merge has hashed and kept the weights, an earlier round m and v.
        _note(party, origin, 0, start.header)
    else:
        await asyncio.to_thread(_reach, party, origin, 0, state)
    return state, 0


def _reach(party: Party, origin: Origin, boundary: int, state: TrainingState) -> None:
    _note(party, origin, boundary, keep_state(party, state))


def _note(party: Party, origin: Origin, boundary: int, header: StateHeader) -> None:
    place = (party.task.task, origin.index, origin.basis, boundary)
    roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
    party.task.claims.write(ClaimBoundaryReached(*place, *roots, header.local_step, header.global_step))


def _encode(party: Party, work: ClaimWork, end: TrainingState) -> bytes:
    return encode_delta(load_state(party, work.boundaries[0]).weights, end.weights)


def _conclude(party: Party, origin: Origin, work: ClaimWork, delta: bytes) -> ClaimFinished:
    """What the claim says, with its pseudo-gradient in the store."""
    delta_root = build_delta_tree(delta).root
    party.store.put_delta(delta_root, delta)
    segments = party.task.spec.terms.segment_count
    carried = compute_carried_root(work.boundaries[segments])
    root = compute_claim_root(compute_leaves(party, origin.index, work, delta_root))
    place = (party.task.task, origin.index, origin.basis)
    return ClaimFinished(*place, root, segments, delta_root, carried)
