"""Answers to a dispute: the claimed segment again, from the start that the claim names."""

from dataclasses import replace

from protocol.actions import defend
from protocol.actions.challenge import name_solver_claim
from protocol.actions.states import load_state
from protocol.compute.digest import build_state_trees
from protocol.spec.codec import compute_state_root
from protocol.spec.drawn import get_drawn
from protocol.spec.merkle import count_tensor_leaves, hash_leaf, is_valid_path
from protocol.spec.statuses import ClaimRef
from tests.protocol.actions.audits import REF, audit_claim, replay_and_reveal
from tests.protocol.actions.lone import Lone, get_spec

TERMS = get_spec().terms


async def test_step_roots_run_from_boundary_to_boundary_in_every_segment(solver: Lone) -> None:
    audited = await audit_claim(solver)
    for segment in range(TERMS.segment_count):
        roots = defend.compute_step_roots(solver.party, name_solver_claim(REF, segment))
        ends = (audited.boundary(segment), audited.boundary(segment + 1))
        assert len(roots) == TERMS.segment_steps + 1 == len(set(roots))
        assert (roots[0], roots[-1]) == tuple(map(compute_state_root, ends))


async def test_the_solver_opens_the_ends_of_its_segment_and_an_auditor_none(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    await defend.post_step_roots(solver.party, bytes(32), name_solver_claim(REF, 2))
    [(_, _, ends)] = solver.chain.list_sent("post_step_roots")
    assert [end.header for end in ends] == [audited.boundary(2), audited.boundary(3)]
    own = ClaimRef(REF, audited.segment, by_solver=False)
    await defend.post_step_roots(audited.verifier.party, bytes(32), own)
    [(_, roots, none)] = audited.verifier.chain.list_sent("post_step_roots")
    assert none == [] and roots[-1] == compute_state_root(audited.boundary(audited.segment + 1))


async def test_an_accuser_starts_from_what_was_opened_of_the_segment(solver: Lone) -> None:
    audited = await audit_claim(solver)
    await replay_and_reveal(audited)
    claim = name_solver_claim(replace(REF, rank=2), audited.segment)
    own, others = (lone.party for lone in (audited.solver, audited.verifier))
    assert defend.compute_step_roots(own, claim) == defend.compute_step_roots(others, claim)


async def test_a_segment_is_found_in_whichever_draw_it_came_up(solver: Lone) -> None:
    audited = await audit_claim(solver)
    state, second = solver.party.round(0), get_drawn(solver.party.round(0), 0, 1)
    assert second is not None and second.segment != audited.segment
    assert defend.find_opened_start(state, 0, audited.segment) == audited.boundary(audited.segment)
    assert defend.find_opened_start(state, 0, second.segment) is None, "drawn, not opened yet"


async def test_a_demanded_leaf_is_that_of_the_demanded_state(solver: Lone) -> None:
    audited = await audit_claim(solver)
    claim = name_solver_claim(REF, audited.segment)
    count = count_tensor_leaves(TERMS.parameter_count)
    for tensor, leaf_index in ((0, 0), (2, count - 1)):
        await defend.answer_demand(solver.party, bytes(32), claim, 1, TERMS.segment_steps, tensor, leaf_index)
        _, demand, header, leaf = solver.chain.sent[-1][1]
        assert demand == 1 and header == audited.boundary(audited.segment + 1)
        trees = build_state_trees(load_state(solver.party, header))
        tree = (trees.weights, trees.first_moment, trees.second_moment)[tensor]
        assert is_valid_path(tree.root, hash_leaf(leaf.data), leaf_index, count, leaf.path)
