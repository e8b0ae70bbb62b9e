"""Sets up the log of a command: lines for the operator, and lines of modules.

What modules log goes to standard error. A log file also gets the operator's lines: one event a line, with its
time, its round and its transaction. As JSON, each line on either output is one object.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import WatchedFileHandler
from pathlib import Path

from touchstone.protocol.adapters.log_facts import RoundField
from touchstone.scripts.command_line.json_log import IS_JSON, JsonLine, forget_facts, show_time

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
OWN = logging.getLogger("touchstone")
"""The logger whose lines are logged from the chosen level on; libraries log only warnings."""
SAID = logging.getLogger("touchstone.said")
"""The logger of lines for the operator. Its level also decides what is shown."""
SAID.setLevel(logging.INFO)
WARNING_WORD = "WARNING: "
"""The first word of a warning."""


class OneLine(logging.Formatter):
    """Formats a record as one line: time with zone, level, message, then `round=` and `transaction=` if the
    event has them. A line break in a message, or in a traceback, becomes ` | `, so that a peer cannot fake a
    line of the log."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record in one line."""
        message, number = record.getMessage(), getattr(record, "round", None)
        transaction = getattr(record, "transaction", None)
        facts = [f" round={number}"] if number is not None else []
        facts += [f" transaction=0x{transaction}"] if transaction else []
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        line = " | ".join(part for part in message.splitlines() if part.strip())
        return f"{show_time(record.created)} {record.levelname} {line}{''.join(facts)}"


def log_line(line: str) -> bool:
    """Logs a line for the operator; returns whether to show it too. A log in JSON shows it itself."""
    level = logging.WARNING if line.startswith(WARNING_WORD) else logging.INFO
    SAID.log(level, "%s", line.removeprefix(WARNING_WORD))
    return SAID.isEnabledFor(level) and not IS_JSON.get()


@contextmanager
def open_logs(
    level: str | None, path: Path | None, *, is_debug: bool = False, is_json: bool = False
) -> Iterator[None]:
    """Logs to standard error, and to the file at `path`, as long as this is open. `level` is one of LEVELS.
    Without one a file gets `info`, and standard error `warning` (`info` with `is_debug`). If something moved
    the file away, it is opened again. With `is_json` the operator's lines go to standard output from here,
    and each line is a JSON object. Raises OSError if the file cannot be written."""
    usual = logging.INFO if is_debug else logging.WARNING
    handlers = _make_handlers(level, path, usual, is_json=is_json)
    root = logging.getLogger()
    before = [(one, one.level) for one in (root, SAID, OWN)]
    least = min(handler.level for handler in handlers)
    root.setLevel(usual)
    SAID.setLevel(level.upper() if level else logging.INFO)
    OWN.setLevel(least)
    for handler in handlers:
        handler.setFormatter(JsonLine() if is_json else OneLine())
        handler.addFilter(RoundField())
        root.addHandler(handler)
    forget_facts()
    written = IS_JSON.set(is_json)
    try:
        yield
    finally:
        IS_JSON.reset(written)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
        for logger, former in before:
            logger.setLevel(former)


def _make_handlers(
    level: str | None, path: Path | None, usual: int, *, is_json: bool
) -> list[logging.Handler]:
    """Returns what writes to standard error, to the file, and, as JSON, to standard output."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(level.upper() if level else usual)
    # The console shows it, or the handler below.
    shown.addFilter(lambda record: record.name != SAID.name)
    handlers: list[logging.Handler] = [shown]
    if path is not None:
        kept = WatchedFileHandler(path, encoding="utf-8")
        kept.setLevel(level.upper() if level else logging.INFO)
        handlers.append(kept)
    if is_json:
        said = logging.StreamHandler(sys.stdout)
        said.setLevel(level.upper() if level else logging.INFO)
        said.addFilter(lambda record: record.name == SAID.name)
        handlers.append(said)
    return handlers
