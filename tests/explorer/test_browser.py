"""The pages in a browser: views of tasks that were played, and of addresses that name nothing."""

from pathlib import Path

from tests.explorer.browsing import LOOKS, Flaws, open_browser, open_page, require_chromium, see
from tests.explorer.many_accounts import DISPUTED_EVERY, TASK, make_chain
from tests.explorer.many_accounts_files import PLACE, make_files, report
from tests.explorer.test_page_server import open_others, open_pages
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player
from touchstone.explorer.names import Names
from touchstone.explorer.running_explorer import open_explorer


async def test_every_look_of_played_tasks(chain: RoundChain, players: list[Player], tmp_path: Path) -> None:
    require_chromium()
    flaws, state = Flaws(), players[0].twin.state
    task, last = f"#/task/0x{players[0].twin.task.hex()}", max(state.rounds)
    views = {"played": task, "played-round": f"{task}/round/{last}", "played-lines": f"{task}/lines"}
    account = next(iter({**state.former, **state.seats}.values())).account
    views |= {"accounts": "#/accounts", "accounts-one": f"#/accounts/{account}"}
    async with open_pages(chain, tmp_path) as explorer, open_browser() as browser:
        for look in LOOKS:
            for view, address in views.items():
                page = await open_page(browser, explorer.url + address, look, flaws)
                await page.wait_for_selector("main table, main ol")
                await see(page, view, look, flaws)
                await page.context.close()
    flaws.require_none()


async def test_accounts_are_found_by_keys_and_by_links(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    """From the tasks to all accounts, to one of them, to a task of it; and back."""
    require_chromium()
    flaws = Flaws()
    async with open_pages(chain, tmp_path) as explorer, open_browser() as browser:
        page = await open_page(browser, explorer.url, "wide-light", flaws)
        await page.wait_for_selector("h2:has-text('Tasks')")
        await page.keyboard.press("a")
        await page.wait_for_selector("h1:text-is('Accounts')")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1:has-text('Account 0x')")
        await page.keyboard.press("u")
        await page.wait_for_selector("h1:text-is('Accounts')")
        await page.click("tbody a")
        await page.wait_for_selector("h1:has-text('Account 0x')")
        await page.click("tbody a")
        await page.wait_for_selector("h2:has-text('Seats')")
        await page.keyboard.press("t")
        await page.click("text=Accounts: what each did in all tasks")
        await page.wait_for_selector("h1:text-is('Accounts')")
        await page.context.close()
    flaws.require_none()


async def test_contracts_of_others_are_told_on_each_page(
    chain: RoundChain, players: list[Player], tmp_path: Path
) -> None:
    require_chromium()
    flaws = Flaws()
    async with open_browser() as browser:
        async with open_pages(chain, tmp_path) as explorer:
            page = await open_page(browser, explorer.url, "phone-light", flaws)
            await page.wait_for_selector(f"#contracts:has-text('{chain.addresses['token']}')")
            assert await page.inner_text("#warning") == ""
            await page.context.close()
        async with open_others(chain, tmp_path) as url:
            page = await open_page(browser, url + "#/accounts", "phone-dark", flaws)
            await page.wait_for_selector("#warning:has-text('Move no token'):has-text('Evidence')")
            await see(page, "others", "phone-dark", flaws)
            assert await page.inner_text("#contracts") == ""
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
            "#/task/%E0%A4%A": "Strangers train one model together, for pay",
            f"#/task/0x{'12' * 32}": "This cannot be shown",
        }.items():
            page = await open_page(browser, explorer.url + address, "phone-dark", flaws)
            assert await page.inner_text("h1") == said, address
            await flaws.examine(page, address)
            await page.context.close()
    assert not any(flaws.found.values())
    # A browser tells of each 404 itself.
    assert all("404" in one for one in flaws.said)


async def test_a_long_task_is_read_while_it_goes_on(tmp_path: Path) -> None:
    """Older rounds are behind links, back to the first one. What has not changed stays the element that it
    was: a click that has begun reaches its link, though rounds come meanwhile."""
    require_chromium()
    rounds, live, flaws = DISPUTED_EVERY + 3, 3, Flaws()
    make_files(tmp_path, rounds, 4, live)
    chain = make_chain(tmp_path / "live.sqlite", pace_s=0.5)
    async with (
        open_browser() as browser,
        open_explorer(chain, tmp_path / "stored.sqlite", Names({})) as explorer,
    ):
        page = await open_page(browser, explorer.url + PLACE, "wide-light", flaws)
        await page.wait_for_selector(f"a:text-is('round {rounds}')")
        disputes = "table:has(caption:has-text('Disputes'))"
        await page.evaluate("(one) => { one.isKept = true; }", await page.query_selector(disputes))
        last = f"a:text-is('round {rounds + live}')"
        assert not await page.locator(last).count(), "it was marked too late"
        await page.wait_for_selector(last)
        assert await page.evaluate("(one) => one.isKept", await page.query_selector(disputes))
        ends = []
        while await page.locator("a:has-text('older rounds')").count():
            before = await page.inner_text("h1")
            await page.click("a:has-text('older rounds')")
            await page.wait_for_function(
                "(before) => document.querySelector('h1').innerText !== before", arg=before
            )
            ends.append(await page.locator("tbody a").last.inner_text())
        assert ends == ["round 7", "round 0"]
        await page.context.close()
    flaws.require_none()


async def test_the_first_page_says_what_this_is_and_shows_the_newest_conviction(tmp_path: Path) -> None:
    require_chromium()
    rounds, solvers, flaws = 2, 4, Flaws()
    make_files(tmp_path, rounds, solvers, 0, cheat_round=rounds - 1)
    async with (
        open_browser() as browser,
        open_explorer(make_chain(), tmp_path / "stored.sqlite", Names({})) as explorer,
    ):
        for look in LOOKS:
            page = await open_page(browser, explorer.url, look, flaws)
            await page.wait_for_selector("#figure-convictions dd:text-is('1')")
            assert await page.inner_text("#figure-models dd") == "1"
            card = page.locator("section[aria-label^='conviction of']")
            assert "wrote 2481.77 where 1654.34 is right." in await card.inner_text()
            row = await page.inner_text("tbody tr")
            assert f"-parameter model {TASK.hex()[:6]}" in row and "seats" in row
            await see(page, "front", look, flaws)
            await page.context.close()
    flaws.require_none()


async def test_without_a_task_the_first_page_says_how_to_post_one(tmp_path: Path) -> None:
    require_chromium()
    flaws = Flaws()
    async with (
        open_browser() as browser,
        open_explorer(make_chain(), tmp_path / "empty.sqlite", Names({})) as explorer,
    ):
        page = await open_page(browser, explorer.url, "phone-light", flaws)
        assert "touchstone task create" in await page.inner_text("pre")
        await see(page, "empty", "phone-light", flaws)
        await page.context.close()
    flaws.require_none()


async def test_the_page_of_a_task_says_first_how_good_the_model_is(tmp_path: Path) -> None:
    require_chromium()
    rounds, solvers, flaws = 3, 4, Flaws()
    make_files(tmp_path, rounds, solvers, 1)
    report(tmp_path / "stored.sqlite", range(rounds), solvers)
    async with (
        open_browser() as browser,
        open_explorer(make_chain(), tmp_path / "stored.sqlite", Names({})) as explorer,
    ):
        page = await open_page(browser, explorer.url + PLACE, "wide-light", flaws)
        line = await page.inner_text(".lead")
        assert line == "The model is at 1.50 and falling (6.00 before training)."
        assert "rounds done" in await page.locator(".chart").first.inner_text()
        table = page.locator("table:has(caption:has-text('Held-out loss of each model'))")
        rows = [await one.inner_text() for one in await table.locator("tbody tr").all()]
        assert len(rows) == 4 and rows[-1].startswith("before training") and "6.000 ± 0.020" in rows[-1]
        await page.context.close()
    flaws.require_none()


async def test_reported_losses_are_drawn_and_distances_stand_beside_the_votes(tmp_path: Path) -> None:
    """All of it is marked as what nodes say. Without reports the pages say that there are none."""
    require_chromium()
    rounds, solvers, flaws = 5, 4, Flaws()
    make_files(tmp_path, rounds, solvers, 1)
    async with open_browser() as browser:
        async with open_explorer(make_chain(), tmp_path / "stored.sqlite", Names({})) as explorer:
            page = await open_page(browser, explorer.url + PLACE, "wide-light", flaws)
            await page.wait_for_selector("text=No node has reported a loss")
            assert await page.locator(".chart canvas").count() == 1
            await page.context.close()
        report(tmp_path / "stored.sqlite", range(rounds), solvers)
        async with open_explorer(make_chain(), tmp_path / "stored.sqlite", Names({})) as explorer:
            for look in LOOKS:
                page = await open_page(browser, explorer.url + PLACE, look, flaws)
                await page.wait_for_selector("h2:text-is('Losses of the shards')")
                assert await page.locator(".chart canvas").count() == 3
                legend = await page.locator(".chart").nth(2).inner_text()
                assert all(f"shard {shard}" in legend for shard in range(solvers)) and "mean of" in legend
                row = page.locator("tr:has(a:text-is('round 1'))")
                assert await row.locator(".reported").all_inner_texts() == ["2.000 ± 0.020", "2.800"]
                await see(page, "losses", look, flaws)
                await page.goto(f"{explorer.url}{PLACE}/round/1")
                await page.wait_for_selector("h2:has-text('Audits')")
                table = page.locator("table:has(caption:has-text('What auditors report'))")
                said = [await one.inner_text() for one in await table.locator("tbody tr").all()]
                assert len(said) == solvers and "equal, bit for bit" in said[0]
                assert "beyond the limits" in said[1] and "123" in said[1] and "not compared" in said[1]
                assert "inside the limits" in said[2] and "0.0310" in said[2]
                assert await table.locator(".bad").count() == 3
                assert await page.locator("td .reported", has_text="2.500").count() == 1
                await see(page, "distances", look, flaws)
                await page.context.close()
    flaws.require_none()
