"""Each question of a visitor is answered on a page that is at most two clicks from the first one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.explorer.browsing import LOOKS, Flaws, open_browser, open_page, require_chromium, see
from tests.explorer.many_accounts import CHEAT, SUBMITTER, TASK, make_address, make_chain
from tests.explorer.many_accounts_files import CHEATED_ROUNDS, CHEATED_SOLVERS, PLACE, make_files, report
from touchstone.explorer.names import Names
from touchstone.explorer.running_explorer import Explorer, open_explorer

NAMES = Names(
    {make_address("SOLVER", CHEAT): "cheat", make_address("SOLVER", 0): "alice", SUBMITTER: "boss"}
    | {make_address("WHISTLEBLOWER", 0): "watcher"}
)
TASK_LINK = "tbody a:has-text('-parameter model')"
QUESTIONS = {
    "operator: am I earning": (["text=Accounts: what", "a:text-is('alice')"], "it has earned 0.0"),
    "operator: am I at risk": (
        ["text=Accounts: what", "a:text-is('alice')"],
        "No open dispute is against it.",
    ),
    "operator: what do I owe": (["text=Accounts: what", "a:text-is('alice')"], "commit to it\tin about"),
    "submitter: is my model better": (
        [TASK_LINK],
        "The model is at 1.50 and falling (6.00 before training).",
    ),
    "submitter: when is it done": ([TASK_LINK], "rounds done; the last round ends in about"),
    "submitter: what did I pay": ([TASK_LINK], "are earned and not settled"),
    "auditor: what is suspicious": (["text=What is suspicious"], "3 REJECT votes on its claim"),
    "auditor: who is this account": (
        ["text=What is suspicious", "tbody a:text-is('cheat')"],
        "(solver, convicted)",
    ),
    "passer-by: what is this": ([], "many machines of strangers train the same model"),
    "passer-by: why trust it": ([], "the contract computes that number"),
    "passer-by: what happened": (["text=a page to pass on"], "Anyone can check that."),
}
"""The clicks from the first page on, and a text that answers."""


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[tuple[Explorer, Browser]]:
    """An explorer of a task with a conviction, and a browser."""
    require_chromium()
    make_files(tmp_path, CHEATED_ROUNDS, CHEATED_SOLVERS, 0, cheat_round=CHEATED_ROUNDS - 1)
    report(tmp_path / "stored.sqlite", range(CHEATED_ROUNDS), CHEATED_SOLVERS)
    async with (
        open_browser() as browser,
        open_explorer(make_chain(), tmp_path / "stored.sqlite", NAMES) as explorer,
    ):
        yield explorer, browser


async def read(page: Page, answer: str) -> None:
    """Waits until the page has the answer among its visible words."""
    await page.wait_for_function(
        "(answer) => document.querySelector('main').innerText.includes(answer)", arg=answer
    )


async def test_each_question_is_answered_after_two_clicks_at_most(shown: tuple[Explorer, Browser]) -> None:
    explorer, browser = shown
    flaws = Flaws()
    for look in ("wide-light", "phone-dark"):
        for question, (clicks, answer) in QUESTIONS.items():
            assert len(clicks) <= 2, question
            page = await open_page(browser, explorer.url, look, flaws)
            for click in clicks:
                await page.click(f"main >> {click} >> nth=0")
            await read(page, answer)
            await page.context.close()
    flaws.require_none()


async def test_every_new_page_is_without_flaw_in_every_look(shown: tuple[Explorer, Browser]) -> None:
    explorer, browser = shown
    flaws = Flaws()
    views = {
        "account": f"#/accounts/{make_address('SOLVER', 0)}",
        "account-convicted": f"#/accounts/{make_address('SOLVER', CHEAT)}",
        "suspicious": "#/suspicious",
        "search": "#/search/0x",
        "cheated": PLACE,
    }
    for look in LOOKS:
        for view, address in views.items():
            page = await open_page(browser, explorer.url + address, look, flaws)
            await page.wait_for_selector("main table")
            await see(page, view, look, flaws)
            await page.context.close()
    flaws.require_none()


async def test_a_search_goes_to_the_place_it_finds(shown: tuple[Explorer, Browser]) -> None:
    explorer, browser = shown
    flaws = Flaws()
    page = await open_page(browser, explorer.url, "wide-light", flaws)
    for text, title in (
        ("round 1", "Round 1"),
        ("alice", "Account alice"),
        (TASK.hex()[:10], "10.5K-parameter"),
    ):
        await page.keyboard.press("/")
        await page.keyboard.type(text)
        await page.keyboard.press("Enter")
        await page.wait_for_selector(f"h1:has-text('{title}')")
    await page.keyboard.press("/")
    await page.keyboard.type("<b>nothing</b>")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h1:has-text('Search for <b>nothing')")
    assert "nothing fits" in await page.inner_text("main")
    await page.context.close()
    flaws.require_none()


async def test_back_returns_to_the_place_on_the_page(shown: tuple[Explorer, Browser]) -> None:
    explorer, browser = shown
    flaws = Flaws()
    page = await open_page(browser, explorer.url + PLACE, "wide-light", flaws)
    await page.locator("h2:text-is('Money')").scroll_into_view_if_needed()
    left: float = await page.evaluate("() => window.scrollY")
    assert left > 500
    await page.click("table:has(caption:has-text('What each account has')) a >> nth=0")
    await page.wait_for_selector("h1:has-text('Account')")
    assert await page.evaluate("() => window.scrollY") == 0
    await page.go_back()
    await page.wait_for_selector("h2:text-is('Money')")
    await page.wait_for_function("(left) => Math.abs(window.scrollY - left) < 200", arg=left)
    await page.context.close()
    flaws.require_none()


async def test_a_phone_shows_the_columns_that_matter_and_all_on_demand(
    shown: tuple[Explorer, Browser],
) -> None:
    explorer, browser = shown
    flaws = Flaws()
    page = await open_page(browser, explorer.url, "phone-light", flaws)
    head = page.locator("main th:has-text('escrow left')")
    assert not await head.is_visible()
    await page.click("button:has-text('all columns')")
    assert await head.is_visible()
    await page.context.close()
    flaws.require_none()


async def test_a_hash_is_copied_whole(shown: tuple[Explorer, Browser]) -> None:
    explorer, browser = shown
    flaws = Flaws()
    page = await open_page(browser, explorer.url + PLACE, "wide-light", flaws)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.click(f"button[aria-label='copy 0x{TASK.hex()}']")
    await page.wait_for_selector(".copy.done")
    assert await page.evaluate("() => navigator.clipboard.readText()") == f"0x{TASK.hex()}"
    await page.context.close()
    flaws.require_none()


async def test_an_explorer_that_ended_is_told_as_such(tmp_path: Path) -> None:
    require_chromium()
    make_files(tmp_path, 1, CHEATED_SOLVERS, 0)
    async with open_browser() as browser:
        async with open_explorer(make_chain(), tmp_path / "stored.sqlite", NAMES) as explorer:
            page = await open_page(browser, explorer.url, "wide-light", Flaws())
            await page.wait_for_selector("#chain:has-text('block')")
        await page.wait_for_selector("#chain.bad:has-text('This explorer does not answer')")
        await page.wait_for_selector("h2:text-is('Tasks')")
        await page.keyboard.press("a")
        await page.wait_for_selector("text=Start it again, and this page goes on.")
        await page.context.close()
