"""Serves a page for each conviction that is read without scripts, with a card that other sites show.

    /conviction/TASK/BLOCK-SEAT             the page
    /conviction/TASK/BLOCK-SEAT/card.svg    the card; card.png if Pillow is installed

All text is escaped: names and addresses are those of strangers.
"""

import asyncio
import re
from html import escape
from typing import Any

from aiohttp import web

from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.conviction_card import HAS_PNG, draw_png, draw_svg
from touchstone.explorer.conviction_documents import make_conviction

PATH = "/conviction/{task:0x[0-9a-f]{64}}/{name:[0-9]{1,15}-[0-9]{1,9}}"
HOST = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{headline} – Touchstone</title>
  <meta name="description" content="{description}">
  <meta property="og:type" content="article">
  <meta property="og:site_name" content="Touchstone">
  <meta property="og:title" content="{headline}">
  <meta property="og:description" content="{description}">
  <meta property="og:url" content="{place}">
  <meta property="og:image" content="{place}/card.{kind}">
  <meta property="og:image:width" content="1200">
  <meta property="og:image:height" content="630">
  <meta name="twitter:card" content="summary_large_image">
  <link rel="icon" href="/static/icon.svg">
  <link rel="stylesheet" href="/static/style.css">
</head>
<body>
  <header><a class="brand" href="/">Touchstone</a></header>
  <main>
    <article>
      <h1>{headline}</h1>
      {story}
      <h2>Look for yourself</h2>
      <ul>{links}</ul>
      {details}
      <h2>What this is</h2>
      <p>Strangers train one model together, for pay. Auditors repeat parts of it, blind. A party that
        computed falsely loses its deposit by a computation on chain, never by a vote.</p>
      <p><img class="card" src="{path}/card.svg" width="1200" height="630" alt="The card of this page"></p>
    </article>
  </main>
  <footer><p>Read from the chain by an explorer that has no key. Anybody can run one.</p></footer>
</body>
</html>
"""


def find_conviction(view: ChainView, task: bytes, name: str) -> dict[str, Any] | None:
    """Returns the document of a conviction by its name; None if there is none."""
    for one in view.convictions.get(task, ()):
        if one.name == name:
            return show_conviction(view, task, view.convictions[task].index(one))
    return None


def show_conviction(view: ChainView, task: bytes, place: int) -> dict[str, Any]:
    """Returns the document of a task's conviction by its place in the order of the chain."""
    one, terms = view.convictions[task][place], view.state.task_terms.get(task)
    inner = view.state.inner.get(task)
    dispute = None if one.dispute is None or inner is None else inner.disputes.get(one.dispute)
    steps = (0, 0) if terms is None else (int(terms.inner_steps), int(terms.segment_steps))
    number = view.index.find_number(one.transaction_hash)[1]
    return make_conviction(task, one, view.state.games.get(task), steps, dispute, number, view.names)


class ConvictionPages:
    """Answers requests for pages of convictions and their cards."""

    def __init__(self, view: ChainView) -> None:
        self._view = view

    def add_routes(self, app: web.Application) -> None:
        """Adds the paths."""
        app.router.add_get(PATH, self.get_page)
        app.router.add_get(f"{PATH}/card.svg", self.get_svg)
        app.router.add_get(f"{PATH}/card.png", self.get_png)

    def _find(self, request: web.Request) -> dict[str, Any]:
        task = bytes.fromhex(request.match_info["task"][2:])
        found = find_conviction(self._view, task, request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return found

    async def get_page(self, request: web.Request) -> web.Response:
        """Returns the page."""
        text = write_page(self._find(request), read_origin(request))
        return web.Response(text=text, content_type="text/html")

    async def get_svg(self, request: web.Request) -> web.Response:
        """Returns the card as SVG."""
        found = self._find(request)
        return _send_card(draw_svg(found["headline"], found["story"]).encode(), "image/svg+xml")

    async def get_png(self, request: web.Request) -> web.Response:
        """Returns the card as PNG."""
        found = self._find(request)
        if not HAS_PNG:
            raise web.HTTPNotFound(text="This explorer draws SVG only (Pillow is missing): ask for card.svg.")
        drawn = await asyncio.to_thread(draw_png, found["headline"], tuple(found["story"]))
        return _send_card(drawn, "image/png")


def _send_card(body: bytes, kind: str) -> web.Response:
    """Returns a card that pages of other sites may show."""
    return web.Response(
        body=body, content_type=kind, headers={"Cross-Origin-Resource-Policy": "cross-origin"}
    )


def read_origin(request: web.Request) -> str:
    """Returns scheme and host as the visitor sees them, also behind a web server with a certificate; empty
    if the host is malformed."""
    scheme = request.headers.get("X-Forwarded-Proto", request.scheme)
    is_known = scheme in ("http", "https") and HOST.fullmatch(request.host)
    return f"{scheme}://{request.host}" if is_known else ""


def write_page(found: dict[str, Any], origin: str) -> str:
    """Returns the page of a conviction. `origin` stands before the paths that other sites read."""
    place = f"/#/task/{found['task']}"
    links = [(place, "The task, and everything that happened in it")]
    if found["dispute"] is not None:
        links.insert(
            0, (f"{place}/dispute/{found['dispute']}", "The dispute, move by move, down to the number")
        )
    return PAGE.format(
        headline=escape(found["headline"]),
        description=escape(" ".join(found["story"])),
        place=escape(origin + found["page"]),
        path=escape(found["page"]),
        kind="png" if HAS_PNG else "svg",
        story="\n      ".join(f"<p>{escape(line)}</p>" for line in found["story"]),
        links="".join(f'<li><a href="{escape(where)}">{escape(text)}</a></li>' for where, text in links),
        details=_write_details(found),
    )


def _write_details(found: dict[str, Any]) -> str:
    number = found["number"]
    pairs = [] if number is None else [
        ("computed", number["formula"]), ("written", number["claimed"]), ("right", number["exact_shown"]),
        ("allowed distance", number["bound_shown"]), ("its distance", number["distance_shown"]),
        ("place", f"element {number['element']} of node {number['node']} ({number['operation']})"),
    ]  # fmt: skip
    pairs += [
        ("convicted", found["account"]), ("found by", found["finder_account"]),
        ("kind of proof", found["proof"]),
        ("block", str(found["block"])), ("transaction", found["transaction"]), ("task", found["task"]),
    ]  # fmt: skip
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in pairs)
    return f"<details open><summary>Details</summary><dl>{rows}</dl></details>"
