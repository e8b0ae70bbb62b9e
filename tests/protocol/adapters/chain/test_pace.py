"""Blocks in words of time, from how fast the last ones came."""

import pytest

from touchstone.protocol.adapters.chain.pace import Pace, show_duration, spell_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "less than a minute"),
        (59, "less than a minute"),
        (60, "about 1 min"),
        (3569, "about 59 min"),
        (3590, "about 1 h 0 min"),
        (5000, "about 1 h 23 min"),
        (86_380, "about 24 h"),
        (93_300, "about 26 h"),
        (280_000, "about 3 d 6 h"),
        (4_838_400, "about 56 d 0 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59, "less than a minute"),
        (60, "about 1 minute"),
        (3590, "about 60 minutes"),
        (7200, "about 2 hours"),
        (93_300, "about 26 hours"),
        (280_000, "about 3 days"),
    ],
)
def test_durations_in_a_sentence(seconds: float, text: str) -> None:
    assert spell_duration(seconds) == text


def test_a_block_to_come_has_a_time_where_one_is_known() -> None:
    assert Pace(100, 0.5).show_block(10_100) == "block 10100 (in about 1 h 23 min)"
    assert Pace(100, 0.5).show_block(100) == "block 100"
    assert Pace(100, None).show_block(10_100) == "block 10100"
