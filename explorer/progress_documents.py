"""Makes the JSON of how good a task's model is: held-out losses by round, and what they say in words."""

from collections.abc import Iterable
from math import inf
from typing import Any

from touchstone.protocol.adapters.reports.model_progress import ModelLoss, describe_progress, find_warning


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
