"""Says of which round the lines are that are told and logged meanwhile."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ROUND: ContextVar[int | None] = ContextVar("round", default=None)
"""Threads that `asyncio.to_thread` begins have it too."""


@contextmanager
def about_round(number: int | None) -> Iterator[None]:
    """Marks each log line inside the block with this round; None: with no round."""
    before = _ROUND.set(number)
    try:
        yield
    finally:
        _ROUND.reset(before)


class RoundField(logging.Filter):
    """Gives each log record its `round`: its own if it has one, else that of `about_round`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True: every record passes."""
        if getattr(record, "round", None) is None:
            record.round = _ROUND.get()
        return True
