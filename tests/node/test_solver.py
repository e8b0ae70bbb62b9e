"""A solver trains, merges, posts and answers: its rooms, and the seat that it takes."""

from pathlib import Path

import pytest

from tests.protocol.adapters.parties import make_key
from tests.roles import TASK, list_rooms, note_plays
from touchstone.node import solver
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import PartyConfig
from touchstone.node.solver import ROOMS
from touchstone.protocol.spec.game.enums import SeatRole


def test_a_solver_answers_disputes_before_it_does_anything_else() -> None:
    """Silence in a dispute costs the seat, a late claim only a fee. Pruning looks at what the others left;
    a bucket holds copies of what pruning left."""
    rooms = list_rooms(ROOMS)
    assert rooms[0] == "dispute_duties" and rooms[-2:] == ["pruning", "served_data"]


def test_a_solver_has_every_duty_of_its_role_once() -> None:
    """It claims, fetches and merges, posts, trains ahead, contests and defends roots, and serves auditors."""
    merging = {"claims", "outer_step", "merge_signing", "posting", "speculation", "contesting"}
    shared = {"dispute_duties", "upkeep_duties", "idle_mode", "audit_duties", "pruning", "served_data"}
    assert set(list_rooms(ROOMS)) == merging | shared and len(ROOMS) == len(merging | shared)


async def test_a_solver_takes_a_seat_of_its_own_role_unless_its_operator_wishes_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator names another stake, or a seat that it holds already."""
    config = PartyConfig(tmp_path, tmp_path, "", make_key(1))
    wish = SeatRequest(SeatRole.SOLVER, 7, is_held=True)
    played = note_plays(solver, monkeypatch)
    await solver.run(config, TASK)
    await solver.run(config, TASK, wish)
    assert played == [(config, TASK, ROOMS, one) for one in (SeatRequest(SeatRole.SOLVER), wish)]
