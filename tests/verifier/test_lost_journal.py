"""An auditor whose journal is lost, or an older copy: it must not say a second, different thing of a draw."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.kit.nodes import make_view
from tests.verifier.stage import Node, judge, make_solver, make_stage
from tests.verifier.test_audit_duties import draw_late, list_due
from touchstone.node.joining.seat_taking import SeatTaking
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.verifier.audit_duties import AuditDraw
from touchstone.verifier.replaying import audit


def require_records(node: Node) -> None:
    """As a node does before it works with a seat that it has."""
    view, nothing = (
        make_view(account=node.account, game=node.stage.game, book=node.room.book),
        cast(Any, None),
    )
    SeatTaking(lambda: view, nothing, node.journal, print, nothing, nothing, nothing).require_records()


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_journal_that_lacks_a_vote_which_the_chain_has_is_refused(
    tmp_path: Path, is_late: bool
) -> None:
    """Votes of verifiers and of whistleblowers: what else such an auditor has sealed nobody can tell."""
    stage = make_stage(is_late=is_late)
    if is_late:
        draw_late(stage)
    draw = stage.game.terms.draws if is_late else 0
    auditor = Node(stage, stage.find_auditor(0, draw), tmp_path / "auditor")
    async with make_solver(stage, tmp_path).run(), auditor.run():
        vote = await audit(auditor.room, stage.get_drawn(0, draw))
        assert vote is not None
        judge(stage, vote)
        require_records(auditor)
    lost = Node(stage, auditor.seed, tmp_path / "empty")
    with pytest.raises(EnvironmentFault, match=f"vote ACCEPT on round 0 slot {stage.slot} draw {draw}"):
        require_records(lost)
    lost.journal.close()
    bystander = Node(stage, stage.find_auditor(1, draw), tmp_path / "bystander")
    require_records(bystander)
    bystander.journal.close()


async def test_what_was_drawn_before_the_journal_began_is_not_audited(tmp_path: Path) -> None:
    """Another journal of this account may have sealed it: the seal was shown to a solver, and to no chain."""
    stage = make_stage()
    node = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    assert list_due(node) == [AuditDraw(stage.get_drawn().place)]
    closed = stage.game.rounds[0].closed or 0
    assert node.room.book.begin(closed) and list_due(node) == []
    node.journal.close()
    again = Node(stage, node.seed, tmp_path / "auditor")
    assert not again.room.book.begin(stage.head) and list_due(again) == [], "nor after a restart"
    again.journal.close()


async def test_a_journal_that_began_in_a_block_that_was_made_up_begins_again(tmp_path: Path) -> None:
    """One provider told of it, once: the node would audit nothing for years, and say nothing of it."""
    stage = make_stage()
    node = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    assert node.room.book.begin(10**9) and list_due(node) == []
    node.journal.close()
    again = Node(stage, node.seed, tmp_path / "auditor")
    before = (stage.game.rounds[0].closed or 0) - 1
    assert again.room.book.begin(before) and not again.room.book.begin(stage.head)
    assert list_due(again) == [AuditDraw(stage.get_drawn().place)]
    again.journal.close()


async def test_a_journal_that_began_before_the_draw_audits_it(tmp_path: Path) -> None:
    stage = make_stage()
    node = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    assert node.room.book.begin((stage.game.rounds[0].closed or 0) - 1)
    assert list_due(node) == [AuditDraw(stage.get_drawn().place)]
    async with make_solver(stage, tmp_path).run(), node.run():
        assert await audit(node.room, stage.get_drawn()) is not None
