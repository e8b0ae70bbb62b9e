"""Answers to a dispute: the claimed segment again, from the start that the claim names."""

from dataclasses import replace

import pytest

from protocol.actions import defend
from protocol.actions.boundaries import find_opened
from protocol.actions.challenge import name_solver_claim
from protocol.actions.party import Party, TracedStep
from protocol.compute.openings import find_buffer
from protocol.compute.program import build_program, describe_program
from protocol.spec.codec import compute_state_root, compute_step_root
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import AnswerDemand
from protocol.spec.drawn import get_drawn
from protocol.spec.merkle import hash_leaf, is_valid_path
from protocol.spec.program import Program, Role, leaf_bytes
from protocol.spec.program_codec import LEAVES_BEFORE_NODES
from protocol.spec.statuses import ClaimRef, Stage
from tests.protocol.actions.audits import REF, audit_claim, replay_and_reveal
from tests.protocol.actions.lone import SOLVER, Lone, get_spec

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
    assert find_opened(state, 0, audited.segment) == audited.boundary(audited.segment)
    assert find_opened(state, 0, second.segment) is None, "drawn, not opened yet"


def make_named(segment: int, step: int) -> DisputeState:
    """A dispute on a segment of the solver's claim in which a step is named."""
    claim = name_solver_claim(REF, segment)
    return DisputeState(b"d" * 32, TERMS, claim, SOLVER, "opener", 1, stage=Stage.TRACE, step=step)


async def test_the_posted_trace_ends_in_the_next_step_state(solver: Lone) -> None:
    audited = await audit_claim(solver)
    for segment, step in ((audited.segment, 1), (0, 0)):
        solver.party.joined.traces.clear()
        roots = defend.compute_step_roots(solver.party, name_solver_claim(REF, segment))
        await defend.post_trace(solver.party, make_named(segment, step))
        [*_, (_, facts, root, start, end, proof)] = solver.chain.list_sent("post_trace")
        assert compute_step_root(facts) == TERMS.step_root
        assert (compute_state_root(start), compute_state_root(end)) == roots[step : step + 2]
        leaves = LEAVES_BEFORE_NODES + facts.program_nodes
        assert is_valid_path(facts.program_root, hash_leaf(proof.head), 0, leaves, proof.head_path)
        outputs = get_program().outputs
        for tensor, buffer, path in (
            (end.weights_root, outputs.weights, proof.weights_path),
            (end.first_moment_root, outputs.first_moment, proof.first_moment_path),
            (end.second_moment_root, outputs.second_moment, proof.second_moment_path),
        ):
            assert is_valid_path(root, tensor, buffer, facts.program_buffers, path)


async def test_a_step_is_traced_once_for_all_demands_of_a_dispute(
    solver: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = await audit_claim(solver)
    made: list[int] = []
    trace_step = defend.trace_step

    def count(party: Party, claim: ClaimRef, step: int, compute: defend.Compute) -> TracedStep:
        made.append(step)
        return trace_step(party, claim, step, compute)

    monkeypatch.setattr(defend, "trace_step", count)
    dispute = make_named(audited.segment, 0)
    for number in range(2):
        await defend.answer_demand(solver.party, dispute, AnswerDemand(dispute.dispute, number, 0, 1, 0))
    await defend.post_trace(solver.party, dispute)
    assert len(made) == 1
    await defend.post_trace(solver.party, replace(dispute, dispute=b"e" * 32))
    assert len(made) == 2 and list(solver.party.joined.traces) == [b"e" * 32]


@pytest.mark.parametrize("role", [Role.WEIGHTS, Role.TOKENS, Role.SCALARS, Role.TENSOR])
async def test_a_demanded_leaf_is_that_of_the_demanded_place(solver: Lone, role: Role) -> None:
    audited = await audit_claim(solver)
    program = get_program()
    number, place = next(
        (number, place)
        for number, node in enumerate(program.nodes)
        for place, access in enumerate((node.output, *node.operands))
        if program.buffers[access.buffer].role is role
    )
    buffer = find_buffer(program, number, place)
    last = (4 * program.buffers[buffer].size - 1) // leaf_bytes(program, buffer)
    dispute = make_named(audited.segment, 1)
    await defend.answer_demand(solver.party, dispute, AnswerDemand(dispute.dispute, 3, number, place, last))
    [(name, demand, start, opening)] = solver.chain.list_sent("answer_demand")
    assert (name, demand, len(opening.leaves)) == (dispute.dispute, 3, leaf_bytes(program, buffer))
    root = start.weights_root
    if role is not Role.WEIGHTS:
        root, trace = opening.root, solver.party.joined.traces[dispute.dispute].tree.root
        assert is_valid_path(trace, root, buffer, len(program.buffers), opening.root_path)
    assert is_valid_path(root, hash_leaf(opening.leaves), last, last + 1, opening.path)


def get_program() -> Program:
    return build_program(describe_program(get_spec().training)).program
