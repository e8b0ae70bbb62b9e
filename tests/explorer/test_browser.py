"""The pages in a browser: views of tasks that were played, and of addresses that name nothing."""

from pathlib import Path

from tests.explorer.browsing import LOOKS, Flaws, open_browser, open_page, require_chromium, see
from tests.explorer.test_page_server import open_pages
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player


async def test_every_look_of_played_tasks(chain: RoundChain, players: list[Player], tmp_path: Path) -> None:
    require_chromium()
    flaws, state = Flaws(), players[0].twin.state
    task, last = f"#/task/0x{players[0].twin.task.hex()}", max(state.rounds)
    views = {"played": task, "played-round": f"{task}/round/{last}", "played-lines": f"{task}/lines"}
    async with open_pages(chain, tmp_path) as explorer, open_browser() as browser:
        for look in LOOKS:
            for view, address in views.items():
                page = await open_page(browser, explorer.url + address, look, flaws)
                await page.wait_for_selector("main table, main ol")
                await see(page, view, look, flaws)
                await page.context.close()
    flaws.require_none()


async def test_an_address_that_names_nothing_says_so(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    require_chromium()
    flaws = Flaws()
    async with open_pages(chain, tmp_path) as explorer, open_browser() as browser:
        for address, said in {
            "#/task/0x12": "No such task",
            "#/task/%E0%A4%A": "Tasks",
            f"#/task/0x{'12' * 32}": "This cannot be shown",
        }.items():
            page = await open_page(browser, explorer.url + address, "phone-dark", flaws)
            assert await page.inner_text("h1") == said, address
            await flaws.examine(page, address)
            await page.context.close()
    assert not any(flaws.found.values())
    # A browser tells of each 404 itself.
    assert all("404" in one for one in flaws.said)
