"""Proofs of a fault in a posted trace: an operation beyond its bound, or a datum that is not the task's."""

import asyncio

from protocol.actions.dispute.knowing import get_now
from protocol.actions.merge.places import get_shards
from protocol.actions.runtime.party import Party
from protocol.compute.digest import build_byte_tree
from protocol.compute.facts import compute_step_facts
from protocol.compute.fault import InputFault, OperationFault
from protocol.spec.containers import LeafProof, StateHeader
from protocol.spec.draw import draw_sample_start
from protocol.spec.game.inner_dispute import InnerDispute
from protocol.spec.merkle import compute_path
from protocol.spec.params import LEAF_BYTES
from protocol.spec.program import INPUTS, Role
from protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels

LABELS, SCALARS = (INPUTS.index(role) for role in (Role.LABELS, Role.SCALARS))
"""Numbers of these buffers in every program."""


async def prove_operation(
    party: Party, dispute: InnerDispute, start: StateHeader, fault: OperationFault
) -> None:
    """Have the referee compute the element."""
    facts = await asyncio.to_thread(compute_step_facts, party.task.spec)
    proof = (fault.node, fault.element, fault.openings)
    await party.chain.disputes.prove_operation(party.task.task, dispute.name, facts, start, *proof)


async def prove_input(party: Party, dispute: InnerDispute, start: StateHeader, fault: InputFault) -> None:
    """Show the token, label or scalar that the task gives beside the claimed one."""
    facts = await asyncio.to_thread(compute_step_facts, party.task.spec)
    if fault.buffer == SCALARS:
        datum = open_scalars(party, start, fault.element)
    else:
        datum = open_token(party, dispute, fault.element, fault.buffer == LABELS)
    place = (fault.buffer, fault.element, fault.opening, datum)
    await party.chain.disputes.prove_datum(party.task.task, dispute.name, facts, start, *place)


def open_scalars(party: Party, start: StateHeader, which: int) -> LeafProof:
    """The leaf with a scalar of the step: the learning rate goes by the global step, the bias corrections by
    the local one."""
    leaves = compute_scalar_leaves(party.task.spec)
    place = start.local_step if which else start.global_step
    return LeafProof(leaves[place], tuple(compute_path(compute_scalar_levels(leaves), place)))


def open_token(party: Party, dispute: InnerDispute, position: int, is_label: bool) -> LeafProof:
    """The leaf of the dataset with the token (or label) that was dealt to a position of the batch."""
    training, ref = party.task.spec.training, dispute.statement
    game_round = get_now(party).rounds[ref.round]
    assert game_round.beacon is not None and dispute.step is not None
    inner_step = dispute.segment * party.task.spec.terms.segment_steps + dispute.step
    row, column = divmod(position, training.sequence_tokens)
    shard, length = get_shards(game_round)[ref.slot], training.sequence_tokens
    place = (shard, inner_step, row, training.token_count, length)
    first = draw_sample_start(game_round.beacon, *place)
    byte = (first + column + is_label) * training.token_bytes
    tree = build_byte_tree(party.task.corpus.tokens.numpy().tobytes())
    data, path = tree.open_leaf(byte // LEAF_BYTES)
    return LeafProof(data, tuple(path))
