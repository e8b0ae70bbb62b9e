"""A whole run of the demo, as small as it gets: a process for each party, two honest solvers and a cheat."""

import asyncio
import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console

from tests.explorer.browsing import CHROMIUM, browse_run
from touchstone.demo.choices import Choices
from touchstone.demo.run import demonstrate
from touchstone.demo.screen import Screen
from touchstone.demo.settings import make_setting
from touchstone.demo.stage import Folders

CHOICES = Choices(is_quick=True, rounds=1, whistleblowers=0, has_explorer=True)
DEADLINE_S = 3_600.0
OPENS = re.compile(r"explorer at (http://\S+/)")
STAYS = re.compile(r"the explorer stays at (http://\S+/);")


async def test_the_cheat_falls_by_one_number_and_everybody_else_is_paid(tmp_path: Path) -> None:
    setting = replace(make_setting(CHOICES), folders=Folders(tmp_path / "demo"))
    shown = StringIO()
    screen = Screen(Console(file=shown, width=200), is_verbose=False)
    running = asyncio.create_task(demonstrate(setting, screen))
    browsing, is_over = None, asyncio.Event()
    async with asyncio.timeout(DEADLINE_S):
        while not running.done() and not STAYS.search(shown.getvalue()):
            await asyncio.sleep(0.1)
            opened = OPENS.search(shown.getvalue())
            if opened and browsing is None and CHROMIUM.exists():
                browsing = asyncio.create_task(browse_run(opened[1], is_over))
    print(shown.getvalue())
    url = STAYS.search(shown.getvalue())
    pages = await walk_to_number(url[1]) if url else {}
    reported = await read_reports(url[1]) if url else {}
    is_over.set()
    if browsing is not None:
        await browsing
    running.cancel()
    assert await running, "it is told to end, and ends with its verdict"
    _check_log(setting.folders.log.read_text())
    _check_scenes(shown.getvalue())
    report = json.loads(setting.folders.report.read_text())
    number = report["convicted_numbers"]["cheat"]
    assert number["operation"] == "SUBTRACT" and number["is_fault"] and len(number["operands"][0]) == 2
    assert pages["number"] == number, "the explorer shows what the report has"
    assert pages["claimant"] == "cheat" and pages["is_convicted"]
    moves = [move["name"] for move in pages["moves"]]
    assert moves == ["DisputeOpened", "StepRootsPosted", "StepNamed", "TracePosted", "DisputeEnded"]
    _check_reports(reported)
    page = setting.folders.page.read_text()
    assert " and ".join(number["operands"][0]) in page and "cheat IS CONVICTED by verifier-" in page
    utilisation = report["utilisation"]
    assert 0 < utilisation["all"] < 1 and utilisation["solvers"].keys() == {"solver-1", "solver-2"}
    assert report["gas"]["per_solver_round"] > 0 and report["gas"]["claims"] == 3


async def walk_to_number(url: str) -> dict[str, Any]:
    """From the list of tasks over the conviction to its dispute, as a person clicks."""

    async def get(path: str) -> Any:
        async with browser.get(f"/api/tasks{path}") as response:
            return await response.json()

    async with aiohttp.ClientSession(url) as browser:
        (row,) = (await get(""))["tasks"]
        assert row["phase"] == "closed" and row["convictions"] == 1
        (conviction,) = (await get(f"/{row['task']}"))["convicted"]
        assert conviction["name"] == "cheat" and conviction["number"]["is_fault"]
        board: dict[str, Any] = await get(f"/{row['task']}/disputes/{conviction['dispute']}")
        return board


async def read_reports(url: str) -> dict[str, Any]:
    """The only round, with what nodes have reported of it while they ran."""
    async with aiohttp.ClientSession(url) as browser:
        async with browser.get("/api/tasks") as response:
            (row,) = (await response.json())["tasks"]
        async with browser.get(f"/api/tasks/{row['task']}/rounds/0") as response:
            found: dict[str, Any] = await response.json()
    return found


def _check_reports(shown: dict[str, Any]) -> None:
    """Each solver has reported its loss, the cheat too, whose claim does not count. Each auditor whose vote
    counts has reported its distances: the cheat's lie beyond the limits, all others inside."""
    losses = {one["name"]: one["loss"] for one in shown["slots"]}
    assert set(losses) == {"solver-1", "solver-2", "cheat"} and all(losses.values()), losses
    assert all(0 < loss["mean"] < 10 and loss["steps"] == 8 for loss in losses.values())
    assert shown["losses"]["claims"] == 2 and None not in shown["losses"]["by_shard"]
    assert shown["losses"]["void"] == [one["shard"] for one in shown["slots"] if one["name"] == "cheat"]
    for one in shown["slots"]:
        compared = [
            rank["reported"] for draw in one["draws"] for rank in draw["ranks"] if rank["word"] is not None
        ]
        assert compared and all(compared), one["name"]
        for said in compared:
            farthest = max(said["weights"], said["first_moment"], said["second_moment"])
            assert (said["ends"] == "MEASURED" and farthest > 1.0) == (one["name"] == "cheat"), said
            assert said["word"] == ("REJECT_STATE" if one["name"] == "cheat" else "ACCEPT")


def _check_log(text: str) -> None:
    """What happened was told, in this order."""
    story = [
        r"submitter posts the task",
        r"solver-\d takes a seat and stakes 2,000 tokens",
        r"solver-\d +round 0: trained 8 of 8 steps",
        r"cheat commits to its training of round 0",
        r"randomness draws the audits of round 0: .*of cheat",
        r"cheat's claim of round 0, segment \d: replayed it, REJECT_STATE",
        r"verifier-\d disputes cheat's claim of round 0",
        r"cheat answers: the states after each of 2 steps",
        r"verifier-\d names step",
        r"cheat answers: the root over every number of that step",
        r"cheat IS CONVICTED by verifier-\d \(DISPUTED\): its stake of 2,000 tokens is gone",
        r"operands: .* - ",
        r"bound: .*outside: a fault",
        r"verifier-\d gets 150 tokens of the slashed stake",
        r"the task is closed",
        r"All of it holds",
    ]
    find_in_order(text, story)


def _check_scenes(text: str) -> None:
    """Five scenes tell it in a page, with the figures of this run."""
    story = [
        r"^1  Three strangers train; we tell one of them to cheat\.",
        r"cheat errs on purpose: the last subtraction of each step",
        r"^2  Each hands in one hash; nothing can be changed now\.",
        r"[0-9a-f]{16}\.\.\. over 4 segments of 2 steps",
        r"^3  A later block's randomness picks what is checked; verifier-\d repeats two steps, blind, and",
        r"block \d+ draws steps \d to \d of cheat, for verifier-\d to repeat",
        r"cheat: left out",
        r"^4  cheat must show its work\.",
        r"move 3: cheat posts one hash",
        r"after three moves one subtraction is left: \S+ - \S+",
        r"cheat wrote \S+ where \S+ is right: the contract computes \S+\. Guilty\.",
        r"^5  The model is better without it: 5\.\d\d -> \d\.\d\d; who got what\.",
        r"with the false claim, round 0 would have ended at \d+\.\d\d, not \d\.\d\d",
        r"cheat -2,000",
        r"ok +cheat was convicted",
        r"All of it holds",
    ]
    find_in_order(text, story)
    assert len(text.splitlines()) <= 60


def find_in_order(text: str, patterns: list[str]) -> None:
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.MULTILINE).search(text, at)
        assert found, f"not told: {pattern}"
        at = found.end()
