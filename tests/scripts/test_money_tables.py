"""What `touchstone status` says of money in a task in which it is lost in each ordinary way."""

from functools import cache
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.protocol.spec.game.cashier import open_cashier
from tests.protocol.spec.game.mishaps import ROUNDS, UNDRAWN, make_mishaps
from tests.protocol.spec.game.simulation import Simulation
from tests.scripts.test_status import read_rows
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.scripts.status.money_json import describe_money
from touchstone.scripts.status.money_tables import (
    find_money,
    has_money,
    make_money_table,
    make_rounds_table,
)

TASK = b"\x3f" * 32
ONE = "0.0000000000000001"
"""Pay of a claim, in tokens: 100 wei."""


@cache
def play(*, is_closed: bool = False) -> tuple[LoggedGame, Pace]:
    """After the last round has closed, or at the end; blocks of 12 s."""
    world = make_mishaps()
    world.play(until=None if is_closed else is_last_closed)
    cashier = open_cashier(world)
    cashier.take(world.log)
    return cashier.make_game(), Pace(world.block - 1, 12.0)


def is_last_closed(world: Simulation) -> bool:
    return world.state.next_round == ROUNDS and world.state.rounds[UNDRAWN].closed is not None


def show(account: str, *, is_closed: bool = False) -> dict[str, str]:
    game, pace = play(is_closed=is_closed)
    console = Console(width=200, highlight=False)
    money = find_money(game, account, pace)
    with console.capture() as said:
        console.print(make_money_table(TASK, game, money, pace))
        console.print(make_rounds_table(money, pace))
    return read_rows(said.get())


def test_the_table_begins_with_a_sentence_that_sums_it_up() -> None:
    game, pace = play()
    title = str(make_money_table(TASK, game, find_money(game, "solver3", pace), pace).title)
    assert "you have earned 0.0000000000000004 tokens, none of it settled yet" in title
    assert "0.000000000000002 are locked and come back in about" in title


def test_what_is_locked_earned_owed_and_not_paid() -> None:
    rows = show("solver3")
    assert rows["locked: solver 3 (active)"].startswith("0.000000000000002|")
    four = "0.0000000000000004"
    assert rows["earned, not settled"] == f"{four}|accepted claim {four}; {rows_wait()}"
    assert rows["fees to come"] == f"0.00000000000000006|missed round 0.00000000000000006; {rows_wait()}"
    assert rows["not paid"] == f"{ONE}|missed draw {ONE}"
    assert rows["0"] == f"missed round 0.00000000000000006|{rows_wait()}"
    assert rows["1"] == f"accepted claim {ONE}|{rows_wait()}" and "settled" not in rows and "lost" not in rows


def rows_wait() -> str:
    game, pace = play()
    (due,) = {one.due for one in find_money(game, "solver3", pace).rounds}
    assert due is not None and due > pace.head_block
    return pace.show_wait(due)


@pytest.mark.parametrize(
    ("account", "name", "said"),
    [
        ("solver0", "lost", "0.000000000000002|conviction 0.000000000000002"),
        ("pest", "lost", "0.00000000000000008|lost dispute 0.00000000000000008"),
        ("solver1", "not paid", f"0.0000000000000002|missed draw {ONE}, rejected claim {ONE}"),
        ("submitter", "locked: escrow", "0.00000000000000456|back when all is settled"),
    ],
)
def test_why(account: str, name: str, said: str) -> None:
    assert show(account)[name].startswith(said)


def test_what_is_settled_and_spent() -> None:
    rows = show("solver3", is_closed=True)
    assert not any(name.startswith("locked") for name in rows) and "earned, not settled" not in rows
    assert rows["settled"].startswith("0.0000000000000003|accepted claim 0.0000000000000003")
    assert rows["lost"] == "0.00000000000000006|missed round 0.00000000000000006"
    assert "late rejected claim" in rows["not paid"]
    spent = show("submitter", is_closed=True)["spent"]
    assert "paid members" in spent and "burned escrow" in spent


def test_programs_get_numbers_and_no_sentences() -> None:
    for is_closed in (False, True):
        game, pace = play(is_closed=is_closed)
        for account in (*(f"solver{n}" for n in range(4)), "whistle0", "pest", "submitter"):
            money = find_money(game, account, pace)
            found: dict[str, Any] = msgspec.to_builtins(describe_money(TASK, money))
            assert has_money(money) and found.pop("account") == account
            assert all(" " not in text for text in list_texts(found)), found
            wei = {name: int(found[f"{name}_wei"]) for name in ("locked", "settled", "lost", "spent")}
            assert wei["settled"] - wei["lost"] - wei["spent"] - wei["locked"] == money.change
    assert not has_money(find_money(*play()[:1], "nobody", play()[1]))


def list_texts(found: Any) -> list[str]:
    if isinstance(found, dict):
        return [text for key, one in found.items() for text in (key, *list_texts(one))]
    if isinstance(found, list):
        return [text for one in found for text in list_texts(one)]
    return [found] if isinstance(found, str) else []
