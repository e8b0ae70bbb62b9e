"""The pages over real HTTP: they say what was played, are bounded, and take nothing."""

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec import structs
from yarl import URL

from tests.explorer.plays import make_batch, make_deployment, open_reader, play_task
from tests.rounds.chain import RoundChain, open_round_chain
from tests.rounds.player import Player
from touchstone.explorer import page_answers, page_server
from touchstone.explorer.names import Names, show_wei
from touchstone.explorer.report_documents import LOSS, Reported
from touchstone.explorer.running_explorer import Explorer, open_explorer
from touchstone.explorer.task_documents import make_row
from touchstone.explorer.work_documents import WORK_COLUMNS
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.connection import GRACE_S
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.money_reasons import MoneyKind
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL

MANY = 1 << 70


@asynccontextmanager
async def open_pages(chain: RoundChain, path: Path, names: Names | None = None) -> AsyncIterator[Explorer]:
    """An explorer that has read the whole chain."""
    async with (
        open_reader(chain) as reader,
        open_explorer(reader, path / "index.sqlite", names or Names({})) as explorer,
    ):
        while explorer.view.head is None or explorer.view.head.number < chain.get_block():
            await asyncio.sleep(0.02)
            if explorer.following.done():
                explorer.following.result()
        yield explorer


@asynccontextmanager
async def open_others(chain: RoundChain, path: Path) -> AsyncIterator[str]:
    """The same of a deployment file that names another contract as `evidence`."""
    deployment = structs.replace(make_deployment(chain), evidence=chain.addresses["Queries"])
    async with (
        open_game_chain(chain.url, deployment, poll_s=0.02) as reader,
        open_explorer(reader, path / "others.sqlite", Names({})) as explorer,
    ):
        await explorer.view.wait_for_change(0)
        yield explorer.url


@pytest.fixture
async def pages(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> AsyncIterator[tuple[Explorer, aiohttp.ClientSession]]:
    """The explorer and a browser."""
    async with open_pages(chain, tmp_path) as explorer, aiohttp.ClientSession(explorer.url) as browser:
        yield explorer, browser


Pages = tuple[Explorer, aiohttp.ClientSession]


async def get(browser: aiohttp.ClientSession, path: str) -> Any:
    async with browser.get(path) as response:
        assert response.status == 200, (path, await response.text())
        return await response.json()


async def test_tasks_seats_and_rounds_are_those_that_were_played(pages: Pages, players: list[Player]) -> None:
    _, browser = pages
    found = await get(browser, "/api/tasks")
    assert {one["task"] for one in found["tasks"]} >= {f"0x{one.twin.task.hex()}" for one in players}
    for player in players:
        state, path = player.twin.state, f"/api/tasks/0x{player.twin.task.hex()}"
        task = await get(browser, path)
        seats = {one["seat"]: one for one in task["seated"]}
        assert set(seats) >= set(state.seats)
        assert all(seats[number]["account"] == seat.account for number, seat in state.seats.items())
        assert task["rounds_opened"] == state.next_round and not task["training"].get("family")
        rows = (await get(browser, f"{path}/rounds"))["rounds"]
        assert [one["round"] for one in rows] == list(range(state.next_round - 1, -1, -1))
        for number, game_round in state.rounds.items():
            shown = await get(browser, f"{path}/rounds/{number}")
            claims = {one["slot"]: one["claim"] for one in shown["slots"] if one["claim"]}
            assert claims == {slot: f"0x{one.claim_root.hex()}" for slot, one in game_round.claims.items()}
            votes = [
                (one["slot"], draw["draw"], rank)
                for one in shown["slots"]
                for draw in one.get("draws", ())
                for rank, said in enumerate(draw["ranks"])
                if said["word"]
            ]
            counted = [(*place, rank) for place, ranks in game_round.votes.items() for rank in ranks]
            assert sorted(votes) == sorted(counted)


async def test_the_status_says_whether_the_contracts_are_those_of_this_version(
    pages: Pages, chain: RoundChain, tmp_path: Path
) -> None:
    explorer, browser = pages
    status = await get(browser, "/api/status")
    assert status["other_contracts"] == {} and status["token"] == chain.addresses["token"]
    async with open_others(chain, tmp_path) as url, aiohttp.ClientSession(url) as visitor:
        told = (await get(visitor, "/api/status"))["other_contracts"]
    # Game was created with the address of another contract as this part.
    assert "in the place of" in told["Evidence"] and "created by other code" in told["Game"]
    assert "Vault" not in told


async def test_a_stake_is_locked_and_not_lost_and_pay_is_earned_before_it_is_settled(
    pages: Pages, players: list[Player]
) -> None:
    _, browser = pages
    shown = set[str]()
    for player in players:
        task = await get(browser, f"/api/tasks/0x{player.twin.task.hex()}")
        found = player.twin.logged.compute_money()
        rows = {row["account"]: row for row in task["money"]["accounts"]}
        assert set(rows) == set(found) and task["money"]["columns"][0] == "locked"
        for account, money in found.items():
            row = rows[account]
            assert row["locked"] == show_wei(money.locked) and row["earned"] == show_wei(money.earned)
            assert row["lost"] == show_wei(money.sum_settled(MoneyKind.LOST))
            assert row["change"] == show_wei(money.change)
            why = [one for one in task["money"]["why"] if one["account"] == account]
            assert len(why) == len(money.sums) + len(money.sum_unsettled())
            shown |= {one["reason"] for one in why}
        seats = {one["seat"]: one for one in task["seated"]}
        for number, seat in player.twin.state.seats.items():
            assert seats[number]["earned"] == show_wei(found[seat.account].earned)
    assert {"accepted claim", "audit", "paid members"} <= shown


async def test_a_dispute_is_shown_move_by_move(pages: Pages, players: list[Player]) -> None:
    explorer, browser = pages
    shown = 0
    for player in players:
        path = f"/api/tasks/0x{player.twin.task.hex()}/disputes"
        for row in (await get(browser, path))["disputes"]:
            board = await get(browser, f"{path}/{row['dispute']}")
            assert board["moves"][0]["name"] == "DisputeOpened" and "disputes" in board["moves"][0]["line"]
            is_over = board["stage"] in ("CLEARED", "CONVICTED", "MOOT")
            assert is_over == (board["turn"] is None) == (board["moves"][-1]["name"] == "DisputeEnded")
            assert board["is_convicted"] == (DisputeStage[board["stage"]] == DisputeStage.CONVICTED)
            shown += 1
    assert shown, "these plays dispute nothing"


async def test_the_number_that_decided_a_dispute_stands_on_its_board(
    pages: Pages, players: list[Player], chain: RoundChain
) -> None:
    """The index has it by the transaction that ended the dispute."""
    explorer, browser = pages
    task, dispute = next(
        (player.twin.task, one)
        for player in players
        for one in explorer.view.state.inner[player.twin.task].disputes.values()
        if not one.is_open
    )
    ended = explorer.view.index.list_of_subject(dispute.name)[-1]
    path = f"/api/tasks/0x{task.hex()}/disputes/0x{dispute.name.hex()}"
    assert (await get(browser, path))["number"] is None
    explorer.view.index.put_number(ended.transaction_hash, {"node": 375})
    assert (await get(browser, path))["number"] == {"node": 375}


async def test_the_ledger_has_a_row_for_each_claim(pages: Pages, players: list[Player]) -> None:
    _, browser = pages
    for player in players:
        path = f"/api/tasks/0x{player.twin.task.hex()}/work.csv"
        async with browser.get(path) as response:
            assert (
                response.content_type == "text/csv"
                and "attachment" in response.headers["Content-Disposition"]
            )
            rows = list(csv.DictReader(io.StringIO(await response.text())))
        assert rows and tuple(rows[0]) == WORK_COLUMNS
        told = {(int(one["round"]), int(one["slot"])): one["account"] for one in rows}
        rounds = player.twin.state.rounds.values()
        played = {(one.index, slot): claim.account for one in rounds for slot, claim in one.claims.items()}
        assert {place: told[place] for place in played} == played


async def test_rounds_that_the_contracts_forget_are_shown_as_they_were(
    pages: Pages, players: list[Player]
) -> None:
    """A freed epoch leaves the fold; its rounds stay in the list, by themselves and in the ledger."""
    (explorer, browser), task = pages, players[0].twin.task
    path, view = f"/api/tasks/0x{task.hex()}", explorer.view
    numbers = sorted(view.state.games[task].rounds)
    before = [await get(browser, f"{path}/rounds/{number}") for number in numbers]
    listed = await get(browser, f"{path}/rounds")
    freed = Event(
        "Rounds", "EpochFreed", {"task": task, "epoch": 0}, view.next_block, 0, bytes(32), bytes(32)
    )  # fmt: skip
    await view.take(make_batch([freed], view.next_block))
    assert numbers and not view.state.games[task].rounds
    assert [await get(browser, f"{path}/rounds/{number}") for number in numbers] == before
    shown = await get(browser, f"{path}/rounds")
    assert [one["claims"] for one in shown["rounds"]] == [one["claims"] for one in listed["rounds"]]
    async with browser.get(f"{path}/work.csv") as response:
        rows = list(csv.DictReader(io.StringIO(await response.text())))
    assert len(rows) == sum(one["claims"] for one in listed["rounds"])


async def test_reported_losses_stand_in_the_rounds_also_when_the_contracts_forget_them(
    pages: Pages, players: list[Player]
) -> None:
    (explorer, browser), task = pages, players[1].twin.task
    path, view = f"/api/tasks/0x{task.hex()}", explorer.view
    game = view.state.games[task]
    number = next(number for number, one in game.rounds.items() if one.claims and one.beacon)
    slot, claim = next(iter(game.rounds[number].claims.items()))
    said = {"steps": 8, "first": 5.5, "last": 3.0, "mean": 4.1}
    one = Reported(slot, LOSS, 0, claim.claim_root, claim.account, said)
    assert (await get(browser, f"{path}/rounds/{number}"))["losses"] is None
    await view.take_report(task, number, one, bytes(64))

    async def require_shown() -> None:
        row = next(r for r in (await get(browser, f"{path}/rounds"))["rounds"] if r["round"] == number)
        shown = await get(browser, f"{path}/rounds/{number}")
        assert row["losses"] == shown["losses"] and row["losses"]["mean"] == 4.1
        assert [one.get("loss") for one in shown["slots"] if one["slot"] == slot] == [said]
        shard = next(one["shard"] for one in shown["slots"] if one["slot"] == slot)
        assert shown["losses"]["by_shard"][shard] == 4.1

    await require_shown()
    freed = Event(
        "Rounds", "EpochFreed", {"task": task, "epoch": 0}, view.next_block, 0, bytes(32), bytes(32)
    )  # fmt: skip
    await view.take(make_batch([freed], view.next_block))
    assert number not in view.state.games[task].rounds
    await require_shown()


async def test_lines_come_in_pages_newest_first(pages: Pages, players: list[Player]) -> None:
    _, browser = pages
    path, seen = f"/api/tasks/0x{players[0].twin.task.hex()}/lines", list[tuple[int, int]]()
    before = ""
    while found := (await get(browser, f"{path}?limit=7{before}"))["lines"]:
        assert len(found) <= 7
        seen += [(one["block"], one["log"]) for one in found]
        before = f"&block={found[-1]['block']}&log={found[-1]['log']}"
    assert len(seen) > 20 and seen == sorted(set(seen), reverse=True)


@pytest.mark.parametrize("path", ["/api/tasks", "/api/tasks/TASK/rounds", "/api/tasks/TASK/lines"])
async def test_no_address_asks_for_more_than_a_bounded_page(
    pages: Pages, players: list[Player], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(page_answers, "PAGE_MAX", 2)
    path = path.replace("TASK", f"0x{players[0].twin.task.hex()}")
    found = await get(pages[1], f"{path}?limit={MANY}&limit=999999999")
    assert len(found[path.rpartition("/")[2]]) <= 2
    assert len((await get(pages[1], f"{path}?limit=999999999"))[path.rpartition("/")[2]]) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/api/tasks/0x12", "/api/tasks/0x" + "0" * 64, "/api/tasks/%2e%2e/x", "/static/../page_server.py",
        "/static/..%2fpage_server.py", "/static/%2e%2e%2f%2e%2e%2fpyproject.toml", "/nothing",
    ],
)  # fmt: skip
async def test_what_is_not_there_is_not_found(pages: Pages, path: str) -> None:
    async with pages[1].get(page_server_url(pages, path)) as response:
        assert response.status == 404
        assert "script-src 'self'" in response.headers["Content-Security-Policy"]


def page_server_url(pages: Pages, path: str) -> URL:
    """As it is written: the client would tidy it."""
    return URL(pages[0].url.rstrip("/") + path, encoded=True)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_nothing_is_taken(pages: Pages, method: str) -> None:
    for path in ("/", "/api/tasks", "/api/live"):
        async with pages[1].request(method, path) as response:
            assert response.status == 405


async def test_every_answer_lets_the_browser_run_own_files_only(pages: Pages, players: list[Player]) -> None:
    task = f"/api/tasks/0x{players[0].twin.task.hex()}"
    for path in ("/", "/static/app.js", "/api/status", task, f"{task}/work.csv", "/api/live"):
        async with pages[1].get(path) as response:
            policy = response.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_page_has_no_script_or_style_of_its_own(pages: Pages) -> None:
    """The policy would refuse them, and the page would be blank."""
    async with pages[1].get("/") as response:
        text = await response.text()
    assert (
        "<script>" not in text
        and "<style" not in text
        and "style=" not in text
        and " on" + "click" not in text
    )


async def test_every_file_that_a_file_of_the_page_names_is_served(pages: Pages) -> None:
    """A module that is missing leaves the page at its first word."""
    missing, left, seen = list[str](), ["/"], set[str]()
    while left:
        path = left.pop()
        seen.add(path)
        async with pages[1].get(path) as response:
            text = await response.text() if response.status == 200 else ""
            missing += [] if response.status == 200 else [path]
        left += set(re.findall(r"/static/[\w.]+", text)) - seen - set(left)
    assert not missing and {"/static/app.js", "/static/uPlot.iife.min.js", "/static/style.css"} <= seen


async def test_no_module_builds_a_page_from_text(pages: Pages) -> None:
    """What comes from the chain goes in as text: none of these would do that."""
    own = [path for path in page_server.STATIC.glob("*.js") if not path.name.startswith("uPlot")]
    assert own
    for path in own:
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
            assert word not in path.read_text(), (path.name, word)


async def test_changes_are_told_as_they_come(own_chain: RoundChain, tmp_path: Path) -> None:
    player = play_task(own_chain, 11, steps=5)
    async with (
        open_pages(own_chain, tmp_path) as explorer,
        aiohttp.ClientSession(explorer.url) as browser,
        browser.get("/api/live") as stream,
    ):
        assert (await stream.content.readuntil(b"\n\n")).startswith(b":")
        player.play(10)
        told = set[str]()
        while f"0x{player.twin.task.hex()}" not in told:
            message = await stream.content.readuntil(b"\n\n")
            if message.startswith(b"data: "):
                told |= set(json.loads(message[len(b"data: ") :])["tasks"])


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[tuple[RoundChain, ExitStack]]:
    """A chain that a test may end."""
    with ExitStack() as chains:
        yield chains.enter_context(open_round_chain(tmp_path / "chain", BOUNDS_LOCAL)), chains


async def test_a_chain_that_ends_is_told_long_before_a_node_gives_up(
    mortal: tuple[RoundChain, ExitStack], tmp_path: Path
) -> None:
    """A node waits for minutes; a visitor wants to know at once."""
    chain, chains = mortal
    async with open_pages(chain, tmp_path) as explorer, aiohttp.ClientSession(explorer.url) as browser:
        assert (await get(browser, "/api/status"))["fault"] == ""
        async with browser.get("/api/live") as stream, asyncio.timeout(GRACE_S / 2):
            await asyncio.to_thread(chains.close)
            told = ""
            while not told:
                message = await stream.content.readuntil(b"\n\n")
                if message.startswith(b"data: "):
                    told = json.loads(message[len(b"data: ") :])["fault"]
        assert "127.0.0.1" not in told
        assert (await get(browser, "/api/status"))["fault"] == told


async def test_too_many_streams_are_refused(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "LIVE_MAX", 1)
    async with pages[1].get("/api/live") as first:
        assert first.status == 200
        async with pages[1].get("/api/live") as second:
            assert second.status == 503


async def test_streams_that_open_together_are_counted(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the answer to one of them has not begun."""
    monkeypatch.setattr(page_server, "LIVE_MAX", 1)
    begun, waiting, prepare = asyncio.Event(), [0], web.StreamResponse.prepare

    async def wait(response: web.StreamResponse, request: web.BaseRequest) -> object:
        if response.status == 200:
            waiting[0] += 1
            await begun.wait()
        return await prepare(response, request)

    async def ask() -> int:
        async with pages[1].get("/api/live") as response:
            return response.status

    monkeypatch.setattr(web.StreamResponse, "prepare", wait)
    streams = [asyncio.create_task(ask()) for _ in range(3)]
    while waiting[0] + sum(one.done() for one in streams) < len(streams):
        await asyncio.sleep(0.01)
    begun.set()
    assert sorted(await asyncio.gather(*streams)) == [200, 503, 503]


async def test_a_task_that_cannot_be_shown_hides_no_other(
    pages: Pages, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any stranger may post a task."""
    broken = players[0].twin.task

    def make_or_fail(task: bytes, *rest: Any) -> dict[str, Any]:
        if task == broken:
            raise LookupError("terms that this program does not understand")
        return make_row(task, *rest)

    monkeypatch.setattr(page_server, "make_row", make_or_fail)
    found = {one["task"]: one for one in (await get(pages[1], "/api/tasks"))["tasks"]}
    assert "terms that" in found[f"0x{broken.hex()}"]["refused"]
    assert found[f"0x{players[1].twin.task.hex()}"]["phase"]


async def test_a_long_ledger_leaves_room_for_others(
    pages: Pages, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two rounds of it the server does other work."""
    turns, seen, view = [0], list[int](), pages[0].view
    make_round = view.make_round

    def note(task: bytes, number: int) -> dict[str, Any] | None:
        seen.append(turns[0])
        return make_round(task, number)

    async def work() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(view, "make_round", note)
    working = asyncio.create_task(work())
    async with pages[1].get(f"/api/tasks/0x{players[0].twin.task.hex()}/work.csv") as response:
        await response.read()
    working.cancel()
    assert len(seen) > 1 and len(set(seen)) == len(seen)


async def test_a_taken_port_is_named(pages: Pages, chain: RoundChain, tmp_path: Path) -> None:
    port = int(pages[0].url.rstrip("/").rpartition(":")[2])
    async with open_reader(chain) as reader:
        with pytest.raises(EnvironmentFault, match=str(port)):
            async with open_explorer(reader, tmp_path / "other.sqlite", Names({}), port=port):
                pass


async def test_names_that_this_machine_knows_are_shown_as_text(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    """Whatever a name holds, it comes as JSON text: no page is built from it here."""
    account, name = players[0].twin.parties["submitter"].address.lower(), "<script>alert(1)</script>"
    async with (
        open_pages(chain, tmp_path, Names({account: name})) as explorer,
        aiohttp.ClientSession(explorer.url) as browser,
    ):
        task = await get(browser, f"/api/tasks/0x{players[0].twin.task.hex()}")
        assert task["submitter"] == {"account": account, "name": name}
