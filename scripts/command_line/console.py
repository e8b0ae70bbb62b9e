"""Prints a command's messages and asks questions at a terminal."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

import rich.console
from rich.prompt import Confirm

from touchstone.scripts.command_line.json_log import IS_JSON, LoggedText, show_time
from touchstone.scripts.command_line.log_lines import log_line


class Console:
    """The operator's terminal. Where the log is JSON, a table or a question is one message of it."""

    def __init__(self, rich_console: rich.console.Console | None = None) -> None:
        file = cast(TextIO, LoggedText(log_line)) if IS_JSON.get() else None
        self.rich = rich_console or rich.console.Console(highlight=False, file=file)

    def notify(self, line: str) -> None:
        """Prints one line, and logs it. On a terminal it has the time of day, elsewhere also date and zone.
        Only a terminal wraps it, so that a path or an id in a file stays whole."""
        if log_line(line):
            stamp = time.strftime("%H:%M:%S") if self.rich.is_terminal else show_time(time.time())
            self.rich.print(f"{stamp} {line}", markup=False, soft_wrap=not self.rich.is_terminal)

    def confirm(self, question: str) -> bool:
        """Asks a question; no answer counts as no."""
        try:
            with _interruptible():
                return Confirm.ask(question, default=False, console=self.rich)
        except EOFError:
            self.rich.print()
            return False


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets the first Ctrl-C end a question. asyncio would only note it, and look again after the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
