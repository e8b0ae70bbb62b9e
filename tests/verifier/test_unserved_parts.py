"""Nobody serves a part of the dataset: no claim and no word against anybody follows."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.kit.nodes import change_tools, get_account, get_corpus
from tests.node.merging.stage import finish, make_world, open_stage
from tests.protocol.spec.game.simulation import AMOUNTS, seal_draw
from tests.verifier.stage import Node, make_solver, make_stage
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.audit_deadlines import compute_serving_until
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.round_pay import compute_round_money
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.statements import VoteWord
from touchstone.verifier import replaying
from touchstone.verifier.replaying import audit


class Unserved:
    """A corpus of which no peer serves anything."""

    def __init__(self) -> None:
        self.asked = 0

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        self.asked += 1
        raise EnvironmentFault(
            what="no peer serves a part of the dataset", expected="", actual="", remedy="Wait."
        )

    def read_rows(self, starts: Sequence[int], length: int) -> Tensor:
        raise AssertionError("nothing is computed before the data is there")

    async def open_leaf(self, leaf: int) -> LeafProof:
        raise AssertionError("no leaf is here")


async def test_a_solver_without_its_data_commits_to_nothing_and_goes_on_later(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1) as stage:
        node, unserved = stage.nodes[1], Unserved()
        change_tools(node, corpus=unserved)
        with pytest.raises(EnvironmentFault, match="no peer serves a part"):
            await finish(node)
        work = node.rooms.tools.claims.find(node.game.rounds[0])
        assert unserved.asked and work.finished is None and list(work.boundaries) == [0]
        change_tools(node, corpus=get_corpus())
        assert (await finish(node)).segments == node.task.spec.terms.segment_count


def test_who_commits_to_nothing_owes_the_fee_of_a_missed_round_and_keeps_its_seat() -> None:
    """The rule that limits what a submitter who stops serving can cost: docs/decisions/0041-data.md."""
    world = make_world()
    seal_draw(world)
    seat = next(one for one in world.state.seats.values() if one.account == get_account(1))
    money = compute_round_money(world.state, seat, world.state.rounds[0], world.block)
    assert seat.status == SeatStatus.ACTIVE and (money.paid, money.burned) == (0, 0)
    assert money.fees == AMOUNTS.dropped_fee < AMOUNTS.solver_stake


async def test_an_auditor_without_its_data_says_nothing_against_the_solver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An UNSERVED would cost an honest solver a fee for what the submitter does not serve."""
    stage = make_stage()
    drawn, solver = stage.get_drawn(), make_solver(stage, tmp_path)
    auditor = Node(stage, stage.find_auditor(), tmp_path / "auditor")
    room: Any = auditor.room
    room.about = replace(room.about, corpus=Unserved())
    until = compute_serving_until(stage.game, drawn.place, stage.head + 1)
    async with solver.run(), auditor.run():
        with pytest.raises(EnvironmentFault, match="no peer serves a part"):
            await audit(room, drawn)
        assert not room.book.votes, "as long as there is time it is tried again"
        monkeypatch.setattr(replaying, "compute_serving_until", lambda *_: until)
        stage.world.jump(until + 1)
        vote = await audit(room, drawn)
    assert vote is not None and vote.word == VoteWord.ABSTAIN
