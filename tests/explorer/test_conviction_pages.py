"""Pages of convictions: read without scripts, with a card, and with nothing of strangers read as HTML."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import aiohttp
import pytest

from tests.explorer.browsing import Flaws, open_browser, require_chromium
from tests.explorer.many_accounts import SUBMITTER, TASK, make_address, make_chain
from tests.explorer.many_accounts_files import make_files
from touchstone.explorer import conviction_card
from touchstone.explorer.conviction_card import HAS_PNG, draw_svg, list_card_lines
from touchstone.explorer.names import Names
from touchstone.explorer.running_explorer import Explorer, open_explorer
from touchstone.protocol.spec.game.enums import SeatRole

ROUNDS, SOLVERS = 2, 4
HEADLINE = "<b>cheat</b> wrote 2481.77 where 1654.34 is right."
NAMES = Names({
    make_address(SeatRole.SOLVER.name, 1): "<b>cheat</b>",
    make_address(SeatRole.WHISTLEBLOWER.name, 0): "finder & co",
    SUBMITTER: "boss",
})  # fmt: skip
Pages = tuple[Explorer, aiohttp.ClientSession, str]


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    """An explorer of a task with a conviction, a client without scripts, and the path of its page."""
    make_files(tmp_path, ROUNDS, SOLVERS, 0, cheat_round=ROUNDS - 1)
    async with (
        open_explorer(make_chain(), tmp_path / "stored.sqlite", NAMES) as explorer,
        aiohttp.ClientSession(explorer.url) as browser,
    ):
        while explorer.view.head is None:
            await asyncio.sleep(0.02)
        async with browser.get(f"/api/tasks/0x{TASK.hex()}") as response:
            (one,) = (await response.json())["convicted"]
        assert one["headline"] == HEADLINE
        yield explorer, browser, one["page"]


async def test_a_conviction_is_read_without_scripts(pages: Pages) -> None:
    _, browser, path = pages
    async with browser.get(path) as response:
        text = await response.text()
        assert (
            response.content_type == "text/html"
            and "default-src 'none'" in response.headers["Content-Security-Policy"]
        )
    assert "<script" not in text and "<b>cheat" not in text
    words = unescape(re.sub(r"<[^>]+>", " ", text))
    assert HEADLINE in words and "in round 1 it had to compute" not in words
    assert "of round 1 it had to compute 1654.34631 minus 0.00135136908. Anyone can check that." in words
    assert "went to finder & co, who found it" in words and "to the submitter" in words
    assert "The model was not touched." in words and "element 133439 of node 375" in words


async def test_other_sites_find_a_title_a_description_and_a_picture(pages: Pages) -> None:
    explorer, browser, path = pages
    async with browser.get(path, headers={"X-Forwarded-Proto": "https"}) as response:
        text = await response.text()
    found = dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)">', text))
    host = explorer.url.removeprefix("http://").rstrip("/")
    assert unescape(found["og:title"]) == HEADLINE and "Anyone can check that" in found["description"]
    assert found["og:url"] == f"https://{host}{path}"
    assert found["og:image"] == f"https://{host}{path}/card.{'png' if HAS_PNG else 'svg'}"
    async with browser.get(path, headers={"Host": 'evil"><script>'}) as response:
        assert response.status == 400 or "<script" not in await response.text()


async def test_the_card_is_drawn_with_all_text_escaped(pages: Pages) -> None:
    _, browser, path = pages
    async with browser.get(f"{path}/card.svg") as response:
        text = await response.text()
        assert response.content_type == "image/svg+xml"
        assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert "&lt;b&gt;cheat" in text and "<b>" not in text and "style" not in text
    async with browser.get(f"{path}/card.png") as response:
        assert response.status == (200 if HAS_PNG else 404)


def test_the_card_as_png_is_a_picture_of_its_size() -> None:
    image = pytest.importorskip("PIL.Image")
    drawn = image.open(io.BytesIO(conviction_card.draw_png("cheat wrote 1 where 2 is right.", ("Why.",))))
    assert drawn.size == (1200, 630) and drawn.format == "PNG"


def test_a_long_text_is_cut_and_stays_on_the_card() -> None:
    lines = list(list_card_lines("word " * 200, ["word " * 400]))
    assert all(line.baseline < 630 for line in lines) and any(line.text.endswith("...") for line in lines)
    assert draw_svg("a < b", []).count("a &lt; b") == 1


async def test_a_conviction_that_is_not_there_is_not_found(pages: Pages) -> None:
    _, browser, path = pages
    for other in (path + "1", path.replace(TASK.hex(), "12" * 32), path.rpartition("/")[0] + "/x-1"):
        async with browser.get(other) as response:
            assert response.status == 404, other


async def test_the_page_of_a_conviction_has_no_flaw(pages: Pages) -> None:
    require_chromium()
    explorer, _, path = pages
    flaws = Flaws()
    async with open_browser() as browser:
        for scheme in ("light", "dark"):
            context = await browser.new_context(java_script_enabled=True, color_scheme=scheme)
            page = await context.new_page()
            flaws.watch(page)
            await page.goto(explorer.url.rstrip("/") + path)
            await flaws.examine(page, scheme)
            await context.close()
    flaws.require_none()
