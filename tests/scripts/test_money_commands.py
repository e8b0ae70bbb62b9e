"""The commands that move tokens, on the real contracts: what comes out, what is refused before anything is
sent, and what is said of it."""

import io
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from protocol.adapters.chain import Chain, open_chain
from protocol.adapters.journal import FILE_NAME, Journal
from protocol.adapters.records import RECORDS
from protocol.spec.errors import EnvironmentFault
from protocol.spec.params import TOKEN_WEI
from scripts import money_commands
from scripts.console import Console
from scripts.home import unlock_key
from scripts.money_commands import unstake
from scripts.touchstone import main
from tests.e2e.test_twin import HONEST, ROUNDS
from tests.e2e.twin import RoundTwin, make_account
from tests.e2e.twin_chain import JsonRpc, TwinChain
from tests.protocol.adapters.lossy import run_lossy_node
from tests.scripts.money import (
    UNBONDING_BLOCKS,
    WEALTH_WEI,
    Operators,
    play_blocks,
    play_until,
    without,
)

HONEST_ROUND = without(ROUNDS[HONEST], "advance")
END = 10**6
"""After all blocks of a script."""


def expect_answer(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))


# --- Stake --------------------------------------------------------------------------------------------------
def test_announced_stake_comes_back_when_its_time_has_come(party: Operators) -> None:
    party.run("keeper", "stake", "1000")
    said = party.run("keeper", "unstake", "400.5")
    ready_block = party.chain.head + UNBONDING_BLOCKS
    assert "leaving now: 400.5 tokens" in said and f"block {ready_block}" in said
    assert "free stake now: 599.5 tokens" in said and "in the wallet now: 99000 tokens" in said
    # Not in the block before, and nothing is sent.
    party.chain.mine_to(ready_block - 1)
    lines = party.fail("keeper", "withdraw")
    assert "still has to stay" in lines[0] and f"block {ready_block} (in" in lines[1]
    assert lines[2].endswith(f"block {ready_block - 1}") and "withdraw --wait" in lines[3]
    party.chain.mine_to(ready_block)
    said = party.run("keeper", "withdraw")
    assert "withdrawn: 400.5 tokens" in said and "in the wallet now: 99400.5 tokens" in said
    assert party.read("stakeOf", "keeper") == 599.5 * TOKEN_WEI


def test_unstake_all_announces_what_is_not_announced_yet(party: Operators) -> None:
    party.run("keeper", "stake", "1000")
    party.run("keeper", "unstake", "400")
    assert "announced 600 tokens" in party.run("keeper", "unstake", "all", "--yes")
    lines = party.fail("keeper", "unstake", "all")
    assert "all stake is announced already" in lines[0] and "1000 tokens leaves from block" in lines[2]
    party.chain.mine_to(party.chain.head + UNBONDING_BLOCKS)
    party.run("keeper", "withdraw")
    assert party.wallet_of("keeper") == WEALTH_WEI


def test_a_second_announcement_is_asked_for_since_it_delays_the_first(
    party: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    party.run("keeper", "stake", "1000")
    party.run("keeper", "unstake", "400")
    ready_block = party.chain.head + UNBONDING_BLOCKS
    party.chain.mine_to(ready_block - 1)
    expect_answer(monkeypatch, "n\n")
    assert "nothing was done" in party.fail("keeper", "unstake", "1")[0]
    assert party.chain.read("StakeVault", "unbondingOf", make_account("keeper"))[1] == ready_block
    expect_answer(monkeypatch, "y\n")
    said = party.run("keeper", "unstake", "1")
    assert "WARNING: 400 tokens leaves already" in said and "starts its time again" in said
    assert f"leaving now: 401 tokens, all of it from block {party.chain.head + UNBONDING_BLOCKS}" in said
    # What could be withdrawn now is warned of as such.
    party.chain.mine_to(party.chain.head + UNBONDING_BLOCKS)
    assert "can be withdrawn now" in party.run("keeper", "unstake", "1", "--yes")


def test_nothing_to_take_out(party: Operators) -> None:
    lines = party.fail("keeper", "unstake", "all")
    assert "no stake to take out" in lines[0] and "touchstone claim" in lines[3]
    assert "no stake is leaving" in party.fail("keeper", "withdraw")[0]
    assert "no stake is leaving" in party.fail("keeper", "withdraw", "--wait")[0]
    lines = party.fail("keeper", "claim")
    assert "nothing to claim" in lines[0] and "touchstone status" in lines[3]
    party.run("keeper", "stake", "1000")
    lines = party.fail("keeper", "unstake", "1000.1")
    assert lines[1].endswith("at most 1000 tokens") and lines[2].endswith("1000.1 tokens")
    lines = party.fail("keeper", "withdraw")
    assert "none of 1000 tokens" in lines[2] and "touchstone unstake" in lines[3]


@pytest.mark.parametrize("amount", ["0", "-1", "everything", "1e3"])
def test_other_amounts_are_refused(party: Operators, amount: str) -> None:
    assert main(["unstake", "--home", str(party.home_of("keeper")), "--", amount]) == 2
    assert "not an amount of tokens" in party.capsys.readouterr().err


@contextmanager
def mine_beside(chain: TwinChain) -> Iterator[None]:
    """Blocks come, made by another hand."""
    rpc, stopping = JsonRpc(chain.rpc_url), threading.Event()

    def go_on() -> None:
        while not stopping.wait(0.02):
            rpc.ask(("anvil_mine", [hex(100)]))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        rpc.close()


def test_withdraw_waits_where_it_is_told_to(party: Operators) -> None:
    party.run("keeper", "stake", "1000")
    party.run("keeper", "unstake", "all")
    ready_block = party.chain.head + UNBONDING_BLOCKS
    with mine_beside(party.chain):
        said = party.run("keeper", "withdraw", "--wait")
    assert f"waiting for block {ready_block} (in" in said and "withdrawn: 1000 tokens" in said
    assert party.wallet_of("keeper") == WEALTH_WEI and party.chain.head >= ready_block


# --- In the middle of a round -------------------------------------------------------------------------------
def test_exposed_stake_stays_and_what_holds_it_is_named(party: Operators) -> None:
    party.stake_all()
    twin = RoundTwin(party.chain, HONEST_ROUND, rounds=1)
    play_until(twin, "judge")
    task, auditor = f"0x{twin.state.task.hex()[:12]}", party.name_of(twin.account_of("auditor:0.0.0"))
    said = party.run(auditor, "unstake", "all", "--yes")
    assert "You are verifier in round 1/1" in said and "each audit takes 50 tokens" in said
    assert "burns 21 tokens" in said and "free stake falls from 1900 tokens to 0 tokens" in said
    assert "100 tokens of your stake is exposed" in said
    party.chain.mine_to(party.chain.head + UNBONDING_BLOCKS)
    said = party.run(auditor, "withdraw")
    assert "withdrawn: 1900 tokens" in said and "100 tokens that leaves is exposed still" in said
    lines = party.fail(auditor, "withdraw")
    assert "all stake is exposed still" in lines[0] and "some of the 100 tokens" in lines[1]
    assert f"50 tokens by seat as verifier in round 1/1 of {task}" in lines[2]
    assert f"50 tokens by audit of slot 0 in round 1/1 of {task}" in lines[2]
    assert party.read("stakeOf", auditor) == 100 * TOKEN_WEI


def test_who_has_a_seat_is_asked_before_free_stake_shrinks(
    party: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    party.stake_all()
    play_until(RoundTwin(party.chain, HONEST_ROUND), "sealBeacon")
    expect_answer(monkeypatch, "n\n")
    party.fail("solver:0", "unstake", "1")
    assert party.read("freeOf", "solver:0") == 1800 * TOKEN_WEI
    said = party.run("solver:0", "unstake", "1800", "--yes")
    assert "You are solver in round 1/2" in said and "next round takes 200 tokens" in said
    # All that is left is exposed, so announcing it takes away no free stake, but delays the rest.
    assert "free stake falls" not in party.run("solver:0", "unstake", "all", "--yes")
    # Nobody else is asked.
    assert "WARNING" not in party.run("keeper", "unstake", "1")


def test_a_solver_of_the_last_round_needs_no_free_stake(party: Operators) -> None:
    party.stake_all()
    play_until(RoundTwin(party.chain, HONEST_ROUND, rounds=1), "sealBeacon")
    assert "WARNING" not in party.run("solver:0", "unstake", "all")
    # An auditor of it does, and cannot get a seat in another round.
    said = party.run("verifier:1", "unstake", "all", "--yes")
    assert "each audit takes" in said and "next round" not in said


# --- Closing ------------------------------------------------------------------------------------------------
def test_a_task_is_closed_when_all_is_settled_and_not_before(party: Operators) -> None:
    party.stake_all()
    twin = RoundTwin(party.chain, HONEST_ROUND, rounds=1)
    task = "0x" + twin.state.task.hex()
    play_until(twin, "judge")
    lines = party.fail("submitter", "task", "close", task)
    expiry_block = party.chain.read("TaskRegistry", "expiryBlock", twin.state.task)
    assert "cannot be closed yet" in lines[0] and f"or block {expiry_block}" in lines[1]
    assert "round 1/1 runs" in lines[2] and "at the latest from block" in lines[2]
    play_blocks(twin, 50, 105)
    lines = party.fail("submitter", "task", "close", task)
    over_block = twin.state.ready_block or 0
    assert f"or block {over_block + UNBONDING_BLOCKS} (in" in lines[1] and "runs" not in lines[2]
    assert "claims not settled: 1 of 1 (from block" in lines[2] and "touchstone solve" in lines[3]
    play_blocks(twin, 105, END)
    # Anybody may close it; the rest of the escrow is the submitter's.
    said = party.run("keeper", "task", "close", task[:6])
    refund_wei = party.read("creditOf", "submitter")
    assert f"{refund_wei // TOKEN_WEI} tokens is now a credit of {make_account('submitter')}" in said
    assert "touchstone claim" not in said
    lines = party.fail("submitter", "task", "close", task)
    assert "closed already" in lines[0] and "touchstone claim" in lines[3]
    wallet_wei = party.wallet_of("submitter")
    assert "claimed:" in party.run("submitter", "claim")
    assert party.wallet_of("submitter") == wallet_wei + refund_wei


def test_an_unknown_task_is_not_closed(party: Operators) -> None:
    assert "unknown task" in party.fail("submitter", "task", "close", "0x3fa9")[0]


def test_a_task_of_several_rounds_is_closed_at_its_expiry_at_the_latest(party: Operators) -> None:
    party.stake_all()
    twin = RoundTwin(party.chain, HONEST_ROUND)
    twin.play_steps()
    task = "0x" + twin.state.task.hex()
    lines = party.fail("submitter", "task", "close", task)
    expiry_block = party.chain.read("TaskRegistry", "expiryBlock", twin.state.task)
    assert f"block {expiry_block}" in lines[1] and "rounds still to start: 1" in lines[2]
    party.chain.mine_to(expiry_block - 1)
    party.fail("submitter", "task", "close", task)
    party.chain.mine_to(expiry_block)
    assert "touchstone claim" in party.run("submitter", "task", "close", task)


def test_an_empty_task_can_be_closed_at_once(party: Operators) -> None:
    twin = RoundTwin(party.chain, HONEST_ROUND, rounds=1)
    beacon_end = twin.state.deadlines.beacon_end
    party.chain.mine_to(beacon_end - 1)
    assert "round 1/1 runs" in party.fail("submitter", "task", "close", twin.state.task.hex())[2]
    party.chain.mine_to(beacon_end)
    party.run("submitter", "task", "close", twin.state.task.hex())
    assert party.chain.read("StakeVault", "escrowOf", twin.state.task) == 0


def test_who_would_stay_unpaid_is_named_before_a_task_is_closed(
    party: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    party.stake_all()
    twin = RoundTwin(party.chain, HONEST_ROUND, rounds=1)
    play_blocks(twin, 0, 105)
    assert twin.state.ready_block is not None
    party.chain.mine_to(twin.state.ready_block + UNBONDING_BLOCKS)
    expect_answer(monkeypatch, "n\n")
    party.fail("submitter", "task", "close", twin.state.task.hex())
    assert party.chain.read("StakeVault", "escrowOf", twin.state.task)
    said = party.run("submitter", "task", "close", twin.state.task.hex(), "--yes")
    assert "claims not settled: 1 of 1" in said and "A closed task pays nobody" in said


# --- Lost answers -------------------------------------------------------------------------------------------
async def test_a_lost_answer_is_told_and_the_next_call_sees_what_was_sent(
    party: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, sent = party.chain, "eth_sendRawTransaction"
    party.stake_all()
    key, deployment = unlock_key(party.home_of("keeper")), chain.deployment
    monkeypatch.setattr("protocol.adapters.chain.rpc.FIRST_PAUSE_S", 0.01)
    with chain.mining_at_once():
        async with (
            run_lossy_node(chain.rpc_url, sent, losses=3) as rpc_url,
            open_chain(rpc_url, deployment, key) as lossy,
        ):
            with pytest.raises(EnvironmentFault, match="look at `touchstone status` first"):
                await unstake(lossy, 400 * TOKEN_WEI, Console(), is_agreed=False)
    # It was sent all the same, so whoever repeats it is asked.
    assert party.read("stakeOf", "keeper") == 2000 * TOKEN_WEI
    assert chain.read("StakeVault", "unbondingOf", make_account("keeper"))[0] == 400 * TOKEN_WEI


# --- Beside a node ------------------------------------------------------------------------------------------
def test_what_a_running_node_has_sent_is_left_to_it(
    party: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commitment that is replaced may miss its window. Without a node, what is stuck holds up all that
    follows, and is replaced."""
    opened: list[bool] = []

    @asynccontextmanager
    async def open_and_note(*where: Any, is_alone: bool) -> AsyncIterator[Chain]:
        opened.append(is_alone)
        async with open_chain(*where, is_alone=is_alone) as chain:
            yield chain

    monkeypatch.setattr(money_commands, "open_chain", open_and_note)
    home = party.home_of("keeper")
    party.run("keeper", "stake", "1")
    with Journal(home / FILE_NAME, RECORDS):
        party.run("keeper", "stake", "1")
    party.run("keeper", "stake", "1")
    assert opened == [True, False, True]
