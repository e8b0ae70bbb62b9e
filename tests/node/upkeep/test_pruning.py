"""A solver that keeps starts alone answers all the same: a late audit, a dispute, a question, in the last
block of each; and an auditor that lost its ends answers a query."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.kit.nodes import TASK, get_lines, get_sent, get_told
from tests.node.merging.stage import Stage, open_stage
from tests.node.specs import get_spec
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.defending.step_requests import StepsAsked, is_auditor
from touchstone.node.defending.step_serving import list_wanted
from touchstone.node.kit.recompute_queue import AUDITS
from touchstone.node.kit.retention_windows import ASKED_AUDITS
from touchstone.node.models.own_openings import get_finished, open_boundary
from touchstone.node.records.compute import Compute
from touchstone.node.records.heard_statements import OwnReplay
from touchstone.node.records.wanted_steps import Asker
from touchstone.node.upkeep import pruning
from touchstone.node.upkeep.pruning import Prune, RestoreBoundary
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.store.blobs import BlobKind, refer_delta, refer_state, refer_tensor
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.assignments import get_late_draw, get_segments
from touchstone.protocol.spec.game.audit_deadlines import compute_serving_until
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerDispute, InnerQuery
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.timing import REORG_BLOCKS, get_duty_until, get_statement_until
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower.work_proofs import get_openings

SEGMENTS = 4


@asynccontextmanager
async def open_solver(folder: Path, is_pruned: bool = True) -> AsyncIterator[tuple[Stage, Member]]:
    """A solver whose round 0 was trained, posted and audited late, and is two rounds old by now."""
    async with open_stage(folder, 1, late_chance=1 << 16) as stage:
        await stage.commit(1)
        stage.draw()
        node = stage.nodes[1]
        node.state._seated._members[node.account, TASK] += 1
        age(stage)
        if is_pruned:
            (prune,) = [one for one in list_due(node) if isinstance(one, Prune)]
            await prune.perform(node.rooms.pruning)
            assert list_here(node) == [0] and not list_due(node), "nothing is due before a window ends"
        yield stage, node


def age(stage: Stage) -> None:
    """Rounds 1 and 2 are opened. The chain's state is made up from here on."""
    state = stage.world.state
    one = state.rounds[0]
    closed = one.closed or 0
    aged = replace(
        one, phase=RoundPhase.POSTED, root=one.base_root, root_until=closed + state.terms.windows.dispute
    )
    stage.world.state = replace(state, rounds={0: aged}, next_round=3)
    stage.world.jump(closed + 3 * state.terms.windows.audit_max + REORG_BLOCKS + 2)
    stage.sync()


def draw_late(stage: Stage) -> None:
    """The late audits of round 0 are drawn now."""
    state = stage.world.state
    words = {"late_seed": make_word("late"), "late_slots": frozenset({stage.get_slot(1)})}
    late = replace(state.rounds[0], late_from=stage.world.block, **words)  # type: ignore[arg-type]
    stage.world.state = replace(state, rounds={0: late})
    stage.sync()


def list_due(node: Member) -> list[Any]:
    return list(pruning.list_duties(node.get_view(), node.state.head_block + 1))


def list_here(node: Member) -> list[int]:
    """Boundaries of the claim of round 0 that are whole in the store."""
    boundaries = get_finished(node.get_view(), 0).boundaries
    return [number for number, header in sorted(boundaries.items()) if node.rooms.tools.states.has(header)]


def jump(stage: Stage, block: int) -> None:
    """`block` is the one that comes next."""
    stage.world.jump(block)
    stage.sync()


def find_late_segment(game: GameState, slot: int) -> int:
    late = get_late_draw(game, game.rounds[0], slot)
    assert late is not None and late.segment not in get_segments(game, game.rounds[0], slot)
    return late.segment


# Late audits
async def test_a_late_audit_finds_what_was_pruned_until_its_last_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_solver(tmp_path) as (stage, node):
        assert not [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
        draw_late(stage)
        segment, late_from = find_late_segment(node.game, stage.get_slot(1)), stage.world.block
        last = late_from + 2 * node.game.terms.windows.audit_max
        jump(stage, last)
        wanted = sorted({segment, segment + 1, SEGMENTS} - {0})
        due = [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
        assert due == [RestoreBoundary(0, boundary) for boundary in wanted]
        for one in due:
            await one.perform(node.rooms.pruning)
        assert {segment, segment + 1, SEGMENTS} <= set(list_here(node))
        delta = get_finished(node.get_view(), 0).finished
        assert delta is not None
        assert node.store.has(refer_delta(delta.delta_root, get_spec().terms.parameter_count))
        await Prune(()).perform(node.rooms.pruning)
        assert {segment, segment + 1} <= set(list_here(node)), "auditors may still fetch them"
        jump(stage, last + 1)
        assert not [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
        jump(stage, last + REORG_BLOCKS)
        await Prune(()).perform(node.rooms.pruning)
        assert {segment, segment + 1} <= set(list_here(node)), "a reorg may open the window again"
        caplog.set_level(logging.INFO)
        await Prune(()).perform(node.rooms.pruning)
        assert "pruned" not in caplog.text, "there was nothing"
        jump(stage, last + REORG_BLOCKS + 1)
        (prune,) = [one for one in list_due(node) if isinstance(one, Prune)]
        await prune.perform(node.rooms.pruning)
        assert list_here(node) == sorted({0, segment}), "its steps may be asked for"
        jump(stage, last + node.game.terms.windows.audit_max + REORG_BLOCKS + 1)
        (prune,) = [one for one in list_due(node) if isinstance(one, Prune)]
        await prune.perform(node.rooms.pruning)
        assert list_here(node) == [0]


async def test_a_lost_boundary_of_a_recent_round_is_trained_again_for_its_auditors(tmp_path: Path) -> None:
    """After a reorg the claim of a base that was given up may count again."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        draw_late(stage)
        stage.world.state = replace(stage.world.state, next_round=1)
        stage.sync()
        assert not [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
        end = find_late_segment(node.game, stage.get_slot(1)) + 1
        for blob in refer_state(
            get_finished(node.get_view(), 0).boundaries[end], get_spec().terms.parameter_count
        ):
            node.store.delete(blob.key)
        (due,) = [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
        assert due == RestoreBoundary(0, end)
        await due.perform(node.rooms.pruning)
        assert end in list_here(node)


# Disputes and questions
def open_dispute(stage: Stage, node: Member, segment: int) -> InnerDispute:
    ref = StatementRef(0, stage.get_slot(1))
    seat = node.game.rounds[0].claims[ref.slot].seat
    dispute = InnerDispute(b"n" * 32, seat, ref, segment, "0x" + "9" * 40, 1 << 30)
    node.state.inner[TASK] = InnerBook(10, {dispute.name: dispute})
    return dispute


async def test_a_dispute_in_the_last_block_is_answered_with_the_journalled_ends(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):
        jump(stage, get_statement_until(node.game, StatementRef(0, stage.get_slot(1))))
        for prune in list_due(node):
            await prune.perform(node.rooms.pruning)
        assert list_here(node) == [0]
        dispute = open_dispute(stage, node, segment=2)
        await node.rooms.dispute_answers.post_roots(dispute)
        (call, words) = get_sent(node)[-1]
        boundaries = get_finished(node.get_view(), 0).boundaries
        assert call == "game.post_claim_roots"
        assert [words[2][0], words[2][-1]] == [compute_state_root(boundaries[one]) for one in (2, 3)]
        assert 2 in list_here(node)
        await Prune(()).perform(node.rooms.pruning)
        assert list_here(node) == [0, 2], "each answer needs it"


async def test_steps_that_a_member_asks_for_are_trained_from_a_start_on_disk(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):
        slot = stage.get_slot(1)
        ref = StatementRef(0, slot)
        jump(stage, get_statement_until(node.game, ref))
        draw_nothing_late(stage)
        body = encode_message(StepsAsked(TASK, 0, slot, 3))
        account = node.account
        with pytest.raises(EnvironmentFault):
            await node.rooms.step_answers.answer_steps(account, body)
        assert not list_wanted(node.get_view(), stage.world.block), (
            "its start is pruned: no round is trained for it"
        )
        await node.rooms.segments.restore_boundary(0, 3)
        with pytest.raises(EnvironmentFault):
            await node.rooms.step_answers.answer_steps(account, body)
        (wanted,) = list_wanted(node.get_view(), stage.world.block)
        await Prune(()).perform(node.rooms.pruning)
        assert list_here(node) == [0, 3], "it is about to be read"
        await node.rooms.step_serving.show_wanted(wanted)
        shown = await node.rooms.step_answers.answer_steps(account, body)
        assert len(shown.states) == get_spec().terms.segment_steps + 1
        await Prune(()).perform(node.rooms.pruning)
        assert len(node.store.list_keys(BlobKind.TENSOR)) > 3 * get_spec().terms.segment_steps
        until = get_duty_until(node.game, node.game.rounds[0])
        assert until is not None
        jump(stage, until + REORG_BLOCKS + 1)
        await Prune(()).perform(node.rooms.pruning)
        assert not node.rooms.tools.cases.shown and len(node.store.list_keys(BlobKind.TENSOR)) <= 2


async def test_a_boundary_is_due_while_its_auditors_still_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_solver(tmp_path) as (stage, node):
        draw_late(stage)
        game, slot = node.game, stage.get_slot(1)
        drawn = [get_drawn(game, 0, slot, game.terms.draws, rank) for rank in range(3)]
        waits = [compute_serving_until(game, one.place, stage.world.block) for one in drawn if one]
        due = pruning.find_due(node.get_view(), node.state.head_block + 1)
        assert due and max(due.values()) <= min(waits)
        carried = [(place, AUDITS) for place in due]
        monkeypatch.setattr(pruning, "_list_carried", lambda *_: carried)
        again = pruning.find_due(node.get_view(), node.state.head_block + 1)
        assert again == due, "it waited without a clock, and an auditor has one"


async def test_a_boundary_that_nobody_waits_for_any_more_is_left(tmp_path: Path) -> None:
    """Its auditors gave up while it waited: their block is over, so it would go before each answer."""
    async with open_solver(tmp_path) as (stage, node):
        draw_late(stage)
        done: list[str] = []

        def train(*arguments: Any) -> Any:
            done.append("boundary")
            return train_segment(*arguments)

        node.rooms.tools.cases.compute = Compute(train=train)
        *_, boundary = [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
        recompute_queue, windows = node.rooms.tools.recompute_queue, node.game.terms.windows
        async with recompute_queue.take_turn(0):
            restoring = asyncio.create_task(boundary.perform(node.rooms.pruning))
            while len(recompute_queue._entered) < 2:
                await asyncio.sleep(0)
            jump(stage, stage.world.block + 2 * windows.audit_max + 1)
            assert not [one for one in list_due(node) if isinstance(one, RestoreBoundary)]
            clock = node.state.head_block + windows.train_min
            answering = asyncio.create_task(recompute_queue.compute(clock, done.append, "answer"))
            await asyncio.sleep(0)
        await asyncio.gather(restoring, answering)
        assert done == ["answer"]


async def test_who_was_drawn_for_a_segment_is_an_auditor_of_it(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):
        draw_late(stage)
        game, slot = node.game, stage.get_slot(1)
        drawn = get_drawn(game, 0, slot, game.terms.draws, 1)
        assert drawn is not None
        here, account = StepsAsked(TASK, 0, slot, drawn.segment), drawn.seat.account
        assert is_auditor(node.get_view(), account, here) and is_auditor(node.get_view(), node.account, here)
        assert not is_auditor(node.get_view(), account, StepsAsked(TASK, 0, slot, drawn.segment + 1))
        assert not is_auditor(node.get_view(), account, StepsAsked(TASK, 1, slot, drawn.segment))
        beyond = StepsAsked(TASK, 0, slot, SEGMENTS + drawn.segment)
        assert not is_auditor(node.get_view(), node.account, beyond), "it would be a segment of the next slot"
        others = {seat.account for seat in game.seats.values()} - {node.account}
        assert any(not is_auditor(node.get_view(), one, here) for one in others)
        jump(stage, stage.world.block + ASKED_AUDITS * game.terms.windows.audit_max + 2)
        assert not is_auditor(node.get_view(), account, here), "no judgement hangs on it any more"


async def test_steps_for_an_auditor_stay_until_it_may_ask_no_more(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):
        draw_late(stage)
        slot, handler, states = stage.get_slot(1), node.rooms.tools.cases.step_requests, (b"s" * 32,)
        place = slot * SEGMENTS + find_late_segment(node.game, slot)
        until = stage.world.block + ASKED_AUDITS * node.game.terms.windows.audit_max
        handler.find(Asker("auditor", is_auditor=True), TASK, 0, place)
        handler.offer((TASK, 0, place), states)
        node.rooms.tools.cases.shown["wanted", states] = frozenset()
        for block, is_shown in ((until + REORG_BLOCKS, True), (until + REORG_BLOCKS + 1, False)):
            jump(stage, block)
            (prune,) = [one for one in list_due(node) if isinstance(one, Prune)]
            await prune.perform(node.rooms.pruning)
            assert bool(handler.shown) == bool(node.rooms.tools.cases.shown) == is_shown


def draw_nothing_late(stage: Stage) -> None:
    """The late seed is there, and drew nobody."""
    state = stage.world.state
    late = replace(state.rounds[0], late_seed=make_word("late"), late_from=state.rounds[0].closed)
    stage.world.state = replace(state, rounds={0: late})
    stage.sync()


async def test_a_false_rejection_of_the_work_is_refuted_with_pruned_weights(
    tmp_path: Path,
) -> None:
    """`proveRightDelta` takes a leaf of the final weights: they are trained again, no peer has them."""
    async with open_solver(tmp_path) as (stage, node):
        slot, count = stage.get_slot(1), get_spec().terms.parameter_count
        final = refer_tensor(get_finished(node.get_view(), 0).boundaries[SEGMENTS].weights_root, count)
        assert not node.store.has(final)
        form = await node.list_challenges().work_proofs.make_delta(
            0, slot, 1, get_openings(node.get_view(), 0, slot)
        )
        assert form["final_leaf"] == node.store.open_leaves(final, [1])[0]


async def test_a_machine_that_computes_other_bits_says_so_and_shows_nothing(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node):

        def train(*arguments: Any) -> Any:
            state, losses = train_segment(*arguments)
            return replace(state, weights=torch.nextafter(state.weights, torch.ones(1))), losses

        node.rooms.tools.cases.compute = Compute(train=train)
        with pytest.raises(EnvironmentFault, match="other bits"):
            await node.rooms.dispute_answers.post_roots(open_dispute(stage, node, segment=2))
        lines = get_lines(node)
        assert any("boundary 1: trained again, it has other bits" in line for line in lines)
        assert not get_sent(node) and list_here(node) == [0]


# Asks
async def test_an_auditor_that_lost_its_ends_makes_them_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No peer has the claimed end any more: it is the auditor's own, so it need not be fetched."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        slot, boundaries = stage.get_slot(1), get_finished(node.get_view(), 0).boundaries
        start, end = open_boundary(node.get_view(), 0, 1), open_boundary(node.get_view(), 0, 2)
        ref = StatementRef(0, slot, 0, 0)
        replay = OwnReplay(ref, 1, start, end.header, end, None, b"s" * 32)
        get_told(node).replays = [replay]
        for blob in refer_state(boundaries[2], get_spec().terms.parameter_count):
            node.store.delete(blob.key)
        one = node.game.rounds[0]
        where = (b"d" * 32, 0, one.base_root, one.seed, slot, one.claims[slot].claim_root, 0, 0)
        leaves = {"start_leaf": b"l" * 32, "seal": b"h" * 32, "end_leaf": b"e" * 32}
        vote = Vote(*where, segment=1, **leaves, word=VoteWord.ACCEPT, named_leaf=0)  # type: ignore[arg-type]
        opened = InnerQuery(b"a" * 32, 1, vote, 0, "0x" + "8" * 40, 1 << 30)
        await node.rooms.query_answers.answer_own(opened)
        (call, words) = get_sent(node)[-1]
        assert call == "game.answer_query" and words[2]["claimed_end"] == end.header


@pytest.mark.parametrize(("block", "until"), [(149, 150), (150, AUDITS), (400, AUDITS)])
def test_carried_moments_whose_clock_is_over_go_after_all_answers(
    monkeypatch: pytest.MonkeyPatch, block: int, until: int
) -> None:
    """A round may run longer than `train_min`: a clock in the past would be the most urgent of all."""
    claims = SimpleNamespace(find=lambda _: SimpleNamespace(boundaries={4: object()}))
    spec = SimpleNamespace(terms=SimpleNamespace(carry_moments=1))
    stored = SimpleNamespace(has=lambda header: False)
    view: Any = SimpleNamespace(account="solver", spec=spec, claims=claims, stored=stored)
    terms = SimpleNamespace(windows=SimpleNamespace(train_min=50))
    rounds = {0: None, 1: SimpleNamespace(trained_from=100)}
    state: Any = SimpleNamespace(rounds=rounds, next_round=2, terms=terms)
    for name, answer in (("find_seat", object()), ("find_carried_round", 0)):
        monkeypatch.setattr(pruning, name, lambda *_, answer=answer: answer)
    assert list(pruning._list_carried(view, state, block)) == [((0, 4), until)]
