"""What each account did in all tasks: added up from the ledger of work, counted votes, and money."""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.explorer.plays import make_batch
from tests.explorer.test_page_server import get, open_pages
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player
from touchstone.explorer import chain_view
from touchstone.explorer.account_documents import ACCOUNT_COLUMNS, DONE, Totals, add_round
from touchstone.explorer.money_documents import TOTALS, sum_money
from touchstone.explorer.names import show_wei
from touchstone.explorer.round_documents import make_round
from touchstone.explorer.running_explorer import Explorer
from touchstone.explorer.work_documents import WORK_COLUMNS, list_work
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame

Pages = tuple[Explorer, aiohttp.ClientSession]


@pytest.fixture
async def pages(chain: RoundChain, players: list[Player], tmp_path: Path) -> AsyncIterator[Pages]:
    """The explorer and a browser."""
    async with open_pages(chain, tmp_path) as explorer, aiohttp.ClientSession(explorer.url) as browser:
        yield explorer, browser


async def read_accounts(browser: aiohttp.ClientSession) -> dict[tuple[str, str], dict[str, int]]:
    """By account and task, as the CSV has it."""
    async with browser.get("/api/accounts.csv") as response:
        assert response.content_type == "text/csv" and "attachment" in response.headers["Content-Disposition"]
        rows = list(csv.DictReader(io.StringIO(await response.text())))
    assert tuple(rows[0]) == ACCOUNT_COLUMNS
    return {(one["account"], one["task"]): {name: int(one[name]) for name in DONE} for one in rows}


async def count_by_hand(browser: aiohttp.ClientSession, player: Player) -> dict[str, dict[str, int]]:
    """What each account did in a task, from its ledger of work, its rounds, its money and the player."""
    state, path = player.twin.state, f"/api/tasks/0x{player.twin.task.hex()}"
    found: dict[str, Counter[str]] = defaultdict(Counter)
    async with browser.get(f"{path}/work.csv") as response:
        for row in csv.DictReader(io.StringIO(await response.text())):
            done = found[row["account"]]
            done["rounds_trained"] += 1
            done["rounds_accepted"] += row["status"] == "accepted"
            done["rounds_merged"] += int(row["is_merged"])
            done.update({name: int(row[name]) for name in ("steps", "tokens", "flops")})
    for game_round in state.rounds.values():
        for (slot, draw), votes in game_round.votes.items():
            for rank in votes:
                seat = get_drawn_seat(state, game_round, slot, draw, rank)
                assert seat is not None
                found[{**state.former, **state.seats}[seat].account]["audits_voted"] += 1
    task = await get(browser, path)
    for one in task["convicted"]:
        found[one["account"]]["convictions"] += 1
    return {account: strip(done) for account, done in found.items() if any(done.values())}


def strip(done: Mapping[str, int], *names: str) -> dict[str, int]:
    """What is not zero, without these."""
    return {name: count for name, count in done.items() if count and name not in names}


async def test_what_each_account_did_is_added_up(pages: Pages, players: list[Player]) -> None:
    """In all tasks, and of one account in each: by the ledger, the rounds and the books."""
    explorer, browser = pages
    told = await read_accounts(browser)
    for player in players:
        task = f"0x{player.twin.task.hex()}"
        mine = {who: done for (who, where), done in told.items() if where == task}
        by_hand = await count_by_hand(browser, player)
        done = {who: strip(found, *TOTALS) for who, found in mine.items()}
        assert {who: found for who, found in done.items() if found} == by_hand
        money = explorer.view.find_money(player.twin.task)
        sums = {who: sum_money(one) for who, one in money.items()}
        for name in TOTALS:
            column = name.removesuffix("_wei")
            listed = {who: done[name] for who, done in mine.items() if done[name]}
            assert listed == {who: found[column] for who, found in sums.items() if found[column]}
    assert any(done["audits_voted"] for done in told.values()) and any(
        done["rounds_accepted"] for done in told.values()
    )
    rows = (await get(browser, "/api/accounts"))["accounts"]
    assert [one["flops"] for one in rows] == sorted((one["flops"] for one in rows), reverse=True)
    for row in rows:
        of_it = {task: done for (who, task), done in told.items() if who == row["account"]}
        assert row["tasks"] == len(of_it)
        for name in ("rounds_trained", "rounds_accepted", "audits_voted", "flops", "convictions"):
            assert row[name] == sum(done[name] for done in of_it.values())
        for name in TOTALS:
            amount = show_wei(sum(done[name] for done in of_it.values()))
            assert row[name.removesuffix("_wei")] == amount
        single = (await get(browser, f"/api/accounts?account={row['account']}"))["accounts"]
        assert {one["task"]: one["rounds_trained"] for one in single} == {
            task: done["rounds_trained"] for task, done in of_it.items()
        }
    assert (await get(browser, "/api/accounts?account=nobody")) == {"total": 0, "accounts": []}


TRAINING = {"segment_steps": 3, "tokens_per_step": 64, "parameters": 1_000}


async def test_work_is_added_up_by_the_figures_of_the_ledger(pages: Pages, players: list[Player]) -> None:
    """The tasks that are played here have no description, so one is made up."""
    view, task = pages[0].view, players[0].twin.task
    game, block, totals = view.state.games[task], view.next_block, Totals()
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for number, game_round in game.rounds.items():
        add_round(totals, game, game_round, block, TRAINING)
        for found in list_work(task, number, make_round(game, game_round, block, view.names), TRAINING):
            row = dict(zip(WORK_COLUMNS, found, strict=True))
            rows[row["account"]].update({name: row[name] for name in ("steps", "tokens", "flops")})
    assert rows and all(done["flops"] == 6 * 1_000 * done["tokens"] > 0 for done in rows.values())
    assert {who: {name: done[name] for name in rows[who]} for who, done in totals.items()} == rows


async def test_sums_stay_when_the_contracts_forget_rounds_and_a_fee_is_lost(
    pages: Pages, players: list[Player]
) -> None:
    """And votes are counted once, whoever has the seat's number later. (What rounds that are forgotten too
    early had earned is not known any more: the contracts forget none that is not settled.)"""
    explorer, browser = pages
    view, before = explorer.view, await read_accounts(browser)
    seated = [(task, seat) for task, game in view.state.games.items() for seat in game.seats.values()]
    task, seat = next(one for one in seated if one[1].status != SeatStatus.CONVICTED)
    place = (view.next_block, 0, bytes(32), bytes(32))
    money = {"paid_wei": 0, "burned_wei": 0, "fee_wei": 7}
    settled = {"task": task, "seat": seat.number, "until_round": 0} | money
    freed = {"task": task, "epoch": 0}
    events = [Event("Seats", "SeatSettled", settled, *place)]
    events.append(Event("Rounds", "EpochFreed", freed, view.next_block, 1, bytes(32), bytes(32)))
    await view.take(make_batch(events, view.next_block))
    assert not view.state.games[task].rounds
    after = await read_accounts(browser)
    mine = (seat.account, f"0x{task.hex()}")
    changed = before.setdefault(mine, dict.fromkeys(DONE, 0))
    changed["lost_wei"], changed["locked_wei"] = changed["lost_wei"] + 7, changed["locked_wei"] - 7
    assert {at: strip(done, "earned_wei") for at, done in after.items()} == {
        at: strip(done, "earned_wei") for at, done in before.items()
    }


async def test_only_a_task_that_has_changed_is_added_up_again(
    pages: Pages, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    added, view = list[bytes](), pages[0].view
    add_task = view._add_task

    def note(task: bytes) -> Any:
        added.append(task)
        return add_task(task)

    monkeypatch.setattr(view, "_add_task", note)
    first = await read_accounts(pages[1])
    seen = len(added)
    assert seen >= len(players) and await read_accounts(pages[1]) == first and len(added) == seen
    task = players[1].twin.task
    values = {"task": task, "epoch": 0}
    event = Event("Rounds", "EpochFreed", values, view.next_block, 0, bytes(32), bytes(32))
    await view.take(make_batch([event], view.next_block))
    assert await read_accounts(pages[1]) == first and added[seen:] == [task]


async def test_a_task_whose_rounds_cannot_be_added_up_hides_no_other(
    pages: Pages, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = players[0].twin.task

    def add_or_fail(totals: Totals, game: LoggedGame, *rest: Any) -> None:
        if game is pages[0].view.state.games[broken]:
            raise LookupError("a round that this program does not understand")
        add_round(totals, game, *rest)

    monkeypatch.setattr(chain_view, "add_round", add_or_fail)
    told = await read_accounts(pages[1])
    other = f"0x{players[1].twin.task.hex()}"
    assert any(task == other and done["rounds_trained"] for (_, task), done in told.items())
