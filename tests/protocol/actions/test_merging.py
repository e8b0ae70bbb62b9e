"""The outer step: posted as computed, contested where it is another, and followed down to a leaf."""

from dataclasses import replace

import pytest

from protocol.actions import merging as merge
from protocol.actions.global_model import get_start
from protocol.adapters.blobs import refer_tensor
from protocol.compute.digest import ByteTree, build_byte_tree
from protocol.spec.containers import OuterHeader
from protocol.spec.contest import FANOUT_LEVELS, ContestState, Turn, compute_nodes_below
from protocol.spec.merkle import hash_node
from tests.protocol.actions.audits import Audited, audit_claim
from tests.protocol.actions.facts import MALLORY, TASK
from tests.protocol.actions.lone import Lone, get_spec
from tests.protocol.actions.outcomes import accept_claim, post_outer

CONTEST = ContestState(TASK, 0, MALLORY, 0, 99, Turn.POSTER)


@pytest.fixture
async def audited(solver: Lone) -> Audited:
    found = await audit_claim(solver)
    accept_claim(found)
    return found


async def get_right(audited: Audited) -> OuterHeader:
    header, _ = await audited.solver.party.model.compute_next(0)
    return header


def get_tree(lone: Lone, root: bytes) -> ByteTree:
    return build_byte_tree(lone.party.store.get(refer_tensor(root, get_spec().terms.parameter_count)))


async def test_the_posted_root_is_the_computed_one(audited: Audited) -> None:
    await merge.post_outer(audited.solver.party, 0)
    right = await get_right(audited)
    [sent] = audited.solver.chain.list_sent("post_outer")
    assert sent == (TASK, 0, 1, right.weights_root, right.momentum_root)


@pytest.mark.parametrize(("is_weight_right", "tensor"), [(False, 0), (True, 1)])
async def test_another_root_is_contested_in_the_tensor_that_differs(
    audited: Audited, is_weight_right: bool, tensor: int
) -> None:
    right = await get_right(audited)
    weights_root = right.weights_root if is_weight_right else bytes(32)
    post_outer(audited, weights_root, bytes(32), MALLORY)
    await merge.check_outer(audited.verifier.party, 0)
    [sent] = audited.verifier.chain.list_sent("contest")
    assert sent == (TASK, 0, right.weights_root, right.momentum_root, tensor)


async def test_the_right_root_is_left_alone(audited: Audited) -> None:
    right = await get_right(audited)
    post_outer(audited, right.weights_root, right.momentum_root, MALLORY)
    await merge.check_outer(audited.verifier.party, 0)
    assert not audited.verifier.chain.sent


async def test_the_poster_opens_nodes_under_its_root(audited: Audited) -> None:
    await merge.play_contest(audited.solver.party, CONTEST)
    [(task, index, rival, nodes)] = audited.solver.chain.list_sent("post_nodes")
    while len(nodes) > 1:
        nodes = [hash_node(*nodes[i : i + 2]) for i in range(0, len(nodes), 2)]
    assert (task, index, rival, nodes) == (TASK, 0, MALLORY, [(await get_right(audited)).weights_root])


async def test_the_rival_names_the_child_that_differs(audited: Audited) -> None:
    tree = get_tree(audited.solver, (await get_right(audited)).weights_root)
    nodes = compute_nodes_below(tree.levels, 0, 0)
    nodes[3] = bytes(32)
    assert len(nodes) == 1 << FANOUT_LEVELS
    await merge.play_contest(audited.solver.party, replace(CONTEST, turn=Turn.RIVAL, nodes=tuple(nodes)))
    assert audited.solver.chain.list_sent("name_child") == [(TASK, 0, 3)]


async def test_at_a_leaf_the_inputs_of_the_outer_step_are_opened(audited: Audited) -> None:
    party, start = audited.solver.party, get_start(audited.solver.party.round(0))
    count = get_tree(audited.solver, (await get_right(audited)).weights_root).leaf_count
    for index, leaf in ((7, 7), (count + 3, count - 1)):
        await merge.play_contest(party, replace(CONTEST, turn=Turn.LEAF, level=6, index=index))
        _, _, rival, weights, momentum, deltas = audited.solver.chain.sent[-1][1]
        assert rival == MALLORY and len(deltas) == 1
        assert weights.data == get_tree(audited.solver, start.weights_root).open_leaf(leaf)[0]
        assert momentum.data == bytes(len(weights.data))


async def test_a_contest_is_ended_by_its_clock(audited: Audited) -> None:
    await merge.end_contest(audited.solver.party, CONTEST)
    assert audited.solver.chain.list_sent("timeout") == [(TASK, 0, MALLORY)]
