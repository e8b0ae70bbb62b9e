"""Which events open an exposure, which end it. That the names are the contracts' is seen on a chain
(tests/scripts/test_holdings.py)."""

from typing import Any

from protocol.spec import events, game_events
from protocol.spec.events import Event
from protocol.spec.exposure import OpenExposure, compute_enrolment_exposure, list_exposures
from protocol.spec.statuses import Role
from tests.protocol.spec.simulator import make_account, make_word

ME, OTHER, TASK = make_account("me"), make_account("other"), make_word("task")
NAME = compute_enrolment_exposure(TASK, 1, ME)
ENROLLED = events.Enrolled(block_number=1, task=TASK, round=1, role=Role.SOLVER, account=ME, index=0)
EXPOSED = game_events.Exposed(block_number=1, exposure=NAME, account=ME, amount_wei=100)


def make_fee(amount_wei: int, account: str = ME) -> Event:
    return game_events.FeeBurned(
        block_number=2, exposure=NAME, account=account, amount_wei=amount_wei, reason=bytes(32)
    )


def make_end(kind: str) -> Event:
    where: dict[str, Any] = {"block_number": 3, "exposure": NAME, "amount_wei": 100}
    if kind == "released":
        return game_events.Released(**where, account=ME)
    if kind == "moved":
        return game_events.CreditMoved(**where, from_=ME, to=OTHER, reason=bytes(32))
    return game_events.Slashed(
        **where, account=ME, finder=OTHER, finder_wei=1, submitter_wei=1, reason=bytes(32)
    )


def test_an_exposure_has_what_is_left_of_it_and_its_cause() -> None:
    assert list_exposures([ENROLLED, EXPOSED, make_fee(21)], ME) == [OpenExposure(NAME, 79, ENROLLED)]


def test_what_no_event_explains_is_listed_all_the_same() -> None:
    assert list_exposures([EXPOSED], ME) == [OpenExposure(NAME, 100, None)]


def test_it_ends_by_release_slash_or_forfeit() -> None:
    for kind in ("released", "moved", "slashed"):
        assert list_exposures([ENROLLED, EXPOSED, make_end(kind)], ME) == []


def test_a_name_may_be_used_again() -> None:
    history = [ENROLLED, EXPOSED, make_end("released"), EXPOSED]
    assert list_exposures(history, ME) == [OpenExposure(NAME, 100, ENROLLED)]


def test_others_have_their_own() -> None:
    assert list_exposures([ENROLLED, EXPOSED, make_fee(21)], OTHER) == []
