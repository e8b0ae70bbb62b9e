"""Tasks ended from the command line: what is refused before anything is sent, and what is sent."""

import io
from pathlib import Path

import pytest
import rich.console

from tests.protocol.spec.game.simulation import SUBMITTER, is_posted, make_quiet_world, make_world
from tests.scripts.test_wallet import TASK, WorldChain, play_over, use
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.vault import credit_of
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.account import sending
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.money import staking, task_shares
from touchstone.scripts.tasks import task_ending
from touchstone.scripts.tasks.task_ending import SHOWN_SEATS, close_task, halt_task

NAME = TASK.hex()[:8]


class Terminal(Console):
    """It writes down what is said, and answers each question alike."""

    def __init__(self, is_agreed: bool = False) -> None:
        self.out, self.is_agreed = io.StringIO(), is_agreed
        super().__init__(rich.console.Console(file=self.out, highlight=False, width=400))

    def confirm(self, question: str) -> bool:
        self.notify(question)
        return self.is_agreed

    @property
    def said(self) -> str:
        return self.out.getvalue()


def open_chain(chain: WorldChain, monkeypatch: pytest.MonkeyPatch) -> GameChain:
    """What the commands see of a task that is played on the pure machine."""

    async def read_pace(_: GameChain) -> Pace:
        return Pace(chain.world.block - 1, None)

    for module in (task_ending, task_shares):
        monkeypatch.setattr(module, "read_pace", read_pace)
    return use(chain, monkeypatch, task_ending, sending)


# Close
@pytest.mark.parametrize("account", ["operator", SUBMITTER])
async def test_a_task_that_is_over_is_settled_paid_out_and_closed(
    monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    """By any account. Only its submitter has something to take out."""
    chain, terminal = WorldChain(play_over(), account), Terminal()
    opened = open_chain(chain, monkeypatch)
    before = chain.world.state.vault.wei.get(credit_of(SUBMITTER), 0)
    await close_task(opened, NAME, terminal)
    assert chain.world.state.is_closed and not chain.world.state.seats
    assert chain.sent[-1] == calls.CloseTask()
    refund_wei = chain.world.state.vault.wei[credit_of(SUBMITTER)] - before
    assert refund_wei > 0
    assert f"{format_tokens(refund_wei)} is now credit of {SUBMITTER}" in terminal.said
    assert ("Next: touchstone withdraw" in terminal.said) == (account == SUBMITTER)
    with pytest.raises(InvalidInput, match="closed already"):
        await close_task(opened, NAME, terminal)


async def test_nobody_is_told_to_take_a_seat_in_a_closed_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chain = WorldChain(play_over(), SUBMITTER)
    await close_task(open_chain(chain, monkeypatch), NAME, Terminal())
    sent = len(chain.sent)
    with pytest.raises(InvalidInput, match="no open seat") as refused:
        await staking.leave(use(chain, monkeypatch, staking), NAME, tmp_path, Terminal(), is_agreed=True)
    assert "The task is closed" in refused.value.remedy and "touchstone solve" not in refused.value.remedy
    assert len(chain.sent) == sent


async def test_a_task_that_runs_says_what_is_open_and_whose_stake_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = WorldChain(make_quiet_world())
    with pytest.raises(InvalidInput, match="cannot be closed yet") as refused:
        await close_task(open_chain(chain, monkeypatch), NAME, Terminal())
    told = str(refused.value.actual)
    assert f"block {chain.world.block - 1}" in told and "round 0: " in told
    assert told.count("the seat is active") == SHOWN_SEATS < len(chain.world.state.seats)
    assert not chain.sent


async def test_a_task_that_is_over_but_not_settled_has_nothing_to_halt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only time is missing: what ends a running task would help nobody."""
    chain = WorldChain(make_world(rounds=1, late_chance=0).play(is_posted))
    with pytest.raises(InvalidInput, match="not all seats of the task can be paid out yet") as refused:
        await close_task(open_chain(chain, monkeypatch), NAME, Terminal())
    assert "until block" in str(refused.value.actual) and "halt" not in refused.value.remedy


# Halt
async def test_a_task_is_halted_once_by_its_submitter_who_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be taken back."""
    world, unsure, sure = make_quiet_world(), Terminal(), Terminal(is_agreed=True)
    stranger, chain = WorldChain(world), WorldChain(world, SUBMITTER)
    with pytest.raises(InvalidInput, match="cannot be halted"):
        await halt_task(open_chain(stranger, monkeypatch), NAME, sure, is_agreed=True)
    opened = open_chain(chain, monkeypatch)
    with pytest.raises(InvalidInput, match="nothing was done"):
        await halt_task(opened, NAME, unsure, is_agreed=False)
    assert "cannot be taken back" in unsure.said and not stranger.sent and not chain.sent
    await halt_task(opened, NAME, sure, is_agreed=False)
    assert chain.sent == [calls.HaltTask()] and world.state.is_halted
    assert "no further round opens" in sure.said and f"touchstone task close 0x{NAME}" in sure.said
    with pytest.raises(InvalidInput, match="cannot be halted") as refused:
        await halt_task(opened, NAME, sure, is_agreed=True)
    assert refused.value.actual == "halted already" and len(chain.sent) == 1
