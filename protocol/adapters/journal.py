"""Keeps what a node must not forget, in a SQLite database that survives a crash at any byte.

A record is written before the action that makes it irrevocable (a salt before its commitment is sent);
`append` returns only when it is on disk. So after a crash the journal has everything that may have happened,
and the node asks the chain what did happen.

Every journal begins with a `JournalBegun`. The node's rooms (audit, merge, dispute) define all other kinds of
records. A change of a record must raise `FORMAT`; then older journals are refused, never misread.

SQLite guarantees that a record is there whole or not at all, and that one process has the database open.
Opening compares every record with its second copy in an index. SQLite cannot notice that the whole database
is an older copy. So the number of records is also kept in a file of its own, with the suffix -last. It is
written after the record without waiting for the disk, so after a power cut it may be behind the database,
never ahead of it. If all files are older copies, nothing here notices; `require_records` in
`node.joining.seat_taking` asks the chain.

The files hold salts, so their mode is 0600.
"""

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from touchstone.protocol.adapters.files.private_files import (
    replace_private_file,
    require_private_file,
    write_private_file,
)
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError


@dataclass(frozen=True)
class JournalBegun:
    """The first record: the account that the journal belongs to, an address in lower case."""

    account: str


APPLICATION_ID = int.from_bytes(b"TchJ", "big")
FORMAT = 4
FILE_NAME = "journal.sqlite"
"""The file's name in a home."""
OLDER_SUFFIX = ".jsonl"
"""The suffix of older journals, which were not SQLite databases."""
# With AUTOINCREMENT, SQLite keeps the largest number ever given in another table. Pages have no checksums, so
# an index holds each record a second time, and `integrity_check` finds a flipped bit because the two differ.
SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE records (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (typeof(kind) = 'text'),
    fields BLOB NOT NULL CHECK (typeof(fields) = 'blob')
);
CREATE INDEX second_copies ON records (number, kind, fields);
"""
LAST = re.compile(rb"[0-9]{20}\n")
GIVEN = "SELECT seq FROM sqlite_sequence WHERE name = 'records'"
COUNTS = f"SELECT count(*), ifnull(max(number), 0), ifnull(({GIVEN}), 0) FROM records"
TABLES = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_stat[0-9]' ORDER BY name"
)
"""The tables, apart from the statistics that ANALYZE writes."""

BRING_BACK = (
    "Restore all files of the journal, -wal and -last too, but no older copy: with one an auditor would sign "
    "a second vote, which costs the seat. If the files are lost, move the rest away and give up the seat "
    "with `touchstone leave`."
)

log = logging.getLogger(__name__)


class Journal:
    """An open journal. Records are frozen dataclasses that msgspec can read back; the class name is the kind.
    Safe for several threads of one process."""

    def __init__(self, path: Path, kinds: Sequence[type[Any]]) -> None:
        """Opens or creates the database at `path`. `kinds` are all record classes that it may hold.

        Raises InvalidInput if others may read the file, or it is no journal of this format or holds other
        kinds. Raises EnvironmentFault if another process has it open, it is damaged, or records are
        missing."""
        self.path = path
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._lock = threading.Lock()
        _require_no_older_journal(path)
        with ExitStack() as stack, _translate_faults(path):
            self._connection = stack.enter_context(_hold(self._connect()))
            self._count = _prepare(path, self._connection)
            for _ in self.replay():  # Check that each record is of a known kind.
                pass
            self._last = os.open(_get_last_path(path), os.O_RDWR)
            stack.callback(os.close, self._last)
            self._note_last()
            self._files = stack.pop_all()

    def append(self, record: Any) -> None:
        """Writes one record; on return it is on disk. Raises InvalidInput if the record could not be read
        back, EnvironmentFault if it could not be written. Then the caller must not act, because the record is
        not in the journal. (If the disk refused a flush and the process is killed after that, the record may
        turn up later, as if the kill had come between record and action.)"""
        kind, fields = type(record).__name__, self._encode(record)
        with self._lock, _translate_faults(self.path):
            row = (self._count + 1, kind, fields)
            self._connection.execute("INSERT INTO records VALUES (?, ?, ?)", row)
            self._count += 1
            self._note_last()

    def replay(self) -> Iterator[Any]:
        """Yields all records from the first on. Raises EnvironmentFault if the disk cannot be read."""
        with self._lock, _translate_faults(self.path):
            rows = self._connection.execute("SELECT * FROM records ORDER BY number").fetchall()
        for number, kind, fields in rows:
            yield self._decode(kind, fields, f"{self.path}, record {number}")

    def close(self) -> None:
        """Closes the journal, so that another process can open it."""
        with self._lock:
            self._files.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            beside = (self.path.with_name(f"{self.path.name}-wal"), _get_last_path(self.path))
            if any(one.exists() for one in beside):
                raise _records_missing(self.path, "no database")
            with suppress(InvalidInput):  # Raised if another process has just made it.
                write_private_file(self.path, _make_empty_database().serialize())
        return _open_database(self.path)

    def _note_last(self) -> None:
        try:
            os.pwrite(self._last, _encode_last(self._count), 0)
        except OSError as error:
            # The record is on disk, so the caller may act. The count is behind now, so a later loss would not
            # be noticed.
            log.warning("%s-last: cannot be written: %s", self.path, error.strerror)

    def _encode(self, record: Any) -> bytes:
        kind = type(record).__name__
        try:
            fields = msgspec.json.encode(record)
        except (TypeError, ValueError) as error:
            raise _bad_record("a dataclass of plain fields", kind, str(error)) from None
        # Reading checks the types. A value may be a secret, so only its place is named.
        if self._decode(kind, fields, kind) != record:
            raise _bad_record("a record that is read back as it was", "another", kind)
        return fields

    def _decode(self, kind: str, fields: bytes, where: str) -> Any:
        if kind not in self._kinds:
            raise _bad_record(f"one of {', '.join(self._kinds)}", kind, where)
        try:
            record = msgspec.json.decode(fields, type=self._kinds[kind])
        except msgspec.DecodeError as error:
            raise _bad_record(f"the fields of {kind}", str(error), where) from None
        if msgspec.json.encode(record) != fields:
            raise _bad_record(f"the fields of {kind}", "others besides", where)
        return record


def require_free(path: Path) -> None:
    """Raises as `Journal` does if the file at `path` has another format, or is damaged, in use or incomplete.
    A missing file is fine. Records are not decoded, so no kinds are needed."""
    _require_no_older_journal(path)
    if path.exists():
        with _translate_faults(path), _hold(_open_database(path)) as connection:
            _prepare(path, connection)


@contextmanager
def _hold(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Holds the connection and closes it at the end. If the database was refused, closing writes nothing into
    it, because the -wal file may belong to an older copy."""
    try:
        yield connection
    except BaseException:
        # SQLite asks this before each page that closing would copy out of the -wal file.
        connection.interrupt()
        raise
    finally:
        connection.close()


def _open_database(path: Path) -> sqlite3.Connection:
    for suffix in ("", "-wal", "-shm", "-last"):
        if (file := path.with_name(path.name + suffix)).exists():
            require_private_file(file)
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


def _prepare(path: Path, connection: sqlite3.Connection) -> int:
    """Prepares the database and returns how many records it has. Raises if the database must be refused."""
    # The first read takes the lock, which is held until the end. It also avoids the -shm file.
    _ask(connection, "PRAGMA locking_mode = EXCLUSIVE")
    found = (_ask(connection, "PRAGMA application_id"), _ask(connection, "PRAGMA user_version"))
    if found != (APPLICATION_ID, FORMAT):
        raise _no_journal(path, f"journal format {found[1]} (application {found[0]:#x})")
    if _list_tables(connection) != _list_tables(_make_empty_database()):
        raise _damaged(path, "the tables of a journal", "others")
    if (verdict := _ask(connection, "PRAGMA integrity_check(1)")) != "ok":
        raise _damaged(path, "whole pages, and two equal copies of each record", verdict)
    count = _require_all_records(path, connection)
    _ask(connection, "PRAGMA journal_mode = WAL")
    _ask(connection, "PRAGMA synchronous = FULL")
    return count


def _require_all_records(path: Path, connection: sqlite3.Connection) -> int:
    """Returns how many records there are. Raises EnvironmentFault if there were more before."""
    count, highest, given = connection.execute(COUNTS).fetchone()
    last_path = _get_last_path(path)
    last = last_path.read_bytes() if last_path.exists() else b""
    is_new = _ask(connection, "PRAGMA journal_mode") != "wal"
    if is_new and not (last or count or given):  # Made after the database, and before it is written to.
        last = _encode_last(0)
        replace_private_file(last_path, last)
    if not count == highest == given or not LAST.fullmatch(last) or int(last) > count:
        noted = last.decode(errors="replace").lstrip("0").strip() or "nothing"
        raise _records_missing(path, f"{count} of {given}; {last_path.name} has {noted}")
    return int(count)


def _get_last_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-last")


def _ask(connection: sqlite3.Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row and row[0]


def _make_empty_database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    return connection


def _list_tables(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute(TABLES).fetchall()


def _encode_last(number: int) -> bytes:
    """Returns the count as bytes of a fixed length, so that the file is overwritten in place."""
    return f"{number:020d}\n".encode()


@contextmanager
def _translate_faults(path: Path) -> Iterator[None]:
    """Turns errors of SQLite or the system into this project's errors."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise _name_fault(path, error) from error
    except UnicodeDecodeError as error:  # In SQLite's message about a damaged table.
        raise _damaged(path, "a whole database", str(error)) from error
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error


def _name_fault(path: Path, error: sqlite3.Error) -> TouchstoneError:
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
        case sqlite3.SQLITE_BUSY:
            return _in_use(path)
        case sqlite3.SQLITE_NOTADB:
            return _no_journal(path, str(error))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            return _damaged(path, "a whole database", str(error))
    return _unwritable(path, str(error))


def _require_no_older_journal(path: Path) -> None:
    older = path.with_suffix(OLDER_SUFFIX)
    if older.exists():
        raise InvalidInput(
            what="this home has a journal of an older version",
            expected=f"{path.name} alone",
            actual=older.name,
            where=str(older),
            remedy="It holds data that opens your claims. Run the version that wrote it until your claims "
            "are settled, then move the file elsewhere.",
        )


def _bad_record(expected: str, actual: str, where: str) -> InvalidInput:
    return InvalidInput(
        what="not a record of this journal",
        expected=expected,
        actual=actual,
        where=where,
        remedy="Use the journal of this node and this version.",
    )


def _no_journal(path: Path, actual: str) -> InvalidInput:
    return InvalidInput(
        what="the file is no journal of this version",
        expected=f"journal format {FORMAT} (application {APPLICATION_ID:#x})",
        actual=actual,
        where=str(path),
        remedy="Run the version of Touchstone that wrote it, or restore the file from a backup.",
    )


def _damaged(path: Path, expected: str, actual: str) -> EnvironmentFault:
    return _make_fault("the journal is damaged", expected, actual, path, BRING_BACK)


def _records_missing(path: Path, actual: str) -> EnvironmentFault:
    return _make_fault("the journal has lost records", "all written records", actual, path, BRING_BACK)


def _in_use(path: Path) -> EnvironmentFault:
    expected = "one process for one account"
    actual = (
        f"process {_find_holder(path) or '(unknown)'} has it open: another node of this home, or a command"
    )
    return _make_fault("the journal is in use", expected, actual, path, "Stop the other process first.")


def _find_holder(path: Path) -> int | None:
    """Returns the process that has locked the database, if the system tells. It opens no file, because
    closing one would drop this process's own locks on it."""
    with suppress(OSError, ValueError):
        found = path.stat()
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return next((int(one[4]) for one in locks if one[1] == "POSIX" and one[5] == place), None)
    return None


def _unwritable(path: Path, reason: str) -> EnvironmentFault:
    remedy = "Free some space or repair the disk, then start the node again."
    return _make_fault("the journal cannot be written", "a durable write", reason, path, remedy)


def _make_fault(what: str, expected: str, actual: str, path: Path, remedy: str) -> EnvironmentFault:
    return EnvironmentFault(
        what=what, expected=expected, actual=actual, where=str(path), remedy=remedy, retryable=False
    )
