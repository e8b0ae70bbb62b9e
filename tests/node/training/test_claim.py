"""A solver's claim: what it sends, and when it is due."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.nodes import get_account, get_lines, get_sent
from tests.node.merging.stage import deal_anew, open_stage
from touchstone.node.models.own_openings import get_finished
from touchstone.node.training import claims
from touchstone.node.training.claims import MakeClaim, get_basis
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole

SEGMENTS = 4


async def test_training_stops_when_the_round_starts_from_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a whole round is trained for nothing, and a commitment is sent that can only be refused."""
    async with open_stage(tmp_path, 1) as stage:
        node, claim_train = stage.nodes[1], train_segment
        trained: list[int] = []

        def train(*arguments: Any) -> Any:
            trained.append(arguments[3])
            stage.world.state = deal_anew(stage.world.state)
            stage.sync()
            return claim_train(*arguments)

        monkeypatch.setattr(claims, "train_segment", train)
        duty = MakeClaim(0, get_basis(node.game.rounds[0]) or b"")
        with pytest.raises(EnvironmentFault, match="starts from something else"):
            await duty.perform(node.rooms.training)
        assert trained == [0] and not get_sent(node)


async def test_a_claim_is_due_once_while_the_round_runs_and_to_who_sits_in_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path, 1, 2) as stage:
        first, second = stage.nodes[1], stage.nodes[2]
        duty = MakeClaim(0, get_basis(first.game.rounds[0]) or b"")
        assert list(claims.list_duties(first.get_view(), stage.world.block)) == [duty]
        await duty.perform(first.rooms.training)
        (sent,) = get_sent(first)
        made = get_finished(first.get_view(), 0).finished
        assert made is not None and sent[0] == "game.commit" and sent[1][-2:] == (made.claim_root, SEGMENTS)
        lines: list[str] = get_lines(first)
        assert lines[-1] == "round 0: the claim is on the chain"
        await stage.commit(1)
        assert not list(claims.list_duties(first.get_view(), stage.world.block))
        assert list(claims.list_duties(second.get_view(), stage.world.block)) == [duty]
        stage.draw()
        assert not list(claims.list_duties(second.get_view(), stage.world.block))


async def test_a_solver_without_a_seat_in_the_round_claims_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000), get_account(4))
        async with stage.open(4) as late:
            assert not list(claims.list_duties(late.get_view(), stage.world.block))
