"""The committed storage layout is what the contracts say."""

import pytest

from tools import storage
from touchstone.protocol.adapters.chain.deployment import PARTS


@pytest.fixture(scope="module")
def layout() -> str:
    return storage.render_layouts(storage.read_layouts())


def test_layout_matches_the_source(layout: str) -> None:
    assert storage.LAYOUT.read_text() == layout, "run ./dev compile"


def test_layout_says_where_every_field_lies(layout: str) -> None:
    assert "\nVault\n    0   0   32  creditOf: mapping(address => uint256)\n" in layout
    assert "\n  struct GameStorage.Contest\n      0   0    1  turn: enum IContests.Turn\n" in layout


def test_each_part_of_game_has_its_layout(layout: str) -> None:
    """A part runs on the storage of Game: with another layout it would write into the wrong fields."""
    assert ", ".join(sorted(("Game", *PARTS))) in layout.splitlines()


def test_two_fields_of_one_word_show_their_bytes() -> None:
    types = {"t": {"label": "uint64", "numberOfBytes": "8"}}
    fields = [{"slot": "0", "offset": at, "type": "t", "label": f"f{at}"} for at in (0, 8)]
    text = storage.render_layouts({"C": {"storage": fields, "types": types}})
    assert text.endswith("C\n    0   0    8  f0: uint64\n    0   8    8  f8: uint64\n")
