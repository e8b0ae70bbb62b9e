"""Shows a run as it goes on: the scenes, with `--verbose` every line, and what is waited for.

Nothing heavy is imported, so that the first line comes before PyTorch is loaded.
"""

import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

WIDTH = 118
WHO = 16
BEFORE = " " * (len("1234.5 s  ") + WHO + 1)
"""What stands before the continuation of a long line."""
LINE_WIDTH = 120
"""Characters of a line after who said it."""
SILENCE_S = 8.0
"""After so long without a line the screen says what is waited for."""
LOOK_S = 0.5
MOST_WAITS = 10
"""Lines that say what is waited for; later ones are dots."""


class TimelineEntry(NamedTuple):
    """A line of a run. `seconds` are since its start."""

    seconds: float
    who: str
    line: str


class Screen:
    """Shows lines. `timeline` has all of them so far; `lines` counts those that were shown."""

    def __init__(self, console: Console | None = None, *, is_verbose: bool = True) -> None:
        self.console = console or Console(highlight=False, width=None if Console().is_terminal else WIDTH)
        self.is_verbose = is_verbose
        self.timeline: list[TimelineEntry] = []
        self._started_s = self._shown_s = time.monotonic()
        self._awaited, self._said, self._share, self._waits = "", "", 0.0, 0
        self._is_line_open = False
        self._log: TextIO | None = None
        self._lock = threading.RLock()

    @property
    def seconds(self) -> float:
        """Returns the seconds since the start."""
        return time.monotonic() - self._started_s

    def notify(self, who: str, line: str) -> None:
        """Takes a line of the run: it is written to the log, and shown if the run is verbose."""
        entry = TimelineEntry(self.seconds, who, line)
        with self._lock:
            self.timeline.append(entry)
            self._write(f"{entry.seconds:>6.1f} s  {who:<{WHO}} {line}")
            if self.is_verbose:
                wrapped = textwrap.wrap(line, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
                self._show(f"{entry.seconds:>6.1f} s  {who:<{WHO}} " + f"\n{BEFORE}".join(wrapped or [""]))

    def announce(self, who: str, line: str) -> None:
        """Takes a line that is always shown."""
        self.notify(who, line)
        if not self.is_verbose:
            self.show(f"   {line}")

    def show(self, line: str, style: str = "") -> None:
        """Shows a line, and writes it to the log."""
        with self._lock:
            self._write(line)
            self._show(line, style)

    def expect(self, awaited: str, share: float) -> None:
        """Takes what is waited for (empty: nothing), and which share of the run is over, 0 to 1."""
        self._awaited, self._share = awaited, share

    def keep_log(self, path: Path) -> None:
        """Writes all lines to a file from now on, and those that there were."""
        with self._lock:
            self._log = path.open("w", encoding="utf-8")
            for entry in self.timeline:
                self._write(f"{entry.seconds:>6.1f} s  {entry.who:<{WHO}} {entry.line}")

    @contextmanager
    def open(self) -> Iterator[None]:
        """Says what is waited for while the `with` block runs: in one live line of a terminal, elsewhere in a
        line after some seconds of silence."""
        stop, work = threading.Event(), self._show_bar if self.console.is_terminal else self._break_silence
        thread = threading.Thread(target=work, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            with self._lock:
                if self._log is not None:
                    self._log.close()
                self._log = None

    def _write(self, line: str) -> None:
        if self._log is not None:
            print(line, file=self._log, flush=True)

    def _show(self, line: str, style: str = "", end: str = "\n") -> None:
        if self._is_line_open:
            self.console.print()
        self._is_line_open = False
        self._shown_s = time.monotonic()
        self.console.print(line, style=style or None, markup=False, soft_wrap=True, end=end)

    def _show_bar(self, stop: threading.Event) -> None:
        words = TextColumn(
            "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
        )
        columns = (BarColumn(24), TimeElapsedColumn(), words)
        with Progress(*columns, console=self.console, transient=True, expand=True) as progress:
            task = progress.add_task("", total=1.0)
            while not stop.wait(LOOK_S):
                said = f"waiting for {self._awaited}" if self._awaited else ""
                progress.update(task, completed=self._share, description=said)

    def _break_silence(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_S):
            with self._lock:
                if self._awaited and time.monotonic() - self._shown_s > SILENCE_S:
                    self._show_wait()

    def _show_wait(self) -> None:
        """Says what is waited for: in a new line if that has changed, else with a dot."""
        is_new = self._awaited != self._said or not self._is_line_open
        if is_new and (self.is_verbose or self._waits < MOST_WAITS):
            self._waits += 1
            self._show(f"   ... {self.seconds:.0f} s: waiting for {self._awaited}", end="")
        else:
            self.console.print(" .", end="", markup=False)
        self._is_line_open, self._shown_s, self._said = True, time.monotonic(), self._awaited
