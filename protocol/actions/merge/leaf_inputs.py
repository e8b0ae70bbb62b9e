"""What the contract needs to compute a contested leaf: the leaves of the base root's tensors, and of each
merged claim its pseudo-gradient's leaf with what ties it to the claim. Twin: `IContests.bringLeaf`."""

import asyncio

from protocol.actions.merge.global_model import load_outer, load_outer_state
from protocol.actions.merge.places import sort_by_shard
from protocol.actions.merge.work import fetch_delta, find_work
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobRef, refer_delta, refer_tensor
from protocol.spec.game.state import GameRound
from protocol.spec.merkle import count_tensor_leaves


async def gather_inputs(party: Party, game_round: GameRound, leaf: int) -> bytes:
    """The inputs of a leaf, one behind the other: empty behind the last leaf, where nothing is needed."""
    count = party.task.spec.terms.parameter_count
    if leaf >= count_tensor_leaves(count):
        return b""
    outer = await load_outer(party, game_round.base_root)
    await load_outer_state(party, outer)
    parts = [
        await asyncio.to_thread(_open, party, refer_tensor(root, count), leaf)
        for root in (outer.weights_root, outer.momentum_root)
    ]
    for slot in sort_by_shard(game_round, game_round.merged):
        parts.append(await _open_claim(party, game_round, slot, leaf))
    return b"".join(parts)


async def _open_claim(party: Party, game_round: GameRound, slot: int, leaf: int) -> bytes:
    """The pseudo-gradient's leaf and path, the carried root, the work leaf's path."""
    await fetch_delta(party, game_round, slot)
    proof = await find_work(party, game_round, game_round.claims[slot])
    ref = refer_delta(proof.delta_root, party.task.spec.terms.parameter_count)
    opened = await asyncio.to_thread(_open, party, ref, leaf)
    return opened + proof.carried_root + b"".join(proof.path)


def _open(party: Party, ref: BlobRef, leaf: int) -> bytes:
    (proof,) = party.store.open_leaves(ref, [leaf])
    return proof.data + b"".join(proof.path)
