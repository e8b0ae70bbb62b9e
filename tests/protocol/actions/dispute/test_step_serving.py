"""To whom a node shows the steps of its segments: each question costs it the training of a segment."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.dispute.casebook import StepDesk
from protocol.actions.dispute.step_serving import StepsAsked, answer_steps
from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.event_logs import Event
from protocol.adapters.messages import encode_message
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.inner_dispute import InnerBook, InnerDispute
from protocol.spec.game.state import StatementRef
from protocol.spec.game.terms import LIMITS_LOCAL
from protocol.spec.typed_data import SigningDomain

TASK, OTHER = b"t" * 32, b"o" * 32
MEMBER, STRANGER, OPENER = ("0x" + digit * 40 for digit in "123")


def make_party() -> Any:
    state = ChainState("0x" + "9" * 40, LIMITS_LOCAL, SigningDomain(1, "0x" + "7" * 40))
    for task, account in ((TASK, MEMBER), (OTHER, STRANGER)):
        words = {"task": task, "seat": 1 << 16, "account": account, "stake_wei": 1}
        state._seated.take(Event("Tasks", "SeatJoined", words, 1, 0, b"", b""))
    opened = InnerDispute(b"n" * 32, 1 << 16, StatementRef(0, 0), 0, OPENER, 100)
    state.inner[TASK] = InnerBook(10, {opened.name: opened})
    cases = SimpleNamespace(steps={}, desk=StepDesk())
    task_ = SimpleNamespace(task=TASK, cases=cases)
    game = SimpleNamespace(terms=SimpleNamespace(segment_count=4, draws=2), rounds={})
    return SimpleNamespace(joined=task_, task=task_, state=state, game=game, wake=lambda: None)


@pytest.mark.parametrize(("account", "is_noted"), [(MEMBER, True), (STRANGER, False), (OPENER, True)])
async def test_a_cheap_seat_elsewhere_has_nothing_computed(account: str, is_noted: bool) -> None:
    """Anybody posts a task with the least stakes and takes a thousand seats in it."""
    party = make_party()
    with pytest.raises(EnvironmentFault, match="not shown now"):
        await answer_steps(cast(Any, party), account, encode_message(StepsAsked(TASK, 0, 0, 1)))
    assert party.state.is_staked(account) == (account != OPENER)
    assert bool(party.task.cases.desk.wanted) == is_noted
