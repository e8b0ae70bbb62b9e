"""A short campaign of hostile calls, and a check that it got somewhere."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.protocol.spec.game.campaign import PASSED, REACHED, SENT, Campaign

MUST_BE_REACHED = (
    "RootPosted", "RootStood", "RootFell", "TaskPaused", "ClosingDrawn", "TaskClosed", "SeatFreed",
    "VoteOpened", "EpochFreed", "PayHeld", "ContestOver HOLDS", "ContestOver FALLS",
    "settlements that owed something", "DisputeOver CLEARED", "DisputeOver CONVICTED",
    "QueryOver CONVICTED", "convicted WRONG_MERGE", "convicted DISPUTED",
)  # fmt: skip
LONG = 300
EXAMPLES = int(os.environ.get("TOUCHSTONE_GAME_EXAMPLES", "20"))


def test_nothing_hostile_hurts_the_honest_or_stops_the_task() -> None:
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=40,
        deadline=None,
        derandomize=EXAMPLES == 20,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Campaign, settings=chosen)
    print({name: (PASSED[name], sent) for name, sent in sorted(SENT.items())}, dict(sorted(REACHED.items())))
    missing = {name for name in MUST_BE_REACHED if not REACHED[name]}
    assert EXAMPLES < LONG or not missing, "a campaign that only collects refusals proves nothing"
