"""What a node reports of its own work: when anybody is shown it, who signed it, and that it is said once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.kit.nodes import SIGNING, TASK, get_account
from tests.node.merging.stage import Stage, finish, make_served, open_stage
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.defending.step_requests import STEPS as ASKED_STEPS
from touchstone.node.loop import served_data as offers_module
from touchstone.node.loop.served_data import BODY_BYTES
from touchstone.node.records.claim_records import LossReported
from touchstone.node.serving.audit_messages import PUBLIC, SEAL, START, VOTES
from touchstone.node.serving.loss_reports import ReportLoss, find_loss, list_duties
from touchstone.node.training import claims
from touchstone.protocol.adapters.reports.round_reports import DistancesSaid, is_signed, read_loss
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.scripts.roles.role_nodes import Member

STEPS = 8
"""Of a round of the tiny task, in four segments."""


# Losses
def note_losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """All losses that are trained from now on."""
    noted: list[float] = []

    def train(*arguments: Any) -> Any:
        end, losses = train_segment(*arguments)
        noted.extend(losses)
        return end, losses

    monkeypatch.setattr(claims, "train_segment", train)
    return noted


async def write_reports(node: Member) -> None:
    """What is due, once."""
    for duty in list_duties(node.get_view(), node.state.head_block + 1):
        await duty.perform(node.rooms.loss_reports)


def change_round(stage: Stage, **changes: Any) -> None:
    state = stage.world.state
    stage.world.state = replace(state, rounds={0: replace(state.rounds[0], **changes)})
    stage.sync()


async def test_losses_are_shown_from_the_close_of_the_round_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not earlier, whoever asks, and also where the chain takes the close back."""
    losses = note_losses(monkeypatch)
    async with open_stage(tmp_path, 1, 2) as stage:
        node = stage.nodes[1]
        await stage.commit(1)
        before, block = node.game, node.state.head_block
        assert not list(list_duties(node.get_view(), block + 1))
        await ReportLoss(0).perform(node.rooms.loss_reports)
        assert not node.rooms.tools.claims.reports and find_loss(node.get_view(), 0) is None
        stage.draw()
        assert list(list_duties(node.get_view(), node.state.head_block + 1)) == [ReportLoss(0)]
        assert find_loss(node.get_view(), 0) is None, "it is in the journal first"
        await write_reports(node)
        assert not list(list_duties(node.get_view(), node.state.head_block + 1))
        said = find_loss(node.get_view(), 0)
        assert said is not None and len(losses) == STEPS
        assert (said.slot, said.steps) == (stage.get_slot(1), STEPS)
        figures = (said.first_micronats, said.last_micronats, said.mean_micronats)
        assert figures == pytest.approx(
            [1e6 * losses[0], 1e6 * losses[-1], 1e6 * sum(losses) / STEPS], abs=1.0
        )
        assert find_loss(node.get_view(), 1) is None and find_loss(stage.nodes[2].get_view(), 0) is None
        after, node.state.games[TASK], node.state.head_block = node.game, cast(Any, before), block
        assert find_loss(node.get_view(), 0) is None
        node.state.games[TASK] = cast(Any, after)
        assert find_loss(node.get_view(), 0) == said


async def test_a_report_of_losses_is_its_solver_s_word_on_the_claim_of_the_chain(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        await stage.commit(1)
        stage.draw()
        await write_reports(node)
        said = find_loss(node.get_view(), 0)
        assert said is not None
        found = read_loss(node.game, 0, said)
        assert found is not None and found[0] == get_account(1)
        report = found[1]
        assert report.domain == node.game.terms.domain and report.slot == stage.get_slot(1)
        assert is_signed(report, said.signature, get_account(1), SIGNING)
        assert not is_signed(report, said.signature, get_account(2), SIGNING)
        for changes in ({"mean_micronats": 0}, {"round": 1}, {"slot": 2}, {"claim_root": make_word("o")}):
            other = replace(report, **cast(Any, changes))
            assert not is_signed(other, said.signature, get_account(1), SIGNING), changes


async def test_of_a_claim_that_is_not_the_chain_s_nothing_is_reported(tmp_path: Path) -> None:
    """A reorg has another one there, or another account's."""
    async with open_stage(tmp_path, 1) as stage:
        node, slot = stage.nodes[1], 0
        await stage.commit(1)
        stage.draw()
        ((slot, claim),) = stage.world.state.rounds[0].claims.items()
        for other in (replace(claim, claim_root=make_word("other")), replace(claim, account="0xother")):
            change_round(stage, claims={slot: other})
            assert not list(list_duties(node.get_view(), node.state.head_block + 1))
        change_round(stage, claims={slot: claim})
        await write_reports(node)
        assert find_loss(node.get_view(), 0) is not None
        for other in (replace(claim, claim_root=make_word("other")), replace(claim, account="0xother")):
            change_round(stage, claims={slot: other})
            assert find_loss(node.get_view(), 0) is None


async def test_of_a_claim_there_is_one_report_also_after_a_restart(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            await stage.commit(1)
            stage.draw()
            await write_reports(node)
            said = find_loss(node.get_view(), 0)
            (made,) = node.rooms.tools.claims.reports.values()
            other = LossReported(TASK, replace(made.report, mean_micronats=1), made.signature)
            with pytest.raises(InvalidInput, match="has already reported the losses of a claim or a model"):
                node.rooms.tools.claims.write(other)
        async with stage.open(1) as node:
            assert said is not None and find_loss(node.get_view(), 0) == said
            with pytest.raises(InvalidInput, match="has already reported the losses of a claim or a model"):
                node.rooms.tools.claims.write(other)
            assert not list(list_duties(node.get_view(), node.state.head_block + 1))


async def test_a_claim_with_a_segment_whose_losses_are_not_known_is_not_reported_on(tmp_path: Path) -> None:
    """An earlier version trained it."""
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        await stage.commit(1)
        stage.draw()
        del node.rooms.tools.claims.find(node.game.rounds[0]).trained[2]
        assert not list(list_duties(node.get_view(), node.state.head_block + 1))


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf"), 2e6])
async def test_a_loss_that_is_no_figure_leaves_the_claim_and_takes_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: float
) -> None:
    monkeypatch.setattr(claims, "train_segment", lambda *given: (train_segment(*given)[0], [1.0, loss]))
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        await stage.commit(1)
        stage.draw()
        assert (
            not list(list_duties(node.get_view(), node.state.head_block + 1))
            and find_loss(node.get_view(), 0) is None
        )


async def test_a_killed_solver_reports_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of a segment are written down before the boundary behind it, and with a claim that is begun anew
    they go."""
    trained: list[int] = []

    def train(state: Any, spec: Any, batches: Any, step: int, steps: int) -> Any:
        trained.append(step)
        if len(trained) == 3:
            raise RuntimeError("killed")
        return train_segment(state, spec, batches, step, steps)

    monkeypatch.setattr(claims, "train_segment", train)
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            with pytest.raises(RuntimeError, match="killed"):
                await finish(node)
        async with stage.open(1) as node:
            made = await finish(node)
            work = node.rooms.tools.claims.find(node.game.rounds[0])
            assert sorted(work.trained) == [0, 1, 2, 3] and trained == [0, 2, 4, 4, 6]
            node.rooms.training.begin_anew(0, made.basis)
            assert not work.trained


async def test_a_kill_between_losses_and_boundary_loses_no_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment is trained again."""
    async with open_stage(tmp_path) as stage:
        async with stage.open(1) as node:
            book, write, seen = node.rooms.tools.claims, node.rooms.tools.claims.write, list[object]()

            def write_first(record: object) -> None:
                place = getattr(record, "segment", None), getattr(record, "boundary", None)
                if 1 in place[:1] or 2 in place[1:]:
                    seen.append(record)
                    if len(seen) == 2:
                        raise RuntimeError("killed")
                write(record)

            monkeypatch.setattr(book, "write", write_first)
            with pytest.raises(RuntimeError, match="killed"):
                await finish(node)
        async with stage.open(1) as node:
            await finish(node)
            assert sorted(node.rooms.tools.claims.find(node.game.rounds[0]).trained) == [0, 1, 2, 3]


# Who is answered
async def test_before_a_task_is_joined_nothing_is_answered_or_shown(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        offers = make_served(stage.nodes[1])
        assert BODY_BYTES.keys() > {START, SEAL, VOTES, PUBLIC, ASKED_STEPS}
        for name in BODY_BYTES:
            handler = offers.find_handler(name)
            assert handler is not None
            with pytest.raises(EnvironmentFault, match="joined no task"):
                await handler.answer("0x" + "11" * 20, b"{}")
        assert not offers.may_read("0x" + "11" * 20, BlobKind.TENSOR, bytes(32))
        assert offers.may_read("0x" + "11" * 20, BlobKind.DATASET, bytes(32))


async def test_a_node_answers_for_the_task_that_it_works_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        offers = make_served(node)
        rooms = offers.rooms = node.task.list_served(node.find_view)
        await stage.commit(1)
        stage.draw()
        await write_reports(node)
        said = offers.get_reports(TASK, 0)
        assert said is not None and said.loss == find_loss(node.get_view(), 0) and said.audits == ()
        empty = offers.get_reports(TASK, 999_999_999)
        assert empty is not None and empty.loss is None and not empty.audits
        places = node.task.audits.room.book.places
        assert 999_999_999 not in places, "nothing is kept of what a stranger asks for"
        assert offers.get_reports(make_word("another task"), 0) is None
        offers.rooms = None
        assert offers.get_reports(TASK, 0) is None
        offers.rooms = rooms
        del node.state.games[TASK]
        assert offers.get_reports(TASK, 0) is None


async def test_a_stranger_that_asks_again_and_again_has_nothing_worked_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a segment is public yet is asked of the rounds for each audit, up to 128 of them: milliseconds
    of the thread that answers everybody, fifty times a second."""
    made: list[int] = []

    def list_none(room: object, index: int) -> Iterator[DistancesSaid]:
        made.append(index)
        return iter(())

    monkeypatch.setattr(offers_module, "list_distances", list_none)
    async with open_stage(tmp_path, 1) as stage:
        node = stage.nodes[1]
        offers = make_served(node)
        offers.rooms = node.task.list_served(node.find_view)
        await stage.commit(1)
        stage.draw()
        for _ in range(9):
            said = offers.get_reports(TASK, 0)
        assert said is not None and said.loss is None and made == [0]
        await write_reports(node)
        for _ in range(9):
            said = offers.get_reports(TASK, 0)
        assert said is not None and said.loss is not None and made == [0, 0], "there is a report more"
        node.state.head_block += 1
        offers.get_reports(TASK, 0)
        assert made == [0, 0, 0], "more may be public now"
        game = node.game
        gone = {**game.rounds, 0: replace(game.rounds[0], claims={})}
        node.state.games[TASK] = cast(Any, replace(game, rounds=gone))
        said = offers.get_reports(TASK, 0)
        assert said is not None and said.loss is None, "the chain has taken the claim back"
        state = stage.world.state
        stage.world.state = replace(state, rounds={})
        stage.sync()
        assert offers.get_reports(TASK, 0) is not None and len(made) == 4
