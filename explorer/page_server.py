"""Serves the explorer's pages and their data, as JSON, CSV and a stream of changes. Reading only.

    /                               the page; all views are in its URL after the #
    /api/status, /api/front         the deployment, and figures over all of its tasks
    /api/tasks                      its tasks
    /api/tasks/TASK[/...]           one task: rounds, lines, disputes, work.csv
    /api/accounts[.csv]             what each account did in all tasks; /ACCOUNT: duties and risks of one
    /api/suspicious, /api/search    what an auditor may want to look at; places that fit a text
    /conviction/TASK/BLOCK-SEAT     a page for each conviction (conviction_pages.py)
    /api/live                       server-sent events: which tasks have changed

Every answer is limited in size, and tells the browser to run nothing but this server's own files.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from touchstone.explorer.account_documents import format_csv
from touchstone.explorer.chain_view import BROKEN, ChainView
from touchstone.explorer.conviction_pages import ConvictionPages, show_conviction
from touchstone.explorer.dispute_documents import make_dispute_row
from touchstone.explorer.money_documents import list_seats, make_costs, make_money
from touchstone.explorer.names import show_wei
from touchstone.explorer.overview_pages import OverviewPages
from touchstone.explorer.page_answers import PAGE, answer, read_limit, read_number
from touchstone.explorer.progress_documents import show_progress
from touchstone.explorer.round_documents import make_round_row
from touchstone.explorer.task_documents import count_done, find_end, make_row, make_training, to_hex
from touchstone.explorer.work_documents import WORK_COLUMNS, list_work
from touchstone.protocol.adapters.wire.limits import ConnectionWatch, WireLimits
from touchstone.protocol.spec.game.logged_game import LoggedGame

LIVE_MAX, LEDGERS_MAX = 64, 4
"""The most streams, and written ledgers, at the same time."""
LIMITS = WireLimits(idle_seconds=60.0)
"""Limits on connections, and on how long a reader may take for a piece."""
PAUSE_S, BEAT_S, LAST = 0.5, 3.0, 1 << 62
"""PAUSE_S: least seconds between two messages of a stream; BEAT_S: most, because a page takes silence for
the end of the explorer. LAST: later than every block, log and round."""
STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".txt": "text/plain",
    ".svg": "image/svg+xml",
}  # fmt: skip
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Answers requests for one view."""

    def __init__(self, view: ChainView) -> None:
        self._view = view
        self._live, self._ledgers = 0, asyncio.Semaphore(LEDGERS_MAX)
        self.watch = ConnectionWatch(LIMITS)
        self._files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in TYPES}

    def make_app(self) -> web.Application:
        """Returns the routes. Only GET (and HEAD) is accepted."""
        app = web.Application(middlewares=[self._guard], client_max_size=1024)
        task = "/api/tasks/{task:0x[0-9a-f]{64}}"
        routes: tuple[tuple[str, Handler], ...] = (
            ("/", self.get_file),
            ("/static/{name}", self.get_file),
            ("/api/status", self.get_status),
            ("/api/tasks", self.list_tasks),
            (task, self.get_task),
            (f"{task}/rounds", self.list_rounds),
            (f"{task}/rounds/{{round:[0-9]{{1,6}}}}", self.get_round),
            (f"{task}/lines", self.list_lines),
            (f"{task}/disputes", self.list_disputes),
            (f"{task}/disputes/{{dispute:0x[0-9a-f]{{64}}}}", self.get_dispute),
            (f"{task}/work.csv", self.write_work),
        )
        for path, handler in routes:
            app.router.add_get(path, handler)
        OverviewPages(self._view).add_routes(app)
        ConvictionPages(self._view).add_routes(app)
        app.router.add_get("/api/live", self.stream_changes, allow_head=False)
        return app

    async def get_file(self, request: web.Request) -> web.Response:
        """Returns a file of the page."""
        name = request.match_info.get("name", "index.html")
        if name not in self._files:
            raise web.HTTPNotFound
        kind = TYPES[Path(name).suffix]
        return web.Response(body=self._files[name], content_type=kind, charset="utf-8")

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Adds headers to every answer, refusals included."""
        with self.watch.mark_busy(request):
            try:
                response = await handler(request)
            except web.HTTPException as refusal:
                refusal.headers.update(HEADERS)
                raise
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def get_status(self, request: web.Request) -> web.Response:
        """Returns the shown chain and contracts, whether they are those of this version, and the last block
        that was read."""
        view, deployment = self._view, self._view.chain.deployment
        return answer({
            "chain_id": deployment.chain_id,
            "contracts": deployment.game,
            "other_contracts": view.others,
            "token": deployment.token,
            "head": None if view.head is None else view.head.number,
            "head_seconds": None if view.head is None else view.head.timestamp_s,
            "block_s": view.pace.block_s,
            "turn": view.turn,
            "fault": view.describe_fault(),
            "tasks": len(view.posted),
            "events": view.index.count_events(),
        })  # fmt: skip

    async def list_tasks(self, request: web.Request) -> web.Response:
        """Returns the newest tasks first; ?offset=N&limit=N."""
        view, offset = self._view, read_number(request, "offset", 0)
        tasks = sorted(view.posted, key=lambda task: view.posted[task], reverse=True)
        rows = [self._make_row(task) for task in tasks[offset : offset + read_limit(request)]]
        return answer({"total": len(tasks), "tasks": rows})

    def _make_row(self, task: bytes) -> dict[str, Any]:
        view, game = self._view, self._view.state.games.get(task)
        if game is None:
            why = view.state.refused.get(task, "")
            return {"task": to_hex(task), "posted": view.posted[task], "refused": why}
        known = {"posted": view.posted[task], "convictions": len(view.convictions[task])}
        try:
            parameters = int(view.state.task_terms[task].parameter_count)
            return make_row(task, game, view.next_block, view.names, parameters) | known
        except BROKEN as error:
            # A stranger's task must not hide the others.
            return {"task": to_hex(task), "posted": view.posted[task], "refused": str(error)}

    def _find(self, request: web.Request) -> tuple[bytes, LoggedGame]:
        task = bytes.fromhex(request.match_info["task"][2:])
        game = self._view.state.games.get(task)
        if game is None:
            raise web.HTTPNotFound
        return task, game

    async def get_task(self, request: web.Request) -> web.Response:
        """Returns a task in full, except rounds, lines and disputes."""
        (task, game), view = self._find(request), self._view
        amounts = {name: show_wei(wei) for name, wei in asdict(game.terms.amounts).items()}
        money = view.find_money(task)
        return answer({
            **self._make_row(task),
            "training": make_training(view.state.task_terms[task], view.state.texts[task]),
            "rounds_done": count_done(game),
            "ends_block": None if game.is_closed else find_end(game, view.next_block),
            "progress": show_progress(view, task),
            "is_exact": game.terms.is_exact,
            "root": to_hex(game.root),
            "amounts": amounts,
            "windows": asdict(game.terms.windows),
            "seated": list_seats(game, money, view.names),
            "money": make_money(game, money, view.names),
            **make_costs(game, money),
            "convicted": self._list_convicted(task),
        })  # fmt: skip

    def _list_convicted(self, task: bytes, dispute: bytes | None = None) -> list[dict[str, Any]]:
        """Returns the newest convictions first, only those of a dispute if it is given."""
        found = self._view.convictions[task]
        places = [at for at, one in enumerate(found) if dispute is None or one.dispute == dispute]
        return [show_conviction(self._view, task, at) for at in places[: -PAGE - 1 : -1]]

    async def list_rounds(self, request: web.Request) -> web.Response:
        """Returns the newest rounds first; ?before=ROUND&limit=N."""
        task, game = self._find(request)
        end = min(game.next_round, read_number(request, "before", LAST))
        rows = []
        for number in range(end - 1, max(-1, end - 1 - read_limit(request)), -1):
            found = game.rounds.get(number)
            old = self._view.index.find_round(task, number, is_short=True) if found is None else None
            row = old if found is None else make_round_row(found) | self._view.make_losses(task, found)
            rows += [] if row is None else [row]
        return answer({"total": game.next_round, "rounds": rows})

    async def get_round(self, request: web.Request) -> web.Response:
        """Returns a round in full."""
        task, _ = self._find(request)
        found = self._view.make_round(task, int(request.match_info["round"]))
        if found is None:
            raise web.HTTPNotFound
        return answer(found)

    async def list_lines(self, request: web.Request) -> web.Response:
        """Returns the events as lines, newest first; with ?block=N&log=N, those before that place.
        &limit=N."""
        task, _ = self._find(request)
        before = (read_number(request, "block", LAST), read_number(request, "log", LAST))
        found = self._view.index.list_lines(task, before, read_limit(request))
        return answer({"lines": [{"block": one[0], "log": one[1], "line": one[2]} for one in found]})

    async def write_work(self, request: web.Request) -> web.StreamResponse:
        """Writes the public ledger as CSV: who trained what, a row for each claim."""
        (task, game), view = self._find(request), self._view
        if self._ledgers.locked():
            raise web.HTTPServiceUnavailable(text="other ledgers are being written; ask again")
        training = make_training(view.state.task_terms[task], view.state.texts[task])
        disposition = {"Content-Disposition": f'attachment; filename="work-{task.hex()[:12]}.csv"'}
        response = web.StreamResponse(headers=HEADERS | disposition)
        response.content_type, response.charset = "text/csv", "utf-8"
        async with self._ledgers:
            await response.prepare(request)
            await _write(response, format_csv([WORK_COLUMNS]))
            for number in range(game.next_round):
                document = view.make_round(task, number)
                if document is not None:
                    await _write(response, format_csv(list_work(task, number, document, training)))
                await asyncio.sleep(0)  # Let others be answered meanwhile, because a write seldom waits.
            await response.write_eof()
        return response

    async def list_disputes(self, request: web.Request) -> web.Response:
        """Returns the newest disputes first, and open queries and contests; ?offset=N&limit=N."""
        (task, game), names = self._find(request), self._view.names
        disputes = list(self._view.state.inner[task].disputes.values())[::-1]
        offset = read_number(request, "offset", 0)
        shown = disputes[offset : offset + read_limit(request)]
        return answer({
            "total": len(disputes),
            "disputes": [make_dispute_row(game, one, names) for one in shown],
            "queries": [
                {"asker": names.of(one.asker), "about": names.of_statement(game, one.statement)}
                | {"until_block": one.clock}
                for one in list(game.queries.values())[:PAGE]
            ],
            "contests": [
                {"contester": names.of(one.contester), "round": one.round, "turn": one.turn.name}
                | {"until_block": one.clock}
                for one in list(game.contests.values())[:PAGE]
            ],
        })  # fmt: skip

    async def get_dispute(self, request: web.Request) -> web.Response:
        """Returns a dispute move by move, down to the number that decided it."""
        (task, game), view = self._find(request), self._view
        name = bytes.fromhex(request.match_info["dispute"][2:])
        dispute = view.state.inner[task].disputes.get(name)
        if dispute is None:
            raise web.HTTPNotFound
        moves, number = [], None
        for event in view.index.list_of_subject(name):
            moves.append({
                "block": event.block_number,
                "transaction": to_hex(event.transaction_hash),
                "name": event.name,
                "line": view.index.get_line(task, event),
            })  # fmt: skip
            if event.name == "DisputeEnded":
                number = view.index.find_number(event.transaction_hash)[1]
        convicted = self._list_convicted(task, name)
        board = make_dispute_row(game, dispute, view.names)
        return answer({**board, "moves": moves, "number": number, "convicted": convicted})

    async def stream_changes(self, request: web.Request) -> web.StreamResponse:
        """Sends a message whenever something has changed: the head, and the changed tasks."""
        if self._live >= LIVE_MAX:
            raise web.HTTPServiceUnavailable(text=f"{LIVE_MAX} pages are open; close one")
        response, self._live = web.StreamResponse(headers=HEADERS), self._live + 1
        response.content_type = "text/event-stream"
        try:
            await response.prepare(request)
            await self._stream(response)
        except ConnectionResetError:
            pass  # The page was closed.
        finally:
            self._live -= 1
        return response

    async def _stream(self, response: web.StreamResponse) -> None:
        view, seen = self._view, self._view.turn
        await _write(response, b": open\n\n")
        while True:
            turn = seen
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    turn = await view.wait_for_change(seen)
            changed = [to_hex(task) for task, at in view.touched.items() if at > seen] if turn > seen else []
            head = None if view.head is None else view.head.number
            told = {"head": head, "block_s": view.pace.block_s, "tasks": changed}
            message = json.dumps(told | {"fault": view.describe_fault()})
            await _write(response, f"data: {message}\n\n".encode())
            seen = turn
            await asyncio.sleep(PAUSE_S)


async def _write(response: web.StreamResponse, piece: bytes) -> None:
    """Writes a piece. Raises ConnectionResetError if the reader is gone, or too slow."""
    try:
        async with asyncio.timeout(LIMITS.write_seconds):
            await response.write(piece)
    except TimeoutError as error:
        raise ConnectionResetError from error
