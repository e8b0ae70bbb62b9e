"""The outer step of a round: compute it, post its root, contest a wrong one, and play the descent.

Everybody computes the same bits, so a root that differs is wrong. The poster opens its tree from the top;
the rival follows the node that differs from its own tree; at the leaf the contract computes.
"""

import asyncio

from protocol.actions.global_model import get_start
from protocol.actions.party import Party
from protocol.adapters.blobs import refer_delta, refer_tensor
from protocol.compute.digest import ByteTree, build_byte_tree
from protocol.spec.containers import OuterHeader
from protocol.spec.contest import ContestState, Turn, compute_nodes_below, find_differing
from protocol.spec.merkle import count_tensor_leaves
from protocol.spec.round import get_included


async def post_outer(party: Party, index: int) -> None:
    """Compute the outer step after round `index` and post its root."""
    # Counted before: a claim that falls meanwhile makes the post refused, and it is computed again.
    included = len(get_included(party.round(index)))
    header, _ = await party.model.compute_next(index)
    await party.chain.ledger.post_outer(
        party.task, index, included, header.weights_root, header.momentum_root
    )


async def check_outer(party: Party, index: int) -> None:
    """Compute the outer step and contest the posted root when it is another."""
    header, _ = await party.model.compute_next(index)
    outer = party.round(index).outer
    if outer is None or header == OuterHeader(outer.weights_root, outer.momentum_root):
        return
    tensor = 0 if header.weights_root != outer.weights_root else 1
    party.say(f"round {index}: the posted outer root is wrong: contested")
    await party.chain.outer_contest.contest(
        party.task, index, header.weights_root, header.momentum_root, tensor
    )


async def play_contest(party: Party, contest: ContestState) -> None:
    """Make the move that is due: open nodes, name the child that differs, or hand in the inputs of the
    leaf."""
    header, _ = await party.model.compute_next(contest.round)
    tree = await asyncio.to_thread(
        _build_tree, party, (header.weights_root, header.momentum_root)[contest.tensor]
    )
    nodes = compute_nodes_below(tree.levels, contest.level, contest.index)
    if contest.turn == Turn.POSTER:
        await party.chain.outer_contest.post_nodes(party.task, contest.round, contest.rival, nodes)
    elif contest.turn == Turn.RIVAL:
        # Equal nodes everywhere cannot be under another root: the contract has checked them.
        child = find_differing(nodes, contest.nodes) or 0
        await party.chain.outer_contest.name_child(party.task, contest.round, child)
    else:
        await _compute_leaf(party, contest)


async def end_contest(party: Party, contest: ContestState) -> None:
    """End a contest by its clock: whoever's turn it was loses, nobody where the root was replaced."""
    await party.chain.outer_contest.timeout(party.task, contest.round, contest.rival)


async def _compute_leaf(party: Party, contest: ContestState) -> None:
    state, start = party.round(contest.round), get_start(party.round(contest.round))
    count = party.spec.terms.parameter_count
    refs = [refer_tensor(root, count) for root in (start.weights_root, start.momentum_root)]
    refs += [refer_delta(state.claims[slot].delta_root, count) for slot in get_included(state)]
    # Beyond the last leaf no input is needed, and none exists.
    leaf = min(contest.index, count_tensor_leaves(count) - 1)
    opened = [proof for ref in refs for proof in party.store.open_leaves(ref, [leaf])]
    await party.chain.outer_contest.compute_leaf(
        party.task, contest.round, contest.rival, opened[0], opened[1], opened[2:]
    )


def _build_tree(party: Party, root: bytes) -> ByteTree:
    return build_byte_tree(party.store.get(refer_tensor(root, party.spec.terms.parameter_count)))
