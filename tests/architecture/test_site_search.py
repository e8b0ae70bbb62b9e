"""The site's search, in a browser: the words that people type lead to a manual first."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.explorer.browsing import WAIT_MS, open_browser, require_chromium
from touchstone.scripts.toolchain import ROOT

WORDS = ("install", "GPU", "earn", "slash", "stake", "withdraw", "tokenizer", "fine-tune")
MANUALS = {"index", "node", "operating", "task", "commands", "explorer", "demo", "audit"}
HIT = ".md-search-result__item > a"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site."""
    require_chromium()
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def test_the_first_hit_for_what_people_type_is_a_manual(site: str) -> None:
    found = {}
    async with open_browser() as browser:
        page = await browser.new_page()
        for word in WORDS:
            await page.goto(f"{site}/index.html?q={word}")
            await page.wait_for_selector(HIT, timeout=WAIT_MS)
            where = await page.get_attribute(HIT, "href")
            found[word] = Path(str(where).partition("?")[0]).stem
    assert {word: page for word, page in found.items() if page not in MANUALS} == {}
