"""The verifier takes a verifier's duties, after it has read and joined the task."""

import pytest

from protocol.spec import calls
from protocol.spec.statuses import Role
from tests.protocol.actions.role_run import EXPECTED_STEPS, record_run
from tests.protocol.spec.simulator import make_account, make_round, make_terms
from verifier import verifier


async def test_the_task_is_read_and_joined_before_it_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, _ = await record_run(verifier, monkeypatch)
    assert steps == EXPECTED_STEPS


async def test_it_enrols_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _, list_duties = await record_run(verifier, monkeypatch)
    state = make_round(make_terms())
    due = list_duties(state, make_account("me"), state.start_block + 1)
    assert due == (calls.Enrol(0, Role.VERIFIER),)
