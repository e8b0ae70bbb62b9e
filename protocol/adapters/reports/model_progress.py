"""Says in a sentence how good a task's model is, from held-out losses of the models so far.

Node, status and explorer show the same sentence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.signed_reports import MILLIONTHS_MAX, HeldoutReport

SHOWN_NATS = 1_000.0
"""A larger loss is shown as diverged, without its digits."""
WORSE_SHARE = 0.01
"""A loss that is higher by this share is worse, however few rows were measured."""
HALT_PATTERN = re.compile(r"no better for ([1-9][0-9]{0,3}) rounds?")


@dataclass(frozen=True)
class ModelLoss:
    """The held-out loss of the model after `rounds_done` rounds (0: before any training), in nats, with its
    standard error. `loss` is infinite if the model gives none that is finite."""

    rounds_done: int
    loss: float
    error: float

    @property
    def name(self) -> str:
        """Names the model: by the round that made it."""
        return "before training" if self.rounds_done == 0 else f"after round {self.rounds_done - 1}"


def read_model_loss(report: HeldoutReport) -> ModelLoss:
    """Returns the loss that a report states."""
    loss, error = (
        inf if one >= MILLIONTHS_MAX else one / 1e6 for one in (report.mean_micronats, report.error_micronats)
    )
    return ModelLoss(report.rounds_done, loss, error)


def format_loss(loss: float) -> str:
    """Formats a loss in nats; a loss that is not finite or beyond all use is "diverged"."""
    return f"{loss:.2f}" if isfinite(loss) and loss <= SHOWN_NATS else "diverged"


def describe_progress(losses: Sequence[ModelLoss]) -> str:
    """Describes how good the model is; empty if no loss is known. `losses` are in the order of the rounds."""
    if not losses:
        return ""
    newest = losses[-1]
    if not isfinite(newest.loss) or newest.loss > SHOWN_NATS:
        return f"the model has diverged {newest.name}"
    if len(losses) == 1:
        return f"the model is at {format_loss(newest.loss)} {newest.name}"
    first, before = losses[0], losses[-2]
    trend = "falling" if newest.loss < before.loss else "rising" if is_worse(newest, before) else "level"
    return f"the model is at {format_loss(newest.loss)} and {trend} ({format_loss(first.loss)} {first.name})"


def is_worse(newer: ModelLoss, older: ModelLoss) -> bool:
    """Returns whether a loss is higher than another by more than chance: by its standard error, or by 1 %.
    Both are measured on the same rows, so most of the chance is in both."""
    return newer.loss > older.loss + min(newer.error, WORSE_SHARE * older.loss)


def find_warning(losses: Sequence[ModelLoss]) -> str | None:
    """Returns a warning if the newest model is worse than the best one before it; None if it is not."""
    if len(losses) < 2:
        return None
    newest, best = losses[-1], min(losses[:-1], key=lambda one: one.loss)
    if not is_worse(newest, best):
        return None
    return (
        f"the model gets worse: held-out loss {format_loss(newest.loss)} {newest.name}, "
        f"{format_loss(best.loss)} {best.name}. The learning rate may be too high. Further rounds cost "
        "escrow: touchstone task halt ends the task after the round that runs"
    )


def count_rounds_without_gain(losses: Sequence[ModelLoss]) -> int:
    """Returns how many rounds ago the best model was made: 0 if the newest is the best."""
    best = min(losses, key=lambda one: one.loss, default=None)
    return 0 if best is None else losses[-1].rounds_done - best.rounds_done


def read_halt_rule(text: str) -> int:
    """Returns the number of rounds of "no better for N rounds"; 0 if the text is empty. Raises InvalidInput
    for any other text."""
    found = HALT_PATTERN.fullmatch(text)
    if text and found is None:
        raise InvalidInput(
            what="halt_when is malformed",
            expected="no better for N rounds, with N from 1 to 9999; or empty: never",
            actual=text,
            remedy="Correct this key in config.toml.",
        )
    return 0 if found is None else int(found[1])
