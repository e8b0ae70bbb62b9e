"""What a command says: lines, questions and logs for people; results, exit codes and errors for programs.

Lines of two kinds come together here. What a command tells its operator, `Console` shows on standard output.
What modules log goes to standard error. A log file gets both: an event a line, with its time, its round and
its transaction.

How a command ends: its result as JSON, its exit codes, and errors in four lines. With `--json` a command
writes one object to standard output and nothing else there; lines, tables and questions go to standard error.
docs/schemas has a schema for each command, and `error.json` for a command that failed. Amounts are texts of
wei: a number of JSON loses digits in many readers.
"""

import asyncio
import errno
import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from enum import IntEnum
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias, TypeVar

import rich.console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.table import Table

from touchstone.protocol.adapters.log_facts import RoundField
from touchstone.protocol.economics.money_rules import MoneyRule
from touchstone.protocol.spec.errors import Declined, EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.tokens import format_tokens

if TYPE_CHECKING:  # Whoever only asks for help waits for no library of the chain.
    from touchstone.protocol.adapters.chain.chain_client import GameChain

# --- For people ---------------------------------------------------------------------------------------------
LEVELS = ("debug", "info", "warning", "error")
OWN = logging.getLogger("touchstone")
"""Whose lines are logged from the chosen level on; libraries only warn."""
SAID = logging.getLogger("touchstone.said")
"""What is told to the operator. Its level says what is shown too."""
SAID.setLevel(logging.INFO)
WARNING_WORD = "WARNING: "
"""Begins a line that warns."""
Result = TypeVar("Result")


def show_time(seconds: float) -> str:
    """A moment (seconds since 1970) in local time with its zone: `2027-01-31T12:00:00+01:00`."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


class OneLine(logging.Formatter):
    """Time with zone, level, message, then `round=` and `transaction=` where the event has them. A line break
    in a message, or in a traceback, becomes ` | `: no line of a log can be made up by what a peer sends."""

    def format(self, record: logging.LogRecord) -> str:
        """The record in one line."""
        message, number = record.getMessage(), getattr(record, "round", None)
        transaction = getattr(record, "transaction", None)
        facts = [f" round={number}"] if number is not None else []
        facts += [f" transaction=0x{transaction}"] if transaction else []
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        line = " | ".join(part for part in message.splitlines() if part.strip())
        return f"{show_time(record.created)} {record.levelname} {line}{''.join(facts)}"


def tell(line: str) -> bool:
    """Log a line that is told to the operator; whether it is to be shown as well."""
    level = logging.WARNING if line.startswith(WARNING_WORD) else logging.INFO
    SAID.log(level, "%s", line.removeprefix(WARNING_WORD))
    return SAID.isEnabledFor(level)


@contextmanager
def open_logs(level: str | None, path: Path | None, *, is_debug: bool = False) -> Iterator[None]:
    """Log to standard error, and to the file at `path`, as long as this is open. level: one of LEVELS;
    without one a file gets `info` and standard error `warning` (`info` with is_debug). The file is opened
    anew where something moved it away. Raises OSError where it cannot be written."""
    usual = logging.INFO if is_debug else logging.WARNING
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(level.upper() if level else usual)
    # The console has shown it.
    shown.addFilter(lambda record: record.name != SAID.name)
    handlers: list[logging.Handler] = [shown]
    if path is not None:
        kept = WatchedFileHandler(path, encoding="utf-8")
        kept.setLevel(level.upper() if level else logging.INFO)
        handlers.append(kept)
    root = logging.getLogger()
    before = [(one, one.level) for one in (root, SAID, OWN)]
    least = min(handler.level for handler in handlers)
    root.setLevel(usual)
    SAID.setLevel(level.upper() if level else logging.INFO)
    OWN.setLevel(least)
    for handler in handlers:
        handler.setFormatter(OneLine())
        handler.addFilter(RoundField())
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
        for logger, former in before:
            logger.setLevel(former)


PROGRESS_POLL_S = 1.0
SHOWN_WEI = TOKEN_WEI // 10**6
"""Leasts are shown rounded up to this."""
MAX_WHOLE_DIGITS = 59
"""Of whole tokens: their wei fit into 256 bits."""
MAX_SHOWN_CHARACTERS = 80
"""Of what was typed, in an error."""


class Console:
    """The operator's terminal."""

    def __init__(self, rich_console: rich.console.Console | None = None) -> None:
        self.rich = rich_console or rich.console.Console(highlight=False)

    def say(self, line: str) -> None:
        """One line, with the time of day on a terminal and else with date and zone too; logged as well. It is
        broken on a terminal only: a file keeps a path or an id whole."""
        if tell(line):
            stamp = time.strftime("%H:%M:%S") if self.rich.is_terminal else show_time(time.time())
            self.rich.print(f"{stamp} {line}", markup=False, soft_wrap=not self.rich.is_terminal)

    def confirm(self, question: str) -> bool:
        """Ask; no answer means no."""
        try:
            return Confirm.ask(question, default=False, console=self.rich)
        except EOFError:
            self.rich.print()
            return False


def parse_tokens(text: str) -> int:
    """`12.5` whole tokens in wei. Raises InvalidInput where it is not a positive decimal number of at most 18
    decimals, or longer than any amount."""
    whole, _, decimals = text.partition(".")
    is_short = len(whole) <= MAX_WHOLE_DIGITS and len(decimals) <= 18
    is_number = is_short and (whole + decimals).isascii() and (whole + decimals).isdigit()
    amount_wei = int(whole or 0) * TOKEN_WEI + int(decimals.ljust(18, "0")) if is_number else 0
    if amount_wei <= 0:
        raise InvalidInput(
            what="not an amount of tokens",
            expected="a positive number such as 1000 or 12.5",
            actual=repr(text) if len(text) <= MAX_SHOWN_CHARACTERS else f"{len(text)} characters",
            remedy="Give whole tokens, not wei.",
        )
    return amount_wei


LETTERS = (
    "B: solver_pay. C: what it costs to compute a round. n: segments of a claim. S: solver_stake. "
    "A: auditor_stake. F: unserved_fee. f: dropped_fee. R: rounds whose fees a seat owes at once. "
    "Section 14 of docs/spec.md has the other letters, and each rule in full."
)
"""Of the rules of amounts."""


def show_money(rules: Sequence[MoneyRule], console: Console) -> None:
    """A table: each amount, the least that it must be (and the most), and the inequality that fixed it."""
    table = Table("amount", "is", "at least", "because")
    for rule in rules:
        found = format_tokens(rule.amount) + ("" if rule.holds else " (wrong)")
        most = "" if rule.greatest is None else f", at most {format_tokens(rule.greatest)}"
        least = -(-rule.least // SHOWN_WEI) * SHOWN_WEI
        table.add_row(rule.name, found, format_tokens(least) + most, rule.inequality)
    console.rich.print(table, markup=False)
    console.rich.print(LETTERS, markup=False, highlight=False)


async def show_progress(chain: "GameChain", task: bytes, console: Console) -> None:
    """A bar with round and block under the lines, for ever; on a terminal only."""
    if not console.rich.is_terminal:
        return
    rounds = (await chain.tasks.terms_of(task)).rounds
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.rich, transient=True) as progress:
        bar = progress.add_task("", total=rounds)
        while True:
            try:
                opened = await chain.rounds.next_round(task)
                text = f"rounds opened: {opened}/{rounds}, block {(await chain.head()).number}"
                progress.update(bar, description=text, completed=opened)
            except EnvironmentFault as fault:
                progress.update(bar, description=fault.what)
            await asyncio.sleep(PROGRESS_POLL_S)


async def with_company(work: Coroutine[Any, Any, Result], company: Coroutine[Any, Any, None]) -> Result:
    """What `work` comes to, with `company` beside it: that ends with it, and its failure is of no weight."""
    beside = asyncio.create_task(company)
    try:
        return await work
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


# --- For programs -------------------------------------------------------------------------------------------
Document: TypeAlias = Mapping[str, Any]
"""What a command found or did, as JSON has it."""
Put: TypeAlias = Callable[[Document], None]
"""Takes the document of a command that goes on to run."""


class JsonOutput:
    """Where the document of a command goes; nowhere without a stream. The first one counts: a command that
    has told its result and runs on, then fails, says so on standard error and by its exit status."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def put(self, document: Document) -> None:
        """Write the document in one line."""
        if self._stream is not None:
            self._stream.write(json.dumps(document) + "\n")
            self._stream.flush()
            self._stream = None


@contextmanager
def open_output(*, is_json: bool) -> Iterator[JsonOutput]:
    """The output of a command. is_json: as long as this is open, whatever is printed, by a child process too,
    goes to standard error."""
    if not is_json:
        yield JsonOutput(None)
        return
    with _keep_stdout() as stream, redirect_stdout(sys.stderr):
        yield JsonOutput(stream)


@contextmanager
def _keep_stdout() -> Iterator[TextIO]:
    """What standard output was, while its file descriptor leads to standard error."""
    stream = sys.stdout
    try:
        number = stream.fileno()
    except io.UnsupportedOperation:
        number = -1
    if number != 1:
        yield stream
        return
    stream.flush()
    kept = os.dup(number)
    os.dup2(2, number)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as own:
            yield own
    finally:
        os.dup2(kept, number)
        os.close(kept)


def ignore(_: Document) -> None:
    """A Put for whom no document matters."""


def describe_error(error: TouchstoneError, status: int) -> Document:
    """The document of a command that failed (docs/schemas/error.json)."""
    names = ("what", "where", "expected", "actual", "remedy")
    return {"error": {name: str(getattr(error, name)) for name in names}, "exit_status": int(status)}


def spell_id(value: bytes) -> str:
    """An id of 32 bytes, whole: `0x` and 64 hexadecimal digits."""
    return f"0x{value.hex()}"


class ExitCode(IntEnum):
    """The exit status of `touchstone`; docs/commands.md lists them."""

    DONE = 0
    FOUND = 1
    """A command that looks for faults found one."""
    REFUSED = 2
    """An error that the operator can mend, or a wrong option."""
    NOT_NEEDED = 3
    """The node has no seat, and is to take none: a service need not try again."""
    BUG = 70
    """EX_SOFTWARE of sysexits.h: not the operator's fault."""
    INTERRUPTED = 130


class NotNeeded(Declined):
    """A node that has no seat and is to take none: its task is over, or was left for good."""


WRITE_ERRORS = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS})
"""A disk alone answers so."""
PATH_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
    }  # fmt: skip
)
"""Of a disk where a path is named: a port may be refused in the same words."""


def is_of_disk(error: OSError) -> bool:
    """Whether a disk refused a file or a folder: the operator's to mend, and no bug."""
    return error.errno in WRITE_ERRORS or (error.errno in PATH_ERRORS and error.filename is not None)


def explain_disk(error: OSError) -> EnvironmentFault:
    """The error of a file or folder that cannot be read or written, naming it where the system does."""
    return EnvironmentFault(
        what="the disk refuses a file or folder",
        expected="a readable and writable place with room",
        actual=error.strerror,
        where=str(error.filename or ""),
        remedy="Make room or mend its rights, or choose another --home or --out.",
        retryable=False,
    )


def render_error(error: TouchstoneError) -> str:
    """Four lines: what, expected, actual, what to do."""
    where = f" ({error.where})" if error.where else ""
    return "\n".join(
        (
            f"error:    {error.what}{where}",
            f"expected: {error.expected}",
            f"actual:   {error.actual}",
            f"do:       {error.remedy}",
        )
    )


def explain_bug(error: Exception) -> EnvironmentFault:
    """An error that the code did not foresee, in the same four parts."""
    return EnvironmentFault(
        what="this is a bug of Touchstone",
        expected="a result, or an error that says what to do",
        actual=f"{type(error).__name__}: {error}",
        remedy="Run again with --debug and report the traceback.",
        retryable=False,
    )
