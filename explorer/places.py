"""Finds what a visitor looks for: a task, an account, a dispute, a round or a block."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.task_documents import name_task

FOUND_MAX = 20
HEX_LEAST = 4
"""The least digits of an id or an account that are looked for."""
TEXT_MAX = 80


def find_places(view: ChainView, text: str) -> list[dict[str, Any]]:
    """Returns places that fit a text, each with its kind, a name and the address after the #. The text is the
    beginning of an id or an account, a known name, `round N`, `block N`, or a number."""
    wanted = text.strip().lower()[:TEXT_MAX]
    digits = wanted.removeprefix("0x")
    number = re.fullmatch(r"(round|block)? *([0-9]{1,9})", wanted, re.ASCII)
    found: Iterator[dict[str, Any]] = iter(())
    if number:
        found = _find_numbered(view, number[1], int(number[2]))
    if re.fullmatch(r"[0-9a-f]+", digits) and len(digits) >= HEX_LEAST:
        found = chain(found, _find_by_digits(view, f"0x{digits}"))
    if wanted and not number:
        found = chain(found, _find_by_name(view, wanted))
    return list(islice(found, FOUND_MAX))


def _make(kind: str, name: str, *path: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "place": list(path)}


def _name(view: ChainView, task: bytes) -> str:
    terms = view.state.task_terms.get(task)
    return name_task(task, 0 if terms is None else int(terms.parameter_count))


def _list_tasks(view: ChainView) -> list[bytes]:
    known = (task for task in view.posted if task in view.state.games)
    return sorted(known, key=lambda task: view.posted[task], reverse=True)


def _find_by_digits(view: ChainView, digits: str) -> Iterator[dict[str, Any]]:
    for task in _list_tasks(view):
        if f"0x{task.hex()}".startswith(digits):
            yield _make("task", _name(view, task), "task", f"0x{task.hex()}")
    for account in _list_accounts(view):
        if account.startswith(digits):
            yield _make("account", account, "accounts", account)
    for task in _list_tasks(view):
        for dispute in view.state.inner[task].disputes:
            if f"0x{dispute.hex()}".startswith(digits):
                path = ("task", f"0x{task.hex()}", "dispute", f"0x{dispute.hex()}")
                yield _make("dispute", f"0x{dispute.hex()}", *path)


def _list_accounts(view: ChainView) -> list[str]:
    """Returns all accounts that have, or had, something in a task."""
    found = dict[str, None]()
    for game in view.state.games.values():
        found[game.terms.submitter] = None
        found |= dict.fromkeys(seat.account for seat in (*game.seats.values(), *game.former.values()))
        found |= dict.fromkeys(game.money.accounts)
    return list(found)


def _find_by_name(view: ChainView, wanted: str) -> Iterator[dict[str, Any]]:
    for account in _list_accounts(view):
        if wanted in view.names.of(account).lower():
            yield _make("account", view.names.of(account), "accounts", account)
    for task in _list_tasks(view):
        if wanted in _name(view, task).lower():
            yield _make("task", _name(view, task), "task", f"0x{task.hex()}")


def _find_numbered(view: ChainView, kind: str | None, number: int) -> Iterator[dict[str, Any]]:
    for task in _list_tasks(view):
        path = "task", f"0x{task.hex()}"
        if kind != "block" and number < view.state.games[task].next_round:
            yield _make("round", f"round {number} of {_name(view, task)}", *path, "round", str(number))
        if kind != "round" and view.index.has_lines(task, number):
            yield _make(
                "block", f"block {number} of {_name(view, task)}", *path, "lines", str(number + 1), "0"
            )
