"""Adds the round to log lines."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ROUND: ContextVar[int | None] = ContextVar("round", default=None)
"""The round that log lines of this context are about; threads of `asyncio.to_thread` inherit it."""


@contextmanager
def about_round(number: int | None) -> Iterator[None]:
    """Marks each log line inside the `with` block with this round; None marks none."""
    before = _ROUND.set(number)
    try:
        yield
    finally:
        _ROUND.reset(before)


class RoundField(logging.Filter):
    """Sets `round` on each log record: the record's own round if it has one, else the one of
    `about_round`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True, so that every record passes."""
        if getattr(record, "round", None) is None:
            record.round = _ROUND.get()
        return True
