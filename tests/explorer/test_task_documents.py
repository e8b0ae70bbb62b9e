"""What a task is called, and which seats it lacks."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from touchstone.explorer.task_documents import describe_seats, name_task
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus


@pytest.mark.parametrize(
    ("parameters", "size"),
    [(133_000, "133K"), (967_808, "968K"), (124_000_000, "124M"), (7_000_000_000, "7B"), (12, "12")],
)
def test_a_task_is_named_by_its_size_and_its_first_digits(parameters: int, size: str) -> None:
    assert name_task(bytes.fromhex("3f2a91") + bytes(29), parameters) == f"{size}-parameter model 3f2a91"


def make_game(**counts: int) -> Any:
    """A task that needs one solver, one verifier and one whistleblower, and is closed or not."""
    seats = [
        SimpleNamespace(role=SeatRole[role], status=SeatStatus.ACTIVE)
        for role, count in counts.items()
        for _ in range(count)
    ]
    terms = SimpleNamespace(least_solvers=1, least_verifiers=1, least_whistleblowers=1)
    return SimpleNamespace(seats=dict(enumerate(seats)), terms=terms, is_closed=False)


def test_missing_seats_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("touchstone.explorer.task_documents.is_over", lambda *_: False)
    monkeypatch.setattr("touchstone.explorer.task_documents.get_state_at", lambda game, _: game)
    game = make_game(SOLVER=4, WHISTLEBLOWER=1)
    assert describe_seats(game, 1) == "2 of 3 seats, 1 verifier missing"
    assert describe_seats(make_game(SOLVER=4, VERIFIER=1, WHISTLEBLOWER=1), 1) == "6 seats"
    assert describe_seats(make_game(), 1) == ("0 of 3 seats, 1 solver, 1 verifier, 1 whistleblower missing")


def test_a_task_that_is_over_lacks_nothing() -> None:
    game = make_game(SOLVER=1)
    game.is_closed = True
    assert describe_seats(cast(Any, game), 1) == "1 seat"
