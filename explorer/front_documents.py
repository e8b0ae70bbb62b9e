"""Makes the JSON of the first page: four figures over all tasks, and the newest conviction."""

from typing import Any

from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.conviction_pages import show_conviction

LOOKED_CONVICTIONS = 16
"""The newest convictions of each task that are looked at."""


def make_front(view: ChainView) -> dict[str, Any]:
    """Returns how many models, rounds, audits and convictions the deployment has seen, and the newest
    conviction, preferably one with a number (None without any)."""
    games = view.state.games
    votes = (done["audits_voted"] for totals in view.totals.values() for done in totals.values())
    return {
        "figures": {
            "models": len(view.posted),
            "rounds": sum(game.next_round for game in games.values()),
            "audits": sum(votes),
            "convictions": sum(len(found) for found in view.convictions.values()),
        },
        "conviction": _find_newest(view),
    }


def _find_newest(view: ChainView) -> dict[str, Any] | None:
    """Returns the newest conviction of those of each task; one whose number is known comes first."""
    newest: tuple[bool, int, bytes, int] | None = None
    for task, found in view.convictions.items():
        for place, one in list(enumerate(found))[-LOOKED_CONVICTIONS:]:
            has_number = view.index.find_number(one.transaction_hash)[1] is not None
            newest = max(newest or (False, -1, b"", 0), (has_number, one.block, task, place))
    return None if newest is None else show_conviction(view, newest[2], newest[3])
