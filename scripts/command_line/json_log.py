"""Writes the log of a command as JSON: one object a line."""

import io
import json
import logging
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime

NOTED = ("round", "task", "account", "transaction")
"""Fields of a record that are written if the event has them."""
_FACTS: dict[str, str] = {}
"""What all lines of this process are about."""
IS_JSON: ContextVar[bool] = ContextVar("is_json", default=False)
"""Whether lines are written as JSON now."""


def note_facts(**facts: str) -> None:
    """Notes what all further lines of this command are about: `task`, the id, and `account`, this node's."""
    _FACTS.update(facts)


def forget_facts() -> None:
    """Forgets what earlier commands noted."""
    _FACTS.clear()


def show_time(seconds: float) -> str:
    """Returns a moment (seconds since 1970) in local time with zone: `2027-01-31T12:00:00+01:00`."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


class JsonLine(logging.Formatter):
    """Formats a record as one JSON object: `time`, `level`, `message`, then what else is known of the event.
    JSON has no line breaks in texts, so a peer cannot fake a line of the log."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record in one line."""
        noted = {name: value for name in NOTED if (value := getattr(record, name, None)) is not None}
        if "transaction" in noted:
            noted["transaction"] = f"0x{noted['transaction']}"
        fault = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        return make_line(record.created, record.levelname, record.getMessage(), {**_FACTS, **noted, **fault})


def make_line(seconds: float, level: str, message: str, facts: dict[str, object]) -> str:
    """Returns one line. `seconds` is the moment since 1970."""
    return json.dumps({"time": show_time(seconds), "level": level, "message": message, **facts})


class LoggedText(io.TextIOBase):
    """A stream for tables and questions: what is written until it is flushed is passed on as one message."""

    def __init__(self, take: Callable[[str], object]) -> None:
        self._take, self._parts = take, list[str]()

    def write(self, text: str, /) -> int:
        """Takes a part of the message."""
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Passes the message on, unless it is empty."""
        text, self._parts = "".join(self._parts).strip("\n"), []
        if text:
            self._take(text)
