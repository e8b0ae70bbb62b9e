"""A whistleblower audits late, contests and disputes: its rooms, and the seat that it takes."""

from pathlib import Path

import pytest

from tests.protocol.adapters.parties import make_key
from tests.roles import TASK, list_rooms, note_plays
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import PartyConfig
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.whistleblower import watcher
from touchstone.whistleblower.watcher import ROOMS


def test_a_whistleblower_looks_at_disputes_before_it_does_anything_else() -> None:
    """It is paid for what it finds false, and its own late votes can be disputed as well."""
    rooms = list_rooms(ROOMS)
    assert rooms[0] == "dispute_duties" and rooms[-1] == "pruning"


def test_a_whistleblower_has_the_duties_of_its_role_and_no_others() -> None:
    """It checks posted roots, which a verifier does not. It claims nothing: it neither trains nor merges."""
    shared = {"dispute_duties", "upkeep_duties", "idle_mode", "audit_duties", "pruning", "served_data"}
    assert set(list_rooms(ROOMS)) == {*shared, "posting", "contesting"} and len(ROOMS) == len(shared) + 2


async def test_a_whistleblower_takes_a_seat_of_its_own_role_unless_its_operator_wishes_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator names another stake, or a seat that it holds already."""
    config = PartyConfig(tmp_path, tmp_path, "", make_key(1))
    wish = SeatRequest(SeatRole.WHISTLEBLOWER, 7, is_held=True)
    played = note_plays(watcher, monkeypatch)
    await watcher.run(config, TASK)
    await watcher.run(config, TASK, wish)
    assert played == [(config, TASK, ROOMS, one) for one in (SeatRequest(SeatRole.WHISTLEBLOWER), wish)]
