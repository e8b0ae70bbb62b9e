"""What a node must not forget: an append-only file that survives a crash at any byte.

A record is written before the action that makes it irrevocable (a salt before its commitment is sent, a
transaction before it is broadcast); `append` returns only when the disk has it. So after a crash the journal
knows of everything that may have happened, and asks the chain what did.

One record is one line of JSON with its number and a checksum that also covers all records before it. A last
line that was cut off by a crash belongs to an action that never began: it is set aside on opening. Damage
before the last line is no crash and stops the node. The file holds salts: mode 0600, one process at a time.
"""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, get_type_hints

from protocol.adapters.files import require_private_file, write_private_file
from protocol.spec.errors import EnvironmentFault, InvalidInput

FIRST_CHECKSUM = bytes(32)
FIELD_TYPES = (int, str, bool, bytes, tuple[int, ...], tuple[bytes, ...])

log = logging.getLogger(__name__)


class Journal:
    """An open journal. Records are frozen dataclasses with fields of FIELD_TYPES; their class name is their
    kind, so a class in use is never renamed. Safe for several threads of one process."""

    def __init__(self, path: Path, kinds: Sequence[type[Any]]) -> None:
        """Open or create the file at `path`; `kinds` are all record classes that it may hold.

        Raises InvalidInput when the file is open to others or of another node's making, EnvironmentFault when
        another process has it open or it is damaged before its end.
        """
        self.path = path
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._fields = {kind.__name__: _list_fields(kind) for kind in kinds}
        self._lock = threading.Lock()
        self._file = self._open()
        self._is_broken = False
        self._count = self._size = 0
        self._checksum = FIRST_CHECKSUM
        try:
            self._scan()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, record: Any) -> None:
        """Write one record; on return it is on disk. Raises EnvironmentFault when it could not be written
        (then it is not in the journal, and the action must not be done)."""
        kind = type(record).__name__
        if self._kinds.get(kind) is not type(record):
            raise _bad_record("a record of a known kind", kind, str(self.path))
        fields = _encode_fields(record, self._fields[kind])
        with self._lock:
            if self._is_broken:
                raise _unwritable(self.path, "an earlier write failed")
            line, checksum = _encode_line(self._count, kind, fields, self._checksum)
            self._write(line)
            self._count, self._size, self._checksum = self._count + 1, self._size + len(line), checksum

    def replay(self) -> Iterator[Any]:
        """All records from the first on, as they are now. Raises EnvironmentFault on damage."""
        with self._lock:
            size = self._size
        checksum = FIRST_CHECKSUM
        for number, line in enumerate(os.pread(self._file, size, 0).splitlines(keepends=True)):
            parsed = _decode_line(line, number, checksum)
            if parsed is None:
                raise _damaged(self.path, number)
            kind, fields, checksum = parsed
            yield self._decode_record(kind, fields, number)

    def close(self) -> None:
        """Let another process open it."""
        os.close(self._file)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        if not self.path.exists():
            write_private_file(self.path, b"")
        require_private_file(self.path)
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise _in_use(self.path) from error
        return handle

    def _scan(self) -> None:
        """Find the end of the last whole record; set aside what a crash left behind it."""
        content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        lines = content.splitlines(keepends=True)
        for number, line in enumerate(lines):
            parsed = _decode_line(line, number, self._checksum)
            if parsed is None:
                if any(map(_is_like_a_line, lines[number + 1 :])):
                    raise _damaged(self.path, number)
                self._set_aside(content[self._size :])
                return
            kind, fields, self._checksum = parsed
            self._decode_record(kind, fields, number)
            self._count, self._size = number + 1, self._size + len(line)

    def _set_aside(self, tail: bytes) -> None:
        # Kept, not thrown away: should it be damage after all, the salts in it are still there.
        aside = self.path.with_name(f"{self.path.name}.torn-{self._size}-{sha256(tail).hexdigest()[:8]}")
        if not aside.exists():
            write_private_file(aside, tail)
        os.ftruncate(self._file, self._size)
        os.fsync(self._file)
        log.warning("%s: set aside %d bytes of an unfinished record in %s", self.path, len(tail), aside.name)

    def _write(self, line: bytes) -> None:
        try:
            _write_all(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            # After a failed flush nobody knows what the disk has: nothing more is written by this process.
            self._is_broken = True
            self._try_truncate()
            raise _unwritable(self.path, error.strerror or str(error)) from error

    def _try_truncate(self) -> None:
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            log.warning("%s: a partial record stays at the end", self.path)

    def _decode_record(self, kind: str, fields: dict[str, Any], number: int) -> Any:
        where = f"{self.path}, record {number}"
        if kind not in self._kinds:
            raise _bad_record(f"one of {', '.join(self._kinds)}", kind, where)
        expected = self._fields[kind]
        if set(fields) != set(expected):
            raise _bad_record(f"{kind} with {', '.join(expected)}", ", ".join(fields), where)
        return self._kinds[kind](**{name: _decode_field(fields[name], expected[name]) for name in expected})


def _list_fields(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind) if is_dataclass(kind) else {}
    wrong = [name for name, hint in hints.items() if hint not in FIELD_TYPES]
    if wrong or not hints:
        expected = "a dataclass with int, str, bool, bytes, tuple[int, ...] or tuple[bytes, ...]"
        raise _bad_record(expected, f"{kind.__name__}: {', '.join(wrong) or 'no fields'}", "kinds")
    return hints


def _encode_fields(record: Any, hints: dict[str, Any]) -> dict[str, Any]:
    fields = asdict(record)
    for name, hint in hints.items():
        if not _has_type(fields[name], hint):
            # The value itself may be a secret: only its type is told.
            where = f"{type(record).__name__}.{name}"
            raise _bad_record(str(hint), type(fields[name]).__name__, where)
    return {name: _encode_field(value) for name, value in fields.items()}


def _has_type(value: Any, hint: Any) -> bool:
    if hint in (tuple[int, ...], tuple[bytes, ...]):
        item = int if hint == tuple[int, ...] else bytes
        return type(value) is tuple and all(type(element) is item for element in value)
    return type(value) is hint


def _encode_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode_field(element) for element in value]
    return value.hex() if isinstance(value, bytes) else value


def _decode_field(value: Any, hint: Any) -> Any:
    if hint == tuple[bytes, ...]:
        return tuple(bytes.fromhex(element) for element in value)
    if hint == tuple[int, ...]:
        return tuple(value)
    return bytes.fromhex(value) if hint is bytes else value


def _encode_line(number: int, kind: str, fields: dict[str, Any], previous: bytes) -> tuple[bytes, bytes]:
    """The line of a record and its checksum: SHA-256 over the checksum before it and the line without it."""
    body = {"number": number, "kind": kind, "fields": fields}
    checksum = sha256(previous + _to_json(body)).digest()
    return _to_json({**body, "sum": checksum.hex()}) + b"\n", checksum


def _decode_line(line: bytes, number: int, previous: bytes) -> tuple[str, dict[str, Any], bytes] | None:
    """Kind, fields and checksum of a line, None unless it is byte for byte what _encode_line writes."""
    try:
        parsed = json.loads(line)
        kind, fields = parsed["kind"], parsed["fields"]
    except (ValueError, KeyError, TypeError):
        return None
    encoded, checksum = _encode_line(number, kind, fields, previous)
    return (kind, fields, checksum) if encoded == line else None


def _is_like_a_line(line: bytes) -> bool:
    return line.startswith(b'{"fields":') and line.endswith(b"}\n")


def _to_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _bad_record(expected: str, actual: str, where: str) -> InvalidInput:
    return InvalidInput(
        what="not a record of this journal",
        expected=expected,
        actual=actual,
        where=where,
        remedy="Use the journal of this node and this version.",
    )


def _damaged(path: Path, number: int) -> EnvironmentFault:
    return EnvironmentFault(
        what="the journal is damaged",
        expected="a line that matches its checksum",
        actual="another",
        where=f"{path}, record {number}",
        remedy="Restore the file from a backup; do not start this account without it: it could contradict "
        "what it committed to.",
        retryable=False,
    )


def _in_use(path: Path) -> EnvironmentFault:
    return EnvironmentFault(
        what="the journal is in use",
        expected="one process for one account",
        actual="another process has it open",
        where=str(path),
        remedy="Stop the other process first.",
        retryable=False,
    )


def _unwritable(path: Path, reason: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the journal cannot be written",
        expected="a durable write",
        actual=reason,
        where=str(path),
        remedy="Free some space or repair the disk, then start the node again.",
        retryable=False,
    )
