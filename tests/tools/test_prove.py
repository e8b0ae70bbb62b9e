"""What counts as proved, and that the prover's start is where it is looked for."""

from typing import Any

import pytest

from tools.prove import LAUNCHER, make_report


def test_the_launcher_is_there() -> None:
    assert LAUNCHER.is_file()


@pytest.mark.parametrize(
    ("name", "code", "is_proved"),
    [
        ("check_solvency", 0, True),
        ("check_solvency", 1, False),
        ("refute_all", 1, True),
        ("refute_all", 0, False),
    ],
)
def test_a_check_must_hold_and_what_is_to_be_refuted_must_fail(name: str, code: int, is_proved: bool) -> None:
    test: dict[str, Any] = {"name": f"{name}()", "exitcode": code, "num_bounded_loops": 0}
    report = make_report([test], 1.0)
    assert (report["proved"] != [], report["not_proved"] == []) == (is_proved, is_proved)
