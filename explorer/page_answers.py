"""Makes answers of the explorer's server, each limited in size."""

import json
import re
from typing import Any

from aiohttp import web

PAGE, PAGE_MAX = 50, 500
"""Rows of an answer by default, and at most."""


def answer(document: dict[str, Any]) -> web.Response:
    """Returns the value as JSON."""
    return web.json_response(document, dumps=lambda value: json.dumps(value, default=str))


def read_number(request: web.Request, name: str, default: int) -> int:
    """Returns a number from the URL. Text that is no number counts as missing."""
    text = request.query.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text, re.ASCII) else default


def read_limit(request: web.Request, default: int = PAGE) -> int:
    """Returns how many rows are wanted."""
    return min(read_number(request, "limit", default), PAGE_MAX)
