"""Answers what goes over all tasks: the first page, accounts, what is suspicious, and the search."""

import asyncio
from typing import Any

from aiohttp import web

from touchstone.explorer.account_documents import format_accounts, list_accounts
from touchstone.explorer.account_page import make_account
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.front_documents import make_front
from touchstone.explorer.page_answers import PAGE, PAGE_MAX, answer, read_limit, read_number
from touchstone.explorer.places import find_places
from touchstone.explorer.task_documents import name_task, to_hex

CSV = "text/csv; charset=utf-8"


class OverviewPages:
    """Answers requests for one view."""

    def __init__(self, view: ChainView) -> None:
        self._view = view

    def add_routes(self, app: web.Application) -> None:
        """Adds the paths."""
        app.router.add_get("/api/front", self.get_front)
        app.router.add_get("/api/accounts", self.list_accounts)
        app.router.add_get("/api/accounts.csv", self.write_accounts)
        app.router.add_get("/api/accounts/{account:0x[0-9a-f]{40}}", self.get_account)
        app.router.add_get("/api/search", self.search)
        app.router.add_get("/api/suspicious", self.list_suspicious)

    async def get_front(self, request: web.Request) -> web.Response:
        """Returns four figures over all tasks, and the newest conviction."""
        return answer(make_front(self._view))

    async def list_accounts(self, request: web.Request) -> web.Response:
        """Returns what each account did in all tasks; with ?account=A, what A did in each.
        ?offset=N&limit=N."""
        account, offset = request.query.get("account", "").lower(), read_number(request, "offset", 0)
        rows = list_accounts(await self._view.add_up(), self._view.names, account)
        return answer({"total": len(rows), "accounts": rows[offset : offset + read_limit(request)]})

    async def write_accounts(self, request: web.Request) -> web.Response:
        """Returns what each account did as CSV: a row for each account and task."""
        headers = {"Content-Type": CSV, "Content-Disposition": 'attachment; filename="accounts.csv"'}
        return web.Response(body=format_accounts(await self._view.add_up()), headers=headers)

    async def get_account(self, request: web.Request) -> web.Response:
        """Returns what an account owes, what is at risk, and what it has in each task."""
        found = make_account(self._view, request.match_info["account"])
        if found is None:
            raise web.HTTPNotFound
        return answer(found)

    async def search(self, request: web.Request) -> web.Response:
        """Returns places that fit ?q=TEXT."""
        return answer({"places": find_places(self._view, request.query.get("q", ""))})

    async def list_suspicious(self, request: web.Request) -> web.Response:
        """Returns what an auditor may want to look at in the newest tasks; ?limit=N."""
        view, rows = self._view, list[dict[str, Any]]()
        for task in sorted(view.state.games, key=lambda one: view.posted[one], reverse=True)[:PAGE]:
            name = name_task(task, int(view.state.task_terms[task].parameter_count))
            about = {"task": to_hex(task), "task_name": name}
            rows += [about | one for one in view.list_suspicious(task)]
            await asyncio.sleep(0)  # Let others be answered between two tasks.
        return answer({"total": len(rows), "rows": rows[: read_limit(request, PAGE_MAX)]})
