"""A solver that keeps starts alone answers all the same: a late audit, a dispute, a question, in the last
block of each; and an auditor that lost its ends answers an ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from tests.kit.party import Party
from tests.kit.views import rooms_of, view_of
from tests.node.merging.stage import TASK, Stage, open_stage
from tests.node.specs import get_spec
from tests.protocol.spec.game.world import make_word
from touchstone.node.defending.step_requests import StepsAsked, is_auditor
from touchstone.node.defending.step_serving import list_wanted
from touchstone.node.kit.recompute_queue import AUDITS
from touchstone.node.kit.retention_windows import ASKED_AUDITS
from touchstone.node.models.own_openings import get_finished, open_boundary
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.compute import Compute
from touchstone.node.records.dispute_records import DisputeRecords
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
from touchstone.protocol.spec.game.inner_dispute import InnerAsk, InnerBook, InnerDispute
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.timing import REORG_BLOCKS, get_duty_until, get_statement_until
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.whistleblower.work_proofs import get_openings

SEGMENTS = 4


@dataclass
class KnownAudits:
    """The audit room of a node that audited nothing, but for these replays."""

    room: Any
    replays: tuple[OwnReplay, ...] = ()

    @property
    def known(self) -> KnownAudits:
        return self

    @property
    def book(self) -> AuditBook:
        book: AuditBook = self.room.book
        return book

    def list_replays(self, index: int) -> tuple[OwnReplay, ...]:
        return self.replays

    def list_votes(self, index: int) -> tuple[Any, ...]:
        return ()

    def list_works(self) -> dict[bytes, Any]:
        return {}


@asynccontextmanager
async def open_solver(folder: Path, is_pruned: bool = True) -> AsyncIterator[tuple[Stage, Party]]:
    """A solver whose round 0 was trained, posted and audited late, and is two rounds old by now."""
    async with open_stage(folder, 1, late_chance=1 << 16) as stage:
        await stage.commit(1)
        stage.draw()
        party = stage.parties[1]
        books = AuditBook(party.journal, TASK), DisputeRecords(party.journal, TASK)
        audits = KnownAudits(SimpleNamespace(book=books[0]))
        party.joined = replace(party.task, audits=cast(Any, audits), cases=books[1])
        party.state.inner[TASK] = InnerBook(10)
        party.state._seated._members[party.account, TASK] += 1
        age(stage)
        if is_pruned:
            (prune,) = [one for one in list_due(party) if isinstance(one, Prune)]
            await prune.perform(rooms_of(party).pruning)
            assert list_here(party) == [0] and not list_due(party), "nothing is due before a window ends"
        yield stage, party


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


def list_due(party: Party) -> list[Any]:
    return list(pruning.list_duties(view_of(party), party.state.head_block + 1))


def list_here(party: Party) -> list[int]:
    """Boundaries of the claim of round 0 that are whole in the store."""
    boundaries = get_finished(view_of(party), 0).boundaries
    return [number for number, header in sorted(boundaries.items()) if rooms_of(party).states.has(header)]


def jump(stage: Stage, block: int) -> None:
    """`block` is the one that comes next."""
    stage.world.jump(block)
    stage.sync()


def find_late_segment(game: GameState, slot: int) -> int:
    late = get_late_draw(game, game.rounds[0], slot)
    assert late is not None and late.segment not in get_segments(game, game.rounds[0], slot)
    return late.segment


# --- Late audits --------------------------------------------------------------------------------------------
async def test_a_late_audit_finds_what_was_pruned_until_its_last_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_solver(tmp_path) as (stage, party):
        assert not [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
        draw_late(stage)
        segment, late_from = find_late_segment(party.game, stage.get_slot(1)), stage.world.block
        last = late_from + 2 * party.game.terms.windows.audit_max
        jump(stage, last)
        wanted = sorted({segment, segment + 1, SEGMENTS} - {0})
        due = [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
        assert due == [RestoreBoundary(0, boundary) for boundary in wanted]
        for one in due:
            await one.perform(rooms_of(party).pruning)
        assert {segment, segment + 1, SEGMENTS} <= set(list_here(party))
        delta = get_finished(view_of(party), 0).finished
        assert delta is not None
        assert party.store.has(refer_delta(delta.delta_root, get_spec().terms.parameter_count))
        await Prune(()).perform(rooms_of(party).pruning)
        assert {segment, segment + 1} <= set(list_here(party)), "auditors may still fetch them"
        jump(stage, last + 1)
        assert not [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
        jump(stage, last + REORG_BLOCKS)
        await Prune(()).perform(rooms_of(party).pruning)
        assert {segment, segment + 1} <= set(list_here(party)), "a reorg may open the window again"
        caplog.set_level(logging.INFO)
        await Prune(()).perform(rooms_of(party).pruning)
        assert "pruned" not in caplog.text, "there was nothing"
        jump(stage, last + REORG_BLOCKS + 1)
        (prune,) = [one for one in list_due(party) if isinstance(one, Prune)]
        await prune.perform(rooms_of(party).pruning)
        assert list_here(party) == sorted({0, segment}), "its steps may be asked for"
        jump(stage, last + party.game.terms.windows.audit_max + REORG_BLOCKS + 1)
        (prune,) = [one for one in list_due(party) if isinstance(one, Prune)]
        await prune.perform(rooms_of(party).pruning)
        assert list_here(party) == [0]


async def test_a_lost_boundary_of_a_recent_round_is_trained_again_for_its_auditors(tmp_path: Path) -> None:
    """After a reorg the claim of a base that was given up may count again."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, party):
        draw_late(stage)
        stage.world.state = replace(stage.world.state, next_round=1)
        stage.sync()
        assert not [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
        end = find_late_segment(party.game, stage.get_slot(1)) + 1
        for blob in refer_state(
            get_finished(view_of(party), 0).boundaries[end], get_spec().terms.parameter_count
        ):
            party.store.delete(blob.key)
        (due,) = [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
        assert due == RestoreBoundary(0, end)
        await due.perform(rooms_of(party).pruning)
        assert end in list_here(party)


# --- Disputes and questions ---------------------------------------------------------------------------------
def open_dispute(stage: Stage, party: Party, segment: int) -> InnerDispute:
    ref = StatementRef(0, stage.get_slot(1))
    seat = party.game.rounds[0].claims[ref.slot].seat
    dispute = InnerDispute(b"n" * 32, seat, ref, segment, "0x" + "9" * 40, 1 << 30)
    party.state.inner[TASK] = InnerBook(10, {dispute.name: dispute})
    return dispute


async def test_a_dispute_in_the_last_block_is_answered_with_the_journalled_ends(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party):
        jump(stage, get_statement_until(party.game, StatementRef(0, stage.get_slot(1))))
        for prune in list_due(party):
            await prune.perform(rooms_of(party).pruning)
        assert list_here(party) == [0]
        dispute = open_dispute(stage, party, segment=2)
        await rooms_of(party).dispute_answers.post_roots(dispute)
        (call, words) = party.chain.sent[-1]  # type: ignore[attr-defined]
        boundaries = get_finished(view_of(party), 0).boundaries
        assert call == "disputes.post_claim_roots"
        assert [words[2][0], words[2][-1]] == [compute_state_root(boundaries[one]) for one in (2, 3)]
        assert 2 in list_here(party)
        await Prune(()).perform(rooms_of(party).pruning)
        assert list_here(party) == [0, 2], "each answer needs it"


async def test_steps_that_a_member_asks_for_are_trained_from_a_start_on_disk(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party):
        slot = stage.get_slot(1)
        ref = StatementRef(0, slot)
        jump(stage, get_statement_until(party.game, ref))
        draw_nothing_late(stage)
        body = encode_message(StepsAsked(TASK, 0, slot, 3))
        account = party.account
        with pytest.raises(EnvironmentFault):
            await rooms_of(party).step_answers.answer_steps(account, body)
        assert not list_wanted(view_of(party), stage.world.block), (
            "its start is pruned: no round is trained for it"
        )
        await rooms_of(party).segments.restore_boundary(0, 3)
        with pytest.raises(EnvironmentFault):
            await rooms_of(party).step_answers.answer_steps(account, body)
        (wanted,) = list_wanted(view_of(party), stage.world.block)
        await Prune(()).perform(rooms_of(party).pruning)
        assert list_here(party) == [0, 3], "it is about to be read"
        await rooms_of(party).step_serving.show_wanted(wanted)
        shown = await rooms_of(party).step_answers.answer_steps(account, body)
        assert len(shown.states) == get_spec().terms.segment_steps + 1
        await Prune(()).perform(rooms_of(party).pruning)
        assert len(party.store.list_keys(BlobKind.TENSOR)) > 3 * get_spec().terms.segment_steps
        until = get_duty_until(party.game, party.game.rounds[0])
        assert until is not None
        jump(stage, until + REORG_BLOCKS + 1)
        await Prune(()).perform(rooms_of(party).pruning)
        assert not party.task.cases.shown and len(party.store.list_keys(BlobKind.TENSOR)) <= 2


async def test_a_boundary_is_due_while_its_auditors_still_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_solver(tmp_path) as (stage, party):
        draw_late(stage)
        game, slot = party.game, stage.get_slot(1)
        list_due(party)
        drawn = [get_drawn(game, 0, slot, game.terms.draws, rank) for rank in range(3)]
        waits = [compute_serving_until(game, one.place, stage.world.block) for one in drawn if one]
        due = party.task.pruning.due
        assert due and max(due.values()) <= min(waits)
        carried = [(place, AUDITS) for place in due]
        monkeypatch.setattr(pruning, "_list_carried", lambda *_: carried)
        list_due(party)
        assert party.task.pruning.due == due, "it waited without a clock, and an auditor has one"


async def test_a_boundary_that_nobody_waits_for_any_more_is_left(tmp_path: Path) -> None:
    """Its auditors gave up while it waited: their block is over, so it would go before each answer."""
    async with open_solver(tmp_path) as (stage, party):
        draw_late(stage)
        done: list[str] = []

        def train(*arguments: Any) -> Any:
            done.append("boundary")
            return train_segment(*arguments)

        party.task.cases.compute = Compute(train=train)
        *_, boundary = [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
        recompute_queue, windows = party.task.recompute_queue, party.game.terms.windows
        async with recompute_queue.take_turn(0):
            restoring = asyncio.create_task(boundary.perform(rooms_of(party).pruning))
            while len(recompute_queue._entered) < 2:
                await asyncio.sleep(0)
            jump(stage, stage.world.block + 2 * windows.audit_max + 1)
            assert not [one for one in list_due(party) if isinstance(one, RestoreBoundary)]
            clock = party.state.head_block + windows.train_min
            answering = asyncio.create_task(recompute_queue.compute(clock, done.append, "answer"))
            await asyncio.sleep(0)
        await asyncio.gather(restoring, answering)
        assert done == ["answer"]


async def test_who_was_drawn_for_a_segment_is_an_auditor_of_it(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party):
        draw_late(stage)
        game, slot = party.game, stage.get_slot(1)
        drawn = get_drawn(game, 0, slot, game.terms.draws, 1)
        assert drawn is not None
        here, account = StepsAsked(TASK, 0, slot, drawn.segment), drawn.seat.account
        assert is_auditor(view_of(party), account, here) and is_auditor(view_of(party), party.account, here)
        assert not is_auditor(view_of(party), account, StepsAsked(TASK, 0, slot, drawn.segment + 1))
        assert not is_auditor(view_of(party), account, StepsAsked(TASK, 1, slot, drawn.segment))
        beyond = StepsAsked(TASK, 0, slot, SEGMENTS + drawn.segment)
        assert not is_auditor(view_of(party), party.account, beyond), "it would be a segment of the next slot"
        others = {seat.account for seat in game.seats.values()} - {party.account}
        assert any(not is_auditor(view_of(party), one, here) for one in others)
        jump(stage, stage.world.block + ASKED_AUDITS * game.terms.windows.audit_max + 2)
        assert not is_auditor(view_of(party), account, here), "no judgement hangs on it any more"


async def test_steps_for_an_auditor_stay_until_it_may_ask_no_more(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party):
        draw_late(stage)
        slot, handler, states = stage.get_slot(1), party.task.cases.step_requests, (b"s" * 32,)
        place = slot * SEGMENTS + find_late_segment(party.game, slot)
        until = stage.world.block + ASKED_AUDITS * party.game.terms.windows.audit_max
        handler.find(Asker("auditor", is_auditor=True), TASK, 0, place)
        handler.offer((TASK, 0, place), states)
        party.task.cases.shown["wanted", states] = frozenset()
        for block, is_shown in ((until + REORG_BLOCKS, True), (until + REORG_BLOCKS + 1, False)):
            jump(stage, block)
            (prune,) = [one for one in list_due(party) if isinstance(one, Prune)]
            await prune.perform(rooms_of(party).pruning)
            assert bool(handler.shown) == bool(party.task.cases.shown) == is_shown


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
    async with open_solver(tmp_path) as (stage, party):
        slot, count = stage.get_slot(1), get_spec().terms.parameter_count
        final = refer_tensor(get_finished(view_of(party), 0).boundaries[SEGMENTS].weights_root, count)
        assert not party.store.has(final)
        form = await rooms_of(party).work_proofs.make_delta(0, slot, 1, get_openings(view_of(party), 0, slot))
        assert form["final_leaf"] == party.store.open_leaves(final, [1])[0]


async def test_a_machine_that_computes_other_bits_says_so_and_shows_nothing(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party):

        def train(*arguments: Any) -> Any:
            state, losses = train_segment(*arguments)
            return replace(state, weights=torch.nextafter(state.weights, torch.ones(1))), losses

        party.task.cases.compute = Compute(train=train)
        with pytest.raises(EnvironmentFault, match="other bits"):
            await rooms_of(party).dispute_answers.post_roots(open_dispute(stage, party, segment=2))
        lines = party.config.notify.__self__  # type: ignore[attr-defined]
        assert any("boundary 1: trained again, it has other bits" in line for line in lines)
        assert not party.chain.sent and list_here(party) == [0]  # type: ignore[attr-defined]


# --- Asks ---------------------------------------------------------------------------------------------------
async def test_an_auditor_that_lost_its_ends_makes_them_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No peer has the claimed end any more: it is the auditor's own, so it need not be fetched."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, party):
        slot, boundaries = stage.get_slot(1), get_finished(view_of(party), 0).boundaries
        start, end = open_boundary(view_of(party), 0, 1), open_boundary(view_of(party), 0, 2)
        ref = StatementRef(0, slot, 0, 0)
        replay = OwnReplay(ref, 1, start, end.header, end, None, b"s" * 32)
        cast(Any, party.task.audits).replays = (replay,)
        for blob in refer_state(boundaries[2], get_spec().terms.parameter_count):
            party.store.delete(blob.key)
        one = party.game.rounds[0]
        where = (b"d" * 32, 0, one.base_root, one.seed, slot, one.claims[slot].claim_root, 0, 0)
        leaves = {"start_leaf": b"l" * 32, "seal": b"h" * 32, "end_leaf": b"e" * 32}
        vote = Vote(*where, segment=1, **leaves, word=VoteWord.ACCEPT, named_leaf=0)  # type: ignore[arg-type]
        opened = InnerAsk(b"a" * 32, 1, vote, 0, "0x" + "8" * 40, 1 << 30)
        await rooms_of(party).query_answers.answer_own(opened)
        (call, words) = party.chain.sent[-1]  # type: ignore[attr-defined]
        assert call == "asks.answer" and words[2]["claimed_end"] == end.header


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
