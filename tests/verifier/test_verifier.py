"""A verifier replays, votes and answers for its votes: its rooms, and the seat that it takes."""

from pathlib import Path

import pytest

from protocol.actions.runtime.config import PartyConfig
from protocol.actions.runtime.joining import SeatWish
from protocol.spec.game.state import SeatRole
from tests.protocol.adapters.parties import make_key
from tests.roles import TASK, list_rooms, note_plays
from verifier import verifier
from verifier.verifier import ROOMS


def test_a_verifier_answers_disputes_before_it_does_anything_else() -> None:
    """Silence in a dispute costs the seat, a vote that comes late only its pay."""
    rooms = list_rooms(ROOMS)
    assert rooms[0] == "dispute_duties" and rooms[-1] == "pruning_duties"


def test_a_verifier_has_the_duties_of_its_role_and_no_others() -> None:
    """It audits, and hands votes in where solvers do not. It trains, merges and contests nothing: those who
    made a root and those who watch do."""
    shared = {"dispute_duties", "upkeep_duties", "audit_duties", "pruning_duties"}
    assert set(list_rooms(ROOMS)) == {*shared, "posting"} and len(ROOMS) == len(shared) + 1


async def test_a_verifier_takes_a_seat_of_its_own_role_unless_its_operator_wishes_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator names another stake, or a seat that it holds already."""
    config, wish = PartyConfig(tmp_path, tmp_path, "", make_key(1)), SeatWish(SeatRole.VERIFIER, 7)
    played = note_plays(verifier, monkeypatch)
    await verifier.run(config, TASK)
    await verifier.run(config, TASK, wish)
    assert played == [(config, TASK, ROOMS, one) for one in (SeatWish(SeatRole.VERIFIER), wish)]
