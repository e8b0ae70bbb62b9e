"""What `touchstone status` says can be taken out, and when."""

import re

from protocol.spec.params import TOKEN_WEI
from tests.e2e.test_twin import HONEST, ROUNDS
from tests.e2e.twin import RoundTwin, make_account
from tests.scripts.money import UNBONDING_BLOCKS, Operators, play_blocks, play_until, without

HONEST_ROUND = without(ROUNDS[HONEST], "advance")
END = 10**6
"""After all blocks of a script."""


def read_rows(said: str) -> dict[str, str]:
    """The rows of all tables by their first cell; the other cells with a bar between them. A row that has the
    first cell of an earlier one is added to it."""
    rows: dict[str, str] = {}
    for line in said.splitlines():
        cells = [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        if cells:
            rows[cells[0]] = "; ".join(filter(None, [rows.get(cells[0]), "|".join(cells[1:])]))
    return rows


def test_who_has_nothing_staked(party: Operators) -> None:
    rows = read_rows(party.run("keeper", "status"))
    assert rows["tokens in the wallet"] == "100000 tokens|" and rows["stake"] == "0 tokens|"
    assert rows["credits"] == "0 tokens|" and "of it free" not in rows and "exposed stake" not in rows


def test_stake_on_its_way_out(party: Operators) -> None:
    party.run("keeper", "stake", "1000")
    rows = read_rows(party.run("keeper", "status"))
    assert rows["tokens in the wallet"] == "99000 tokens|" and rows["stake"] == "1000 tokens|"
    free = rows["of it free"]
    assert free.startswith(f"1000 tokens|{UNBONDING_BLOCKS} blocks (") and "touchstone unstake" in free
    party.run("keeper", "unstake", "400")
    ready_block = party.chain.head + UNBONDING_BLOCKS
    rows = read_rows(party.run("keeper", "status"))
    assert rows["of it free"].startswith("600 tokens|")
    leaving = rows["of it leaving"]
    assert leaving.startswith(f"400 tokens|from block {ready_block} (in ") and "withdraw" in leaving
    party.chain.mine_to(ready_block)
    rows = read_rows(party.run("keeper", "status"))
    assert rows["of it leaving"] == "400 tokens|now: touchstone withdraw"


def test_exposed_stake_and_what_holds_it(party: Operators) -> None:
    party.stake_all()
    twin = RoundTwin(party.chain, HONEST_ROUND, rounds=1)
    task = f"0x{twin.state.task.hex()[:12]}"
    play_until(twin, "judge")
    party.run("solver:0", "unstake", "all", "--yes")
    rows = read_rows(party.run("solver:0", "status"))
    assert rows["of it exposed"] == "200 tokens|when it is released, see below"
    assert rows["of it free"] == "0 tokens|"
    assert rows["of it leaving"].endswith("(1800 tokens of it; the rest is exposed)")
    held = rows["200 tokens"]
    assert held.startswith(f"seat as solver in round 1/1 of {task}|from block ")
    assert "at the latest, when the round is settled" in held
    play_blocks(twin, 50, 105)
    party.chain.mine_to(twin.state.start_block + 200)
    held = read_rows(party.run("solver:0", "status"))["200 tokens"]
    assert "now: a running node of the task settles it" in held and "RoundLedger.settleClaims" in held


def test_credits_and_the_escrow_of_own_tasks(party: Operators) -> None:
    party.stake_all()
    twin = RoundTwin(party.chain, HONEST_ROUND, rounds=1)
    task = f"0x{twin.state.task.hex()[:12]}"
    expiry_block = party.chain.read("TaskRegistry", "expiryBlock", twin.state.task)
    play_until(twin, "judge")
    # The same task stands in the table of all tasks and in that of the own escrows.
    rows = read_rows(party.run("submitter", "status"))[task]
    escrow = rows.split("; ", 1)[1]
    left_wei = party.chain.read("StakeVault", "escrowOf", twin.state.task)
    assert escrow.startswith(
        f"{left_wei // TOKEN_WEI} tokens|when all is settled, or from block {expiry_block} "
    )
    assert "round 1/1 runs" in escrow and "claims not settled: 1 of 1 (at the latest from block" in escrow
    assert "Escrow" not in party.run("solver:0", "status")
    play_blocks(twin, 50, END)
    escrow = read_rows(party.run("submitter", "status"))[task].split("; ", 1)[1]
    assert escrow.endswith("tokens|now: touchstone task close|nothing")
    party.run("submitter", "task", "close", task)
    said = party.run("submitter", "status")
    assert "Escrow" not in said and "CLOSED" in read_rows(said)[task]
    assert read_rows(said)["credits"].endswith("tokens|now: touchstone claim")
    assert read_rows(party.run("solver:0", "status"))["credits"] == "10 tokens|now: touchstone claim"
    assert make_account("submitter") in said
