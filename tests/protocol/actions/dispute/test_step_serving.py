"""To whom a node shows the steps of its segments: each question costs it the training of a segment."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.dispute.casebook import StepDesk
from protocol.actions.dispute.dispute_duties import _list_served
from protocol.actions.dispute.step_serving import StepsAsked, answer_steps, is_auditor
from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.playing import Loop
from protocol.adapters.chain.event_logs import Event
from protocol.adapters.messages import encode_message
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.auditing import get_drawn
from protocol.spec.game.inner_dispute import InnerBook, InnerDispute
from protocol.spec.game.state import StatementRef
from protocol.spec.game.terms import LIMITS_LOCAL
from protocol.spec.typed_data import SigningDomain
from tests.protocol.actions.merge.stage import TASK as STAGED
from tests.protocol.actions.pruning.test_pruning_duties import draw_late, jump, open_solver

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
    task_ = SimpleNamespace(task=TASK, cases=cases, retraining=SimpleNamespace(look_again=lambda: None))
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


async def test_an_auditor_has_steps_beside_the_own_claim_though_a_member_asked_before(tmp_path: Path) -> None:
    async with open_solver(tmp_path, is_pruned=False) as (stage, party):
        windows, slot = party.game.terms.windows, stage.get_slot(1)
        draw_late(stage)
        jump(stage, stage.world.block + 2 * windows.audit_max + 1)
        drawn = get_drawn(party.game, 0, slot, party.game.terms.draws, 0)
        assert drawn is not None
        asked = StepsAsked(STAGED, 0, slot, drawn.segment)
        accounts = [seat.account for seat in party.game.seats.values()]
        member = next(one for one in accounts if not is_auditor(party, one, asked))
        loop, shown = Loop(party, [_list_served]), party.task.cases.desk.shown
        party.chain.mined_block = 0  # type: ignore[misc]
        await party.task.retraining.let_own_go(
            lambda: party.state.head_block, windows.train_min, windows.train_min
        )
        for account in (member, drawn.seat.account):
            party.state._seated._members[account, STAGED] += 1
            with pytest.raises(EnvironmentFault, match="not shown now"):
                await answer_steps(party, account, encode_message(asked))
            loop._schedule()
            await asyncio.sleep(0)

        async def wait() -> None:
            while not shown:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), 60)
        party.task.retraining.end_own()
        await asyncio.gather(*loop.running.values())
        assert (await answer_steps(party, drawn.seat.account, encode_message(asked))).states
