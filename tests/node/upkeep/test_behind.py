"""A node that starts while its provider is behind deletes nothing that it has to answer for since."""

from dataclasses import replace
from pathlib import Path

from tests.kit.nodes import TASK
from tests.node.upkeep.test_pruning import list_due, list_here, open_solver
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.models.own_openings import get_finished, open_boundary
from touchstone.node.records.audit_records import SealMade, make_sealed
from touchstone.node.upkeep.pruning import Prune
from touchstone.protocol.spec.game.drawn_audits import AuditPlace


async def test_a_chain_that_is_older_than_the_records_has_nothing_deleted(tmp_path: Path) -> None:
    """Of a round that it does not have yet. Its start was deleted, and no peer need show it once more: an
    auditor that is disputed without it loses its stake."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        start, own_end = open_boundary(node.get_view(), 0, 2), get_finished(node.get_view(), 0).boundaries[3]
        newest = node.game.next_round
        place = AuditPlace(node.task.domain, newest, b"r" * 32, make_word("seed"), 0, b"c" * 32, 0, 0)
        sealed = make_sealed(place, 2, b"l" * 32, b"h" * 32)
        node.task.audits.room.book.write(SealMade(TASK, sealed, b"s" * 32, start, start, own_end))
        for duty in list_due(node):
            if isinstance(duty, Prune):
                await duty.perform(node.rooms.pruning)
        assert {2, 3} <= set(list_here(node))
        stage.world.state = replace(stage.world.state, next_round=newest + 1)
        stage.sync()
        assert any(isinstance(duty, Prune) for duty in list_due(node)), "once the chain is there it deletes"
