"""How a node defends its own statements: roots, traces and leaves."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.kit.nodes import TASK, get_sent, get_told
from tests.node.merging.stage import Stage
from tests.node.upkeep.test_pruning import open_dispute, open_solver
from touchstone.node.defending import dispute_answers
from touchstone.node.models.own_openings import get_finished, open_boundary
from touchstone.node.records.compute import Compute, TracedStep
from touchstone.node.records.heard_statements import OwnReplay
from touchstone.protocol.adapters.store.blobs import BlobKey, get_trace_kind
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.bounds.step_openings import find_buffer, open_demanded
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import (
    DemandedLeaf,
    InnerDispute,
)
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.openings import BufferOpening
from touchstone.protocol.spec.program import leaf_bytes
from touchstone.scripts.roles.role_nodes import Member

SEGMENT, STEP, SALT = 1, 1, b"s" * 32


def get_last_sent(node: Member) -> Any:
    return get_sent(node)[-1]


def compute_true_roots(node: Member, slot: int) -> tuple[bytes, ...]:
    """The state roots of the segment, trained from the claim's boundary."""
    training, steps = node.task.spec.training, node.task.spec.terms.segment_steps
    state = node.rooms.tools.states.load(get_finished(node.get_view(), 0).boundaries[SEGMENT])
    states = [state]
    for step in range(SEGMENT * steps, (SEGMENT + 1) * steps):
        states.append(
            train_segment(states[-1], training, node.rooms.segments.get_batches(0, slot), step, 1)[0]
        )
    return tuple(compute_state_root(state_header(one)) for one in states)


def dispute_vote(stage: Stage, node: Member, off: int = 0) -> InnerDispute:
    """A dispute on a vote of this account, as of an auditor that replayed the segment. off: local steps by
    which the end that it sealed is another one than this machine computes now."""
    ref = StatementRef(0, stage.get_slot(1), 0, 1)
    end = get_finished(node.get_view(), 0).boundaries[SEGMENT + 1]
    sealed = replace(end, local_step=end.local_step + off)
    opened = [open_boundary(node.get_view(), 0, boundary) for boundary in (SEGMENT, SEGMENT + 1)]
    replay = OwnReplay(ref, SEGMENT, opened[0], sealed, opened[1], None, SALT)
    get_told(node).replays = [replay]
    return replace(open_dispute(stage, node, SEGMENT), statement=ref)


def name_step(stage: Stage, node: Member, **changes: Any) -> InnerDispute:
    """The opener of a dispute on the claim has named a step of the segment."""
    return replace(open_dispute(stage, node, SEGMENT), step=STEP, **changes)


async def test_an_answer_for_a_claim_goes_from_its_boundary_to_the_next_one(tmp_path: Path) -> None:
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        dispute = open_dispute(stage, node, SEGMENT)
        await node.rooms.dispute_answers.post_roots(dispute)
        name, words = get_last_sent(node)
        assert (name, words[:2]) == ("game.post_claim_roots", (TASK, dispute.name))
        assert words[2] == compute_true_roots(node, stage.get_slot(1))
        assert words[3:] == tuple(open_boundary(node.get_view(), 0, one) for one in (SEGMENT, SEGMENT + 1))


async def test_an_answer_for_a_vote_begins_at_the_state_that_the_solver_claimed(tmp_path: Path) -> None:
    """The contract compares it with the claim's tree and with the start leaf of the vote, and the last root
    with the seal. In an exact task the claim's end says whether the word is right."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        dispute = dispute_vote(stage, node)
        await node.rooms.dispute_answers.post_roots(dispute)
        name, words = get_last_sent(node)
        assert (name, words[:2]) == ("game.post_vote_roots", (TASK, dispute.name))
        assert words[2] == compute_true_roots(node, stage.get_slot(1))
        opened = [open_boundary(node.get_view(), 0, boundary) for boundary in (SEGMENT, SEGMENT + 1)]
        assert words[3:] == (node.account, *opened, SALT)


async def test_a_vote_that_says_nothing_of_the_end_is_answered_too(tmp_path: Path) -> None:
    """Of a REJECT_START the audit room tells no claimed end. Its replay can be disputed all the same, and the
    contract opens no end for it: silence would cost the stake."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        dispute = dispute_vote(stage, node)
        told = get_told(node)
        told.replays = [replace(told.replays[0], claimed_end=None)]
        await node.rooms.dispute_answers.post_roots(dispute)
        name, words = get_last_sent(node)
        start = open_boundary(node.get_view(), 0, SEGMENT)
        assert (name, words[2]) == ("game.post_vote_roots", compute_true_roots(node, stage.get_slot(1)))
        assert words[3:] == (node.account, start, start, SALT)


async def test_roots_that_end_elsewhere_than_the_own_vote_are_not_posted(tmp_path: Path) -> None:
    """The contract refuses them. While the clock runs the operator can bring the right versions back."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        with pytest.raises(EnvironmentFault, match="other bits"):
            await node.rooms.dispute_answers.post_roots(dispute_vote(stage, node, off=1))
        assert not get_sent(node)


async def test_the_named_step_is_traced_once_from_the_state_before_it(tmp_path: Path) -> None:
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        traced: list[int] = []

        def trace_and_note(*arguments: Any) -> Any:
            traced.append(arguments[3])
            return retrace(*arguments)

        node.rooms.tools.cases.compute = Compute(retrace=trace_and_note)
        dispute = name_step(stage, node)
        await node.rooms.dispute_answers.post_trace(dispute)
        name, (_, _, _, root, start, end, _) = get_last_sent(node)
        roots = compute_true_roots(node, stage.get_slot(1))
        assert name == "game.post_trace"
        assert (compute_state_root(start), compute_state_root(end)) == roots[STEP : STEP + 2]
        assert (await node.rooms.dispute_answers.trace_named_step(dispute)).tree.root == root
        assert traced == [SEGMENT * node.task.spec.terms.segment_steps + STEP]
        assert node.rooms.tools.cases.shown["trace", dispute.name], "its opener may fetch it"


async def test_only_leaves_that_are_not_shown_yet_are_shown(tmp_path: Path) -> None:
    """The contract takes the next openings for the next demands: one leaf too early is the wrong one."""
    demands = tuple(DemandedLeaf(at, 0, 0) for at in range(3))
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        dispute = name_step(stage, node, demands=demands, shown=(b"leaf",))
        await node.rooms.dispute_answers.show_leaves(dispute)
        name, words = get_last_sent(node)
        traced = await node.rooms.dispute_answers.trace_named_step(dispute)
        assert name == "game.show_leaves" and words[2] == traced.start
        assert words[3] == [open_demanded(traced.tree, at, 0, 0) for at in (1, 2)]


async def test_leaves_come_from_the_trace_that_is_kept(tmp_path: Path) -> None:
    """Each dispute may demand eight, and the step is not run again for them: only for a tensor that is
    lost."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        program = get_program(node.task.spec.training).program
        demands = tuple(DemandedLeaf(at, 0, 0) for at in (0, 1, len(program.nodes) - 1))
        dispute = name_step(stage, node, demands=demands)
        traced: TracedStep = await node.rooms.dispute_answers.trace_named_step(dispute)
        runs = list[int]()

        def run_again(buffer: int) -> Tensor:
            runs.append(buffer)
            return traced.tree.get(buffer)

        noting = traced._replace(tree=replace(traced.tree, get=run_again))
        node.rooms.tools.cases.traces[dispute.name] = noting
        expected = [open_demanded(traced.tree, one.node, 0, 0) for one in demands]
        await node.rooms.dispute_answers.show_leaves(dispute)
        assert get_last_sent(node)[1][3] == expected and not runs
        lost = find_buffer(program, 0, 0)
        node.store.delete(BlobKey(get_trace_kind(leaf_bytes(program, lost)), traced.tree.roots[lost]))
        await node.rooms.dispute_answers.show_leaves(dispute)
        assert get_last_sent(node)[1][3] == expected and runs == [lost]


async def test_leaves_are_opened_by_their_clocks_in_the_thread_of_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six disputes at once would hold all threads in which the server reads its files."""
    threads = set[str]()

    def note_thread(*arguments: Any) -> BufferOpening:
        threads.add(threading.current_thread().name)
        return open_demanded(*arguments)

    monkeypatch.setattr(dispute_answers, "open_demanded", note_thread)
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        first = name_step(stage, node, demands=(DemandedLeaf(0, 0, 0),))
        traced, clocks = await node.rooms.dispute_answers.trace_named_step(first), (30, 20, 10)
        several = [replace(first, name=bytes([clock]) * 32, clock=clock) for clock in clocks]
        node.rooms.tools.cases.traces |= {one.name: traced for one in several}
        async with node.rooms.tools.recompute_queue.take_turn(0):
            answers = [asyncio.create_task(node.rooms.dispute_answers.show_leaves(one)) for one in several]
            await asyncio.sleep(0)
        await asyncio.gather(*answers)
        sent = [words[1] for _, words in get_sent(node)[-3:]]
        assert sent == [one.name for one in reversed(several)]
        assert len(threads) == 1 and threads.pop().startswith("retrain")
