"""The commands that move tokens, on the real contracts: what comes out, what is refused before anything is
sent, and what is said of it. Stakes of seats that have played: tests/e2e/test_commands.py."""

import errno
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import AMOUNTS
from tests.faults.provider import PASS, HttpRefusal, Request, run_provider
from tests.protocol.spec.game.simulation import post
from tests.protocol.spec.game.test_posting import make_judged
from tests.scripts.money import WEALTH_WEI, Operators
from tests.scripts.test_closing_commands import Terminal
from tests.scripts.test_wallet import WorldChain, use
from touchstone.node.records.record_kinds import RECORDS
from touchstone.protocol.adapters.chain.chain_client import GameChain, Sending, open_game_chain
from touchstone.protocol.adapters.chain.deployment import read_game_deployment
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.adapters.chain.transactions import ResendPolicy
from touchstone.protocol.adapters.journal import FILE_NAME, Journal
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.account import sending, task_names
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.home.home_folder import list_left, unlock_key
from touchstone.scripts.money import staking, withdrawal
from touchstone.scripts.money.staking import add_stake
from touchstone.scripts.money.withdrawal import require_payout, withdraw


def expect_answer(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))


def test_a_stake_goes_in_and_comes_out(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.SOLVER, AMOUNTS.solver_stake)
    expect_answer(monkeypatch, "n\n")
    assert "nothing was done" in operators.fail("alice", "stake", task[:8], "1.5")[0]
    expect_answer(monkeypatch, "y\n")
    said = operators.run("alice", "stake", task[:8], "1.5")
    assert "this locks 1.5 tokens more in solver 0" in said and "after you leave or the task ends" in said
    assert "the seat needs no more: the task asks for " in said
    assert "solver 0 of 0x" + task[:12] in said and "WARNING" not in said
    staked_wei = AMOUNTS.solver_stake + 3 * TOKEN_WEI // 2
    assert operators.read_wallet("alice") == WEALTH_WEI - staked_wei
    lines = operators.fail("alice", "withdraw")
    assert "nothing to withdraw" in lines[0] and "touchstone status" in lines[3]
    expect_answer(monkeypatch, "n\n")
    assert "nothing was done" in operators.fail("alice", "leave", task[:8])[0]
    expect_answer(monkeypatch, "y\n")
    said = operators.run("alice", "leave", task[:8])
    assert "leaves for good" in said and "can be taken out now" in said and "--wait" not in said
    lines = operators.fail("alice", "leave", task[:8], "--yes")
    assert "is leaving already" in lines[0] and lines[2].endswith("solver 0, leaving")
    assert "Nothing was sent" in lines[3]
    said = operators.run("alice", "withdraw", "--wait")
    assert "withdrawn: 1.500000000000002 tokens to 0x" in said and "in the wallet now: 100000 tokens" in said
    assert operators.account_of("alice") in said.lower()
    assert operators.read_wallet("alice") == WEALTH_WEI
    assert operators.fail("alice", "stake", task[:8], "1")[2].endswith("none")


def test_nothing_is_sent_to_leave_a_task_that_is_over(operators: Operators) -> None:
    """It took gas, and asked to keep the node up for nothing."""
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.SOLVER, AMOUNTS.solver_stake)
    operators.run("submitter", "task", "halt", task[:8], "--yes")
    before = operators.count_sent("alice")
    said = operators.run("alice", "leave", task[:8])
    assert "is over: there is nothing to leave, and nothing was sent" in said
    assert "which can be taken out now" in said and "Next: touchstone withdraw\n" in said
    assert operators.count_sent("alice") == before
    operators.run("alice", "withdraw")
    assert operators.read_wallet("alice") == WEALTH_WEI


def test_a_full_disk_keeps_nobody_in_a_seat(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written down is said. Where it is all that there is to do, it is an error."""

    def refuse(home: Path, task: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(home))

    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.SOLVER, AMOUNTS.solver_stake)
    monkeypatch.setattr(staking, "note_left", refuse)
    said = operators.run("alice", "leave", task[:8], "--yes")
    assert "the home takes no file (No space left on device)" in said and "can be taken out now" in said
    assert "the disk refuses" in operators.fail("alice", "leave", task[:8], "--yes")[0]


def test_a_node_that_leaves_while_the_command_is_answered_does_not_make_it_fail(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both send the same, of one account."""
    task, read, reads = operators.post_task("submitter"), task_names.read_state, list[str]()
    operators.join("alice", task, SeatRole.SOLVER, AMOUNTS.solver_stake)

    async def read_then_leave(chain: GameChain, account: str) -> Any:
        state = await read(chain, account)
        reads.append(account)
        if len(reads) == 1:
            seat = await chain.game.seat_of(bytes.fromhex(task), chain.address)
            await chain.game.leave(bytes.fromhex(task), seat)
        return state

    monkeypatch.setattr(staking, "read_state", read_then_leave)
    assert "can be taken out now" in operators.run("alice", "leave", task[:8], "--yes")
    assert list_left(operators.home_of("alice")) == {task} and len(reads) == 3


def test_what_cannot_be_staked_is_refused(operators: Operators) -> None:
    task = operators.post_task("submitter")
    assert "no open seat" in operators.fail("alice", "stake", task[:8], "1")[0]
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    lines = operators.fail("alice", "stake", task[:8], "1000000")
    assert lines[1].endswith("at least 1000000 tokens") and "0 tokens of credit, 99999." in lines[2]
    assert "unknown task" in operators.fail("alice", "stake", "0xzz", "1")[0]


def test_a_task_ends_and_its_escrow_comes_back(operators: Operators) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    lines = operators.fail("bob", "task", "close", task[:8])
    assert "cannot be closed yet" in lines[0] and "rounds still to open: 3" in lines[2]
    assert "verifier 0: the seat is active" in lines[2] and "task halt" in lines[3]
    lines = operators.fail("bob", "task", "halt", task[:8], "--yes")
    assert "cannot be halted" in lines[0] and operators.account_of("submitter") in lines[2]
    assert "halted 0x" in operators.run("submitter", "task", "halt", task[:8], "--yes")
    assert operators.fail("submitter", "task", "halt", task[:8], "--yes")[2].endswith("halted already")
    # Anybody closes it, and alice is paid out with it.
    said = operators.run("bob", "task", "close", task[:8])
    assert f"is now credit of {operators.account_of('submitter')}" in said and "withdraw" not in said
    assert "closed already" in operators.fail("bob", "task", "close", task[:8])[0]
    operators.run("submitter", "withdraw")
    assert operators.read_wallet("submitter") == WEALTH_WEI
    # What alice takes out goes on to an account whose key is not in the home.
    operators.configure("alice", payout_address=operators.account_of("bob"))
    before = operators.read_wallet("bob")
    said = operators.run("alice", "withdraw")
    assert "sent on: " in said and f"to {operators.account_of('bob')}, the payout_address" in said
    assert operators.read_wallet("bob") == before + AMOUNTS.auditor_stake
    assert operators.read_wallet("alice") == WEALTH_WEI - AMOUNTS.auditor_stake


@pytest.mark.parametrize(
    ("address", "is_fine"),
    [
        ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", True),
        ("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", True),
        ("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED", True),
        ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAee", False),
        ("0x" + "00" * 20, False),
    ],
)
def test_a_payout_address_with_a_mistyped_digit_is_refused(address: str, is_fine: bool) -> None:
    """Its capital letters are a checksum (EIP-55)."""
    if is_fine:
        require_payout(address)
    else:
        with pytest.raises(InvalidInput, match="payout_address is no account"):
            require_payout(address)


# Waiting
class Enough(Exception):
    """The test has seen what it waits for."""


async def test_what_is_waited_for_is_said_once_and_again_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An estimate that goes up and down is no change."""
    world, terminal, looks = make_judged(rounds=1), Terminal(), list[int]()
    post(world, (0, 1), (0, 1, 2))
    chain = WorldChain(world, "solver0")

    async def read_pace(_: GameChain) -> Pace:
        return Pace(world.block - 1, (1.0, 9.0)[len(looks) % 2])

    async def wait_for_block(number: int) -> None:
        looks.append(number)
        world.jump(world.block + 1)
        if len(looks) == 4:
            world.send(calls.DisputeStatement(StatementRef(0, 0), 80), "whistle0")
        if len(looks) == 8:
            raise Enough

    monkeypatch.setattr(chain, "wait_for_block", wait_for_block, raising=False)
    monkeypatch.setattr(withdrawal, "read_pace", read_pace)
    with pytest.raises(Enough):
        await withdraw(use(chain, monkeypatch, withdrawal, sending), terminal, is_waiting=True)
    first, second = re.findall("waiting for .*", terminal.said)
    assert "round 0, until block" in first and "a question" not in first and "(in " in first
    assert "a question on round 0" in second and not chain.sent


# Lost answers
@pytest.mark.parametrize("is_back", [True, False])
def test_a_lost_answer_sends_nothing_twice_and_is_told_where_the_endpoint_stays_silent(
    operators: Operators, is_back: bool
) -> None:
    """The call is handed in, and from then on the endpoint is silent, for a while or for good."""
    name = "alice" if is_back else "bob"
    task = operators.post_task("submitter")
    operators.join(name, task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    impatient = Sending(ResendPolicy(resend_after_s=0.2, attempts=30 if is_back else 1))

    async def add(chain: GameChain) -> None:
        rpc_url, key = operators.network.rpc_url, unlock_key(operators.home_of(name))
        left = 5 if is_back else 1 << 30

        async def lose(request: Request) -> Any:
            nonlocal left
            if request.method == "eth_sendRawTransaction":
                await request.ask(request.method, request.params)
            elif "eth_sendRawTransaction" not in provider.asked:
                return PASS
            left -= 1
            if left < 0:
                return PASS
            raise HttpRefusal(500)

        async with run_provider(rpc_url, lose) as provider:
            opening = open_game_chain(
                provider.url, read_game_deployment(operators.network.deployment), key, sending=impatient
            )
            async with opening as bad:
                await add_stake(bad, task, TOKEN_WEI, Console(), is_agreed=True)

    if is_back:
        operators.act(name, add)
    else:
        with pytest.raises(EnvironmentFault, match="look at `touchstone status` first"):
            operators.act(name, add)


# Beside a node
def test_what_a_running_node_has_sent_is_left_to_it(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commitment that is replaced may miss its window. Without a node, what is stuck holds up all that
    follows, and is replaced."""
    opened: list[bool] = []

    @asynccontextmanager
    async def open_and_note(*where: Any, is_alone: bool, **words: Any) -> AsyncIterator[GameChain]:
        opened.append(is_alone)
        async with open_game_chain(*where, is_alone=is_alone, **words) as chain:
            yield chain

    monkeypatch.setattr(sending, "open_game_chain", open_and_note)
    home = operators.home_of("keeper")
    operators.fail("keeper", "withdraw")
    with Journal(home / FILE_NAME, RECORDS):
        operators.fail("keeper", "withdraw")
    operators.fail("keeper", "withdraw")
    assert opened == [True, False, True]
