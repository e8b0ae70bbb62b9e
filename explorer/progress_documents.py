"""Makes the JSON of how good a task's model is: held-out losses by round, and what they say in words."""

from collections.abc import Iterable
from math import inf
from typing import Any

from touchstone.explorer.chain_view import ChainView
from touchstone.protocol.adapters.reports.model_progress import ModelLoss, describe_progress, find_warning

PROGRESS_ROUNDS = 50
"""The newest rounds whose held-out losses tell how good the model is, beside those before any training."""


def show_progress(view: ChainView, task: bytes) -> dict[str, Any]:
    """Returns how good a task's model is, by what nodes report of the first and the newest rounds."""
    last = view.state.games[task].next_round
    numbers = sorted({0, *range(max(0, last - PROGRESS_ROUNDS), last)})
    return make_progress(one for number in numbers for one in _list_heldout(view, task, number))


def _list_heldout(view: ChainView, task: bytes, number: int) -> list[dict[str, Any]]:
    game_round = view.state.games[task].rounds.get(number)
    if game_round is not None:
        return list(view.make_losses(task, game_round)["heldout"])
    found = view.index.find_round(task, number, is_short=True)
    return [] if found is None else list(found.get("heldout", ()))


def make_progress(heldout: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns the losses in the order of the rounds, a line on the newest one, and a warning if the model
    gets worse (else None). `heldout` is from `make_heldout`, of any rounds."""
    known = {one["rounds_done"]: one for one in heldout}
    losses = [_read_loss(known[rounds_done]) for rounds_done in sorted(known)]
    return {
        "line": describe_progress(losses),
        "warning": find_warning(losses),
        "losses": [known[one.rounds_done] | {"model": one.name} for one in losses],
    }


def _read_loss(shown: dict[str, Any]) -> ModelLoss:
    loss, error = (inf if one is None else one for one in (shown["loss"], shown["error"]))
    return ModelLoss(shown["rounds_done"], loss, error)
