"""What an auditor reports of the ends that it compared: in limits, once, and to nobody too early."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.protocol.spec.game.simulation import make_word
from tests.verifier.stage import SIGNING, Node, Stage, Twist, make_stage
from tests.verifier.test_replaying import run_audit
from touchstone.node.records.audit_records import DistancesReported
from touchstone.node.serving.distance_reports import list_distances, list_unreported, report_distances
from touchstone.protocol.adapters.reports.round_reports import DistancesSaid, is_signed, read_distances
from touchstone.protocol.adapters.store.blobs import refer_state
from touchstone.protocol.compute.tolerance.compare import measure_apart
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.signed_reports import Comparison
from touchstone.protocol.spec.statements import VoteWord


@contextmanager
def restart(stage: Stage, folder: Path) -> Iterator[Node]:
    """The node of the primary again, with what it has on its disk."""
    node = Node(stage, stage.find_auditor(), folder / "auditor")
    try:
        yield node
    finally:
        node.journal.close()


async def report(node: Node) -> None:
    """What is due, once."""
    for place in list(list_unreported(node.get_view(), node.stage.head + 1)):
        await report_distances(node.room, place)


def list_shown(node: Node) -> list[DistancesSaid]:
    return list(list_distances(node.room, 0))


async def test_distances_are_shown_once_no_vote_counts_any_more(tmp_path: Path) -> None:
    """By the same rule as the segment's two ends: in the last block of the votes nothing is shown."""
    stage = make_stage()
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        assert list(list_unreported(node.get_view(), stage.head + 1)) == [stage.get_drawn().place]
        await report(node)
        assert not list(list_unreported(node.get_view(), stage.head + 1))
        assert not list_shown(node)
        stage.settle()
        assert not list_shown(node), "the last block in which a vote counts"
        stage.world.jump(stage.head + 1)
        (said,) = list_shown(node)
        found = read_distances(stage.game, 0, said)
        assert found is not None and found[0] == node.account
        assert is_signed(found[1], said.signature, node.account, SIGNING)
        for changes in ({"weights_microlimits": 1}, {"seed": make_word("s")}, {"segment": 9}, {"rank": 2}):
            other = replace(found[1], **cast(Any, changes))
            assert not is_signed(other, said.signature, node.account, SIGNING), changes


@pytest.mark.parametrize("phase", [phase for phase in RoundPhase if phase != RoundPhase.POSTED])
async def test_of_a_round_without_a_standing_root_no_distance_is_shown(
    tmp_path: Path, phase: RoundPhase
) -> None:
    stage = make_stage()
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        stage.settle(phase)
        stage.world.block += 1_000
        assert not list_shown(node)


async def test_what_may_still_be_audited_late_keeps_distances_secret(tmp_path: Path) -> None:
    """The start of the drawn segment is the end of the one before, which may be drawn late."""
    stage = make_stage(is_late=True)
    assert stage.get_drawn().segment > 0, "a stage of another seed is needed"
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        stage.settle()
        stage.world.jump(stage.head + 1)
        assert not list_shown(node)
        over = (stage.game.rounds[0].closed or 0) + stage.game.terms.windows.dispute
        stage.world.jump(over + REORG_BLOCKS)
        assert len(list_shown(node)) == 1


async def test_distances_of_a_draw_that_is_not_the_chain_s_are_not_shown(tmp_path: Path) -> None:
    stage = make_stage()
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        stage.settle()
        stage.world.jump(stage.head + 1)
        assert list_shown(node)
        state = stage.world.state
        other = replace(state.rounds[0], base_root=make_word("another base"))
        stage.world.state = replace(state, rounds={0: other})
        assert not list_shown(node)


async def test_equal_ends_are_reported_as_equal(tmp_path: Path) -> None:
    stage = make_stage(is_exact=True)
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        ((made),) = node.room.book.reports.values()
        said = made.report
        assert (said.word, said.comparison) == (VoteWord.ACCEPT, Comparison.EQUAL)
        assert (said.weights_microlimits, said.first_moment_microlimits, said.second_moment_microlimits) == (
            0,
            0,
            0,
        )


@pytest.mark.parametrize(("amount", "word"), [(2e-7, VoteWord.ACCEPT), (1.0, VoteWord.REJECT_STATE)])
async def test_other_ends_are_measured_in_limits_of_the_task(
    tmp_path: Path, amount: float, word: VoteWord
) -> None:
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1, element=700, amount=amount))
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        (made,) = node.room.book.reports.values()
        said, (seal,) = made.report, node.room.book.list_seals(0)
        assert (said.word, said.comparison) == (word, Comparison.MEASURED)
        assert (said.weights_microlimits > 1_000_000) == (word == VoteWord.REJECT_STATE)
        states, about = node.room.states, node.room.about
        claimed, own = states.open(stage.claim.headers[segment + 1]), states.open(seal.own_end)
        apart = measure_apart(claimed, own, about.get_rate_sum(0, segment), about.limits)
        far = (said.first_moment_microlimits, said.second_moment_microlimits, said.weights_microlimits)
        assert far == pytest.approx([1e6 * distance / limit for distance, limit in apart], abs=1.0)
        assert said.weights_microlimits > 0


async def test_other_ends_of_an_exact_task_are_not_measured(tmp_path: Path) -> None:
    """No end state travels there, so none is at hand."""
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1, element=700, amount=1e-7), is_exact=True)
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        (made,) = node.room.book.reports.values()
        assert (made.report.word, made.report.comparison) == (VoteWord.REJECT_STATE, Comparison.OTHER)


async def test_an_audit_that_compared_nothing_has_no_report(tmp_path: Path) -> None:
    """Boundary 0 has other weights than the round started from: REJECT_START."""
    stage = make_stage(Twist(boundary=0))
    vote, _ = await run_audit(stage, tmp_path)
    assert vote.word == VoteWord.REJECT_START
    with restart(stage, tmp_path) as node:
        assert not list(list_unreported(node.get_view(), stage.head + 1))


async def test_ends_that_were_pruned_are_not_measured(tmp_path: Path) -> None:
    segment = make_stage().get_drawn().segment
    stage = make_stage(Twist(boundary=segment + 1, element=700))
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        assert list(list_unreported(node.get_view(), stage.head + 1))
        claimed = refer_state(stage.claim.headers[segment + 1], node.room.about.parameter_count)
        node.store.delete(claimed[1].key)
        assert not list(list_unreported(node.get_view(), stage.head + 1))


async def test_of_an_audit_there_is_one_report_also_after_a_restart(tmp_path: Path) -> None:
    stage = make_stage()
    await run_audit(stage, tmp_path)
    with restart(stage, tmp_path) as node:
        await report(node)
        (made,) = node.room.book.reports.values()
    changed = replace(made.report, comparison=Comparison.OTHER)
    with restart(stage, tmp_path) as node:
        assert list(node.room.book.reports.values()) == [made]
        assert not list(list_unreported(node.get_view(), stage.head + 1))
        with pytest.raises(InvalidInput, match="something else about the same draw"):
            node.room.book.write(DistancesReported(made.task, changed, made.signature))
