"""A solver's claim of one round: train, keep every boundary, commit to all of them at once.

The journal has the salts before training, each boundary as it is reached, and the claim before it is sent.
A node that was killed goes on at its last boundary and can only ever say the same again. What was computed on
another base root or beacon, before a reorg or a fall, stays in the journal and counts for nothing.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from functools import partial

from protocol.actions.merge.book import ClaimWork
from protocol.actions.merge.opening import compute_leaves
from protocol.actions.merge.places import find_own_slot, get_shards
from protocol.actions.merge.records import (
    ClaimBoundaryReached,
    ClaimFinished,
    ClaimSaltsDrawn,
    compute_basis,
)
from protocol.actions.merge.starting import begin_state, compute_start
from protocol.actions.runtime.duties import Duty
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.states import has_state, keep_state, load_state
from protocol.compute.data import get_batch
from protocol.compute.digest import build_delta_tree
from protocol.compute.outer import encode_delta
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec import merkle
from protocol.spec.claim_tree import compute_carried_root
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.enums import RoundPhase, SeatStatus
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.pools import find_seat
from protocol.spec.game.state import GameRound
from protocol.spec.game.timing import get_live_round


@dataclass(frozen=True)
class MakeClaim:
    """Train a round and commit to it. basis: its base root and beacon."""

    round: int
    basis: bytes

    async def perform(self, party: Party) -> None:
        """Train what is not trained yet, write the claim down, send it."""
        async with party.task.locks["claim", self.round]:
            finished = await finish_claim(party, self.require_round(party))
            game_round = self.require_round(party)
        words = (game_round.base_root, game_round.beacon, finished.claim_root, finished.segments)
        await party.chain.rounds.commit(party.task.task, self.round, *words)

    def require_round(self, party: Party) -> GameRound:
        """The round, as long as it is trained from the same. Raises EnvironmentFault after a reorg or a
        fall."""
        game_round = party.game.rounds.get(self.round)
        if game_round is None or get_basis(game_round) != self.basis:
            raise EnvironmentFault(
                what="the round starts from something else now",
                expected=f"round {self.round} on the base root and beacon that it was trained from",
                actual="others, or none",
                remedy="Nothing is lost but time: the round is trained anew.",
            )
        return game_round


def get_basis(game_round: GameRound) -> bytes | None:
    """What a claim of the round is trained from; None before it was dealt."""
    beacon = game_round.beacon
    return None if beacon is None else compute_basis(game_round.base_root, beacon)


def list_duties(party: Party, block: int) -> Iterator[Duty]:
    """The claim of the round that runs, while the chain takes it."""
    state = get_state_at(party.game, block)
    game_round, seat = get_live_round(state), find_seat(state, party.account)
    if game_round is None or seat is None or seat.status == SeatStatus.CLOSED:
        return
    basis, slot = get_basis(game_round), find_own_slot(state, game_round, party.account)
    is_taking = game_round.phase == RoundPhase.RUNNING and game_round.closed is None
    if is_taking and basis is not None and slot is not None and slot not in game_round.claims:
        yield MakeClaim(game_round.index, basis)


async def finish_claim(party: Party, game_round: GameRound) -> ClaimFinished:
    """The claim of a round: trained, if that is not done, and written down. One at a time."""
    work, index, basis = party.task.claims.find(game_round), game_round.index, get_basis(game_round)
    assert basis is not None
    if not work.salts:
        salts = tuple(secrets.token_bytes(32) for _ in range(party.task.spec.terms.segment_count + 1))
        party.task.claims.write(ClaimSaltsDrawn(party.task.task, index, basis, salts))
    if work.finished is None:
        delta = await _train(party, game_round, work)
        party.task.claims.write(await asyncio.to_thread(_conclude, party, game_round, work, delta))
    assert work.finished is not None
    return work.finished


# --- Training -----------------------------------------------------------------------------------------------
async def _train(party: Party, game_round: GameRound, work: ClaimWork) -> bytes:
    """Train the segments that are not done yet; the pseudo-gradient. A boundary is hashed and kept while the
    next segment is trained, the last one while the pseudo-gradient is encoded."""
    state, first = await _resume(party, game_round, work)
    keeping: Awaitable[None] = asyncio.sleep(0)
    try:
        for segment in range(first, party.task.spec.terms.segment_count):
            state = await _train_segment(party, game_round, segment, state)
            await keeping
            keeping = asyncio.ensure_future(asyncio.to_thread(_reach, party, game_round, segment + 1, state))
        return await asyncio.to_thread(_encode, party, work, state)
    finally:
        # Whatever went wrong: what was reached is in the journal before anybody goes on.
        await keeping


async def _train_segment(
    party: Party, game_round: GameRound, segment: int, state: TrainingState
) -> TrainingState:
    """The state after one more segment. Raises EnvironmentFault where the round starts from something else
    now."""
    MakeClaim(game_round.index, get_basis(game_round) or b"").require_round(party)
    terms, batches = party.task.spec.terms, get_dealt_batches(party, game_round)
    step, steps = segment * terms.segment_steps, terms.segment_steps
    training = party.task.spec.training
    state, losses = await asyncio.to_thread(train_segment, state, training, batches, step, steps)
    done = f"trained {step + steps} of {terms.inner_steps} steps"
    party.say(f"round {game_round.index}: {done}, loss {losses[-1]:.3f}")
    return state


def get_dealt_batches(party: Party, game_round: GameRound) -> GetBatch:
    """The data that the beacon of a round dealt to this node's slot."""
    slot = find_own_slot(party.game, game_round, party.account)
    assert slot is not None and game_round.beacon is not None
    shard = get_shards(game_round)[slot]
    return partial(get_batch, party.task.corpus, party.task.spec.training, game_round.beacon, shard)


async def _resume(party: Party, game_round: GameRound, work: ClaimWork) -> tuple[TrainingState, int]:
    """The state to go on from and its boundary."""
    kept = [boundary for boundary, header in work.boundaries.items() if has_state(party, header)]
    if kept:
        return await asyncio.to_thread(load_state, party, work.boundaries[max(kept)]), max(kept)
    start = await compute_start(party, game_round)
    state = await begin_state(party, start)
    if has_state(party, start.header):  # The merge has hashed and kept the weights, an earlier round m and v.
        _note(party, game_round, 0, start.header)
    else:
        await asyncio.to_thread(_reach, party, game_round, 0, state)
    return state, 0


def _reach(party: Party, game_round: GameRound, boundary: int, state: TrainingState) -> None:
    _note(party, game_round, boundary, keep_state(party, state))


def _note(party: Party, game_round: GameRound, boundary: int, header: StateHeader) -> None:
    place = (party.task.task, game_round.index, get_basis(game_round) or b"", boundary)
    roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
    party.task.claims.write(ClaimBoundaryReached(*place, *roots, header.local_step, header.global_step))


def _encode(party: Party, work: ClaimWork, end: TrainingState) -> bytes:
    return encode_delta(load_state(party, work.boundaries[0]).weights, end.weights)


def _conclude(party: Party, game_round: GameRound, work: ClaimWork, delta: bytes) -> ClaimFinished:
    """What the claim says, with its pseudo-gradient in the store."""
    delta_root = build_delta_tree(delta).root
    party.store.put_delta(delta_root, delta)
    segments = party.task.spec.terms.segment_count
    carried = compute_carried_root(work.boundaries[segments])
    leaves = compute_leaves(party, game_round.index, work, delta_root)
    basis = get_basis(game_round)
    assert basis is not None
    root = merkle.compute_root(leaves)
    return ClaimFinished(party.task.task, game_round.index, basis, root, segments, delta_root, carried)
