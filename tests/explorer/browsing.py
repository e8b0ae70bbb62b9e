"""The explorer's pages in Debian's chromium, and what axe-core finds in them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Response, async_playwright

from touchstone.scripts.toolchain import NODE_MODULES, ROOT

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
AXE = NODE_MODULES / "axe-core" / "axe.min.js"
SHOTS = ROOT / "build" / "explorer"
WIDE, PHONE = (1280, 900), (390, 844)
LOOKS = {
    f"{size}-{scheme}": (place, scheme)
    for size, place in (("wide", WIDE), ("phone", PHONE))
    for scheme in ("light", "dark")
}
"""Size of the window in pixels, and the system's scheme of colours."""
SERIOUS = frozenset({"serious", "critical"})
WAIT_MS, RUN_MS = 60_000, 600_000


def require_chromium() -> None:
    """Skips the test where there is no chromium."""
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: expected {CHROMIUM} (apt-get install chromium)")


@dataclass
class Flaws:
    """What a page complained about: console errors, exceptions, answers of 400 or more; by view, what axe
    calls serious or critical."""

    said: list[str] = field(default_factory=list)
    found: dict[str, list[str]] = field(default_factory=dict)

    def watch(self, page: Page) -> None:
        """From now on."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("response", self._look)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type}: {message.text}")

    def _look(self, response: Response) -> None:
        if response.status >= 400:
            self.said.append(f"{response.status} {response.url}")

    async def examine(self, page: Page, view: str) -> None:
        """Let axe look at a page."""
        if not await page.evaluate("() => 'axe' in window"):
            await page.evaluate(AXE.read_text())
        report: Any = await page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        self.found[view] = [
            f"{one['id']}: {json.dumps([node['html'] for node in one['nodes'][:3]])}"
            for one in report["violations"]
            if one["impact"] in SERIOUS
        ]

    def require_none(self) -> None:
        """Fails where there is any."""
        assert not self.said, self.said
        assert not any(self.found.values()), {view: all_ for view, all_ in self.found.items() if all_}


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Headless."""
    async with async_playwright() as library:
        browser = await library.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


async def open_page(browser: Browser, url: str, look: str, flaws: Flaws) -> Page:
    """A page of a window of its own, once it shows something."""
    (width, height), scheme = LOOKS[look]
    context: BrowserContext = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    flaws.watch(page)
    await page.goto(url)
    await page.wait_for_selector("main h1")
    return page


async def see(page: Page, view: str, look: str, flaws: Flaws) -> None:
    """A picture of the view, and axe's look at it. Nothing may be cut off at the side."""
    await flaws.examine(page, f"{view}-{look}")
    SHOTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=SHOTS / f"{view}-{look}.png", full_page=True)
    wide: Any = await page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide <= 0, f"{view} is {wide} pixels wider than the window in {look}"


async def click_to_number(browser: Browser, url: str, look: str, flaws: Flaws) -> None:
    """As a person does it: from the list of tasks over the slash to the one number, then the round and all
    that happened."""
    page = await open_page(browser, url, look, flaws)
    await see(page, "tasks", look, flaws)
    await page.click("tbody a")
    await page.wait_for_selector("h1:has-text('closed')")
    await see(page, "task", look, flaws)
    await page.click("text=the dispute, move by move")
    await page.wait_for_selector("section[aria-label='the number']")
    await page.wait_for_selector("h2:has-text('Move by move')")
    await see(page, "dispute", look, flaws)
    await page.click("dl a")
    await page.wait_for_selector("h2:has-text('Audits')")
    # What its solvers and auditors report of the round.
    await page.wait_for_selector("table:has(caption:has-text('Solvers of the round')) td .reported")
    await page.wait_for_selector("table:has(caption:has-text('What auditors report')) td .reported")
    await see(page, "round", look, flaws)
    await page.keyboard.press("u")
    await page.wait_for_selector("h2:has-text('Seats')")
    await page.goto(page.url + "/lines")
    await page.wait_for_selector("ol.lines li")
    await see(page, "lines", look, flaws)
    await page.keyboard.press("t")
    await page.wait_for_selector("h2:has-text('Tasks')")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h2:has-text('Seats')")
    await page.context.close()


async def watch_run(browser: Browser, url: str, is_over: asyncio.Event, flaws: Flaws) -> None:
    """One page, never loaded again: from before the task is posted until it is closed."""
    page = await open_page(browser, url, "wide-light", flaws)
    await page.click("tbody a", timeout=RUN_MS)
    await page.wait_for_selector("h2:has-text('Seats')")
    await see(page, "running", "wide-light", flaws)
    await is_over.wait()
    await page.wait_for_selector("h1:has-text('closed')")
    await page.context.close()


async def browse_run(url: str, is_over: asyncio.Event) -> None:
    """A run of the demo while it goes on, and all of its views when it is over. Fails where a page complains,
    or where axe does."""
    flaws = Flaws()
    async with open_browser() as browser:
        await watch_run(browser, url, is_over, flaws)
        for look in LOOKS:
            await click_to_number(browser, url, look, flaws)
    flaws.require_none()
