"""Times the explorer's pages with 1,000 rounds of 64 solvers, and checks whether its memory stays flat.

    made-up events --> index --> an explorer, a process of its own <-- pages in Debian's chromium
                                  ^ blocks to come, one after the other, for ten minutes

A click is over when the view has its last table and the browser has painted it. Each click is timed REPEATS
times when all events are folded, and once a minute while blocks come, beside an open page that shows each
change. The first view is also timed while the stored events are still being folded. Memory is that of the
explorer's process.
"""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from playwright.async_api import Browser, Page

from lab.benchmarks.reports import write_report
from tests.explorer.browsing import WIDE, Flaws, open_browser, open_page
from tests.explorer.many_accounts_files import PLACE, make_files

SOLVERS, ROUNDS = 64, 1_000
LIVE_MINUTES, PACE_S = 10.0, 0.5
"""Minutes with new blocks, and the seconds between them, as on the test network while nodes work."""
BLOCKS_A_ROUND = 6
"""Blocks of a round that have events."""
REPEATS = 5
BAR_S = 1.0
FLAT = 0.05
"""The share by which memory may be larger in the last tenth of the live time than in the second."""
LOOK_S = 1.0
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


@dataclass
class Reading:
    """The measurements. `seconds` are by view, in the order of the measurements; `memory` is (seconds, MB) of
    the process."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    memory: list[tuple[float, float]] = field(default_factory=list)

    async def take(self, view: str, page: Page, act: Callable[[], Awaitable[Any]], shown: str) -> None:
        """Measures the time from `act` until `shown` is painted."""
        begun_s = perf_counter()
        await act()
        await page.wait_for_selector(shown)
        await page.evaluate(PAINTED)
        self.seconds.setdefault(view, []).append(perf_counter() - begun_s)


@dataclass(frozen=True)
class Server:
    """The explorer's process and its address."""

    process: asyncio.subprocess.Process
    url: str

    def read_memory_mb(self) -> float:
        """Returns the resident memory of the process, in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return int(found[1]) / 1e3 if found else 0.0

    async def wait_for_fold(self) -> None:
        """Waits until all stored events are folded."""
        assert self.process.stdout is not None
        await self.process.stdout.readline()


@asynccontextmanager
async def open_server(index: Path, live: Path, pace_s: float) -> AsyncIterator[Server]:
    """Runs an explorer on these events."""
    command = ("-m", "tests.explorer.many_accounts", str(index), str(live), str(pace_s))
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Server(process, (await process.stdout.readline()).decode().strip())
    finally:
        process.terminate()
        await process.wait()


# Views
async def go(page: Page, place: str) -> None:
    """Goes to a view by its address, as a link in the page does."""
    await page.evaluate("(place) => { location.hash = place; }", place)


async def open_empty(browser: Browser, flaws: Flaws) -> Page:
    """Opens a window that shows nothing yet, without a cache."""
    context = await browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    page = await context.new_page()
    flaws.watch(page)
    return page


async def turn_page(page: Page) -> None:
    """Turns to the earlier lines, and waits until they are shown."""
    first = await page.inner_text("ol.lines li")
    await page.click("a:has-text('earlier')")
    is_turned = "(first) => document.querySelector('ol.lines li')?.innerText !== first"
    await page.wait_for_function(is_turned, arg=first)


async def click_through(reading: Reading, browser: Browser, url: str, flaws: Flaws, prefix: str = "") -> None:
    """Opens each view once, in a new window."""
    page = await open_empty(browser, flaws)
    take = partial(reading.take, page=page)
    await take(f"{prefix}first view", act=partial(page.goto, url), shown="tbody a")
    task = "h2:has-text('What happened')"
    await take(f"{prefix}task", act=partial(page.click, "tbody a"), shown=task)
    newest = page.locator("a:has-text('round ')").nth(1)
    await take(f"{prefix}newest round", act=newest.click, shown="h2:has-text('Audits')")
    await take(f"{prefix}back to the task", act=partial(page.keyboard.press, "u"), shown=task)
    dispute = page.locator(
        "caption:has-text('Disputes') ~ tbody a, table:has-text('opened by') tbody a"
    ).first
    await take(f"{prefix}dispute", act=dispute.click, shown="h2:has-text('Move by move')")
    await go(page, PLACE)
    await page.wait_for_selector("text=older rounds")
    older = partial(page.click, "text=older rounds")
    await take(f"{prefix}older rounds", act=older, shown="h1:has-text('before round')")
    await take(
        f"{prefix}old round", act=partial(go, page, f"{PLACE}/round/7"), shown="h1:has-text('Round 7')"
    )
    await take(f"{prefix}lines", act=partial(go, page, f"{PLACE}/lines"), shown="ol.lines li")
    await take(f"{prefix}earlier lines", act=partial(turn_page, page), shown="ol.lines li")
    await page.context.close()


async def watch_live(
    reading: Reading, server: Server, browser: Browser, minutes: float, flaws: Flaws
) -> None:
    """Measures memory each second and all views each minute, beside a page that shows each change."""
    open_one = await open_page(browser, f"{server.url}{PLACE}", "wide-light", flaws)
    begun_s, looked = perf_counter(), 0
    while (past_s := perf_counter() - begun_s) < 60 * minutes:
        reading.memory.append((past_s, server.read_memory_mb()))
        if past_s >= 60 * looked:
            looked += 1
            await click_through(reading, browser, server.url, flaws, prefix="live: ")
        await asyncio.sleep(LOOK_S)
    await open_one.context.close()


async def measure(folder: Path, minutes: float, pace_s: float) -> Reading:
    """Takes all measurements of an explorer on the files of a folder."""
    reading, flaws = Reading(), Flaws()
    async with (
        open_browser() as browser,
        open_server(folder / "stored.sqlite", folder / "live.sqlite", pace_s) as server,
    ):
        begun_s, page = perf_counter(), await open_empty(browser, flaws)
        await reading.take("while it folds: first view", page, partial(page.goto, server.url), "main h1")
        await page.context.close()
        await server.wait_for_fold()
        reading.seconds["start: all is folded"] = [perf_counter() - begun_s]
        for _ in range(REPEATS):
            await click_through(reading, browser, server.url, flaws)
        await watch_live(reading, server, browser, minutes, flaws)
    flaws.require_none()
    return reading


# Judging
def compare_memory(memory: list[tuple[float, float]]) -> tuple[float, float]:
    """Returns the mean MB of the second tenth of the measurements, and of the last."""
    tenth = max(1, len(memory) // 10)
    parts = memory[tenth : 2 * tenth] or memory[:tenth], memory[-tenth:]
    early, late = (sum(mb for _, mb in part) / len(part) for part in parts)
    return early, late


def list_shortfalls(report: dict[str, Any]) -> list[str]:
    """Returns what misses its limit."""
    slow = [
        f"{view}: {one['most_s']:.2f} s"
        for view, one in report["views"].items()
        if one["most_s"] >= BAR_S and not view.startswith("start")
    ]
    early, late = report["memory_mb"]["second_tenth"], report["memory_mb"]["last_tenth"]
    grown = [f"memory: {early:.0f} MB, then {late:.0f}"] if late > (1 + FLAT) * early else []
    return slow + grown


def make_report(reading: Reading, counts: dict[str, int], rounds: int, solvers: int) -> dict[str, Any]:
    """Returns the report."""
    early, late = compare_memory(reading.memory)
    report: dict[str, Any] = {
        "rounds": rounds,
        "solvers": solvers,
        "events": counts,
        "load": os.getloadavg()[1],
        "views": {
            view: {"median_s": median(taken), "most_s": max(taken), "times": len(taken)}
            for view, taken in reading.seconds.items()
        },
        "memory_mb": {
            "second_tenth": early,
            "last_tenth": late,
            "most": max(mb for _, mb in reading.memory),
            "minutes": reading.memory[-1][0] / 60,
            "readings": [round(mb, 1) for _, mb in islice(reading.memory, 0, None, 10)],
        },
    }
    return report | {"shortfalls": list_shortfalls(report)}


def print_report(report: dict[str, Any]) -> None:
    """Prints a table, and what misses its limit."""
    for view, one in report["views"].items():
        print(f"{view:<32}{one['median_s']:>8.3f} s, at most {one['most_s']:.3f} s of {one['times']}")
    memory = report["memory_mb"]
    early, late = (f"{memory[name]:.0f} MB" for name in ("second_tenth", "last_tenth"))
    print(f"memory: {early}, after {memory['minutes']:.1f} min {late}")
    print(f"load of the machine over five minutes: {report['load']:.1f}, cores: {os.cpu_count()}")
    print("falls short: " + ("; ".join(report["shortfalls"]) or "nothing"))


def main() -> None:
    """Makes the events, times the pages, and writes build/explorer/report.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--minutes", type=float, default=LIVE_MINUTES)
    parser.add_argument("--short", action="store_true", help="110 rounds and one minute")
    options = parser.parse_args()
    rounds, minutes = (110, 1.0) if options.short else (options.rounds, options.minutes)
    live_rounds = 2 + int(60 * minutes / PACE_S / BLOCKS_A_ROUND)
    with TemporaryDirectory(prefix="explorer-") as folder:
        counts = make_files(Path(folder), rounds, SOLVERS, live_rounds)
        print(f"{counts['stored']} events are stored, {counts['live']} are to come")
        reading = asyncio.run(measure(Path(folder), minutes, PACE_S))
    report = make_report(reading, counts, rounds, SOLVERS)
    print_report(report)
    print(write_report("explorer", report))


if __name__ == "__main__":
    main()
