"""Keeps the events of a deployment and reports of its nodes in an SQLite file.

Events are in the chain's order. They are kept over restarts, and reorgs cut them back.

An event is stored in the ABI encoding of its values, and decoded when it is read: nothing that a stranger
wrote is evaluated. What is computed from events (lines that describe them, rounds that the contracts have
forgotten) is in tables that end with the process. Convicted numbers stay, because each takes a transaction of
the chain. So do reports of nodes (`report_documents.py`), which are not on the chain.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from touchstone.explorer.report_documents import DRAWS_MAX, LOSS, Reported
from touchstone.protocol.adapters.chain.abi import Entry, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import decode_values, encode_values
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.deployment import GameDeployment
from touchstone.protocol.adapters.chain.follower import REMEMBERED_HEADS, LogBatch
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

VERSION = "1"
"""The version of the tables below; another one is refused."""
TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heads (
    number INTEGER PRIMARY KEY, hash BLOB NOT NULL, parent BLOB NOT NULL, seconds INTEGER NOT NULL,
    fee TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    block INTEGER NOT NULL, log INTEGER NOT NULL, hash BLOB NOT NULL, transaction_hash BLOB NOT NULL,
    contract TEXT NOT NULL, name TEXT NOT NULL, task BLOB, subject BLOB, data BLOB NOT NULL,
    PRIMARY KEY (block, log)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS events_of_subject ON events (subject, block, log) WHERE subject IS NOT NULL;
CREATE TABLE IF NOT EXISTS numbers (transaction_hash BLOB PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reports (
    task BLOB NOT NULL, round INTEGER NOT NULL, slot INTEGER NOT NULL, draw INTEGER NOT NULL,
    rank INTEGER NOT NULL, claim BLOB NOT NULL, account TEXT NOT NULL, said TEXT NOT NULL,
    signature BLOB NOT NULL, PRIMARY KEY (task, round, slot, draw, rank, claim)
) WITHOUT ROWID;
"""
"""`fee` is in wei, which may have more than 64 bits. `subject` is the dispute, query or contest of an event.
`found` is JSON, null if the transaction shows no number. `said` is JSON: a node's signed report."""
TOLD_TABLES = """
CREATE TEMP TABLE lines (
    task BLOB NOT NULL, block INTEGER NOT NULL, log INTEGER NOT NULL, line TEXT NOT NULL
);
CREATE INDEX temp.lines_of_task ON lines (task, block, log);
CREATE TEMP TABLE rounds (
    task BLOB NOT NULL, number INTEGER NOT NULL, document TEXT NOT NULL, short TEXT NOT NULL,
    PRIMARY KEY (task, number)
) WITHOUT ROWID;
"""
EVENT_COLUMNS = "block, log, hash, transaction_hash, contract, name, data"
BLOCKS_AT_ONCE = 8
"""The blocks with events that are in memory at a time while all are read."""


class EventIndex:
    """One file, locked as long as it is open, because events that another process stored would not be folded
    here."""

    def __init__(self, path: Path, deployment: GameDeployment) -> None:
        """Opens or makes the file. Raises InvalidInput if it is of another deployment or version,
        EnvironmentFault if another explorer has it open."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._rows = sqlite3.connect(path, timeout=0)
        identity = f"version {VERSION}, chain {deployment.chain_id}, contracts at {deployment.game}"
        try:
            found = self._open(identity)
        except sqlite3.DatabaseError as error:
            self._rows.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise self._make_taken_fault() from error
            raise self._refuse("an index of the explorer", str(error)) from error
        if found != identity:
            self.close()
            raise self._refuse(identity, found)
        self._count = self._count_from(0)

    def _open(self, identity: str) -> str:
        """Locks the file, makes missing tables, and returns the version and deployment that the file
        names."""
        self._rows.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.execute("PRAGMA synchronous = NORMAL")
        self._rows.executescript(TABLES + TOLD_TABLES)
        with self._rows:
            self._rows.execute("INSERT OR IGNORE INTO about VALUES ('identity', ?)", (identity,))
        ((found,),) = self._rows.execute("SELECT value FROM about WHERE key = 'identity'")
        return str(found)

    def _make_taken_fault(self) -> EnvironmentFault:
        return EnvironmentFault(
            what="another explorer has the index open",
            expected="a file that no other process uses",
            actual="locked",
            where=str(self._path),
            remedy="Look at the other explorer's pages, end it, or name another file with --index.",
            retryable=False,
        )

    def _refuse(self, expected: str, actual: str) -> InvalidInput:
        return InvalidInput(
            what="the file is no index of this deployment's events",
            expected=expected,
            actual=actual,
            where=str(self._path),
            remedy="Name another file with --index, or remove this one: it is made again from the chain.",
        )

    def close(self) -> None:
        """Closes the file."""
        self._rows.close()

    def take(self, batch: LogBatch) -> None:
        """Stores a batch whole or not at all, after deleting what it voids."""
        head, forget_from = batch.head, batch.forget_from
        places = [event.block_number for event in batch.events]
        first = min(places if forget_from is None else [forget_from, *places], default=head.number)
        before = self._count_from(first)
        with self._rows:
            if forget_from is not None:
                for table, column in (("events", "block"), ("heads", "number")):
                    self._rows.execute(f"DELETE FROM {table} WHERE {column} >= ?", (forget_from,))
            self._rows.executemany(
                "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_to_row, batch.events)
            )
            place = (head.number, head.block_hash, head.parent_hash, head.timestamp_s, str(head.base_fee_wei))
            self._rows.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", place)
            oldest = "SELECT number FROM heads ORDER BY number DESC LIMIT 1 OFFSET ?"
            self._rows.execute(f"DELETE FROM heads WHERE number < ({oldest})", (REMEMBERED_HEADS - 1,))
        self._count += self._count_from(first) - before

    def put_number(self, transaction_hash: bytes, found: dict[str, Any] | None) -> None:
        """Stores the number that a conviction's transaction shows; None if it shows none."""
        with self._rows:
            row = (transaction_hash, json.dumps(found))
            self._rows.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?)", row)

    def put_report(self, task: bytes, index: int, one: Reported, signature: bytes) -> None:
        """Stores a report of round `index`. An earlier report on the same claim stays."""
        row = (*one.place, one.claim_root, one.account, json.dumps(one.said), signature)
        with self._rows:
            self._rows.execute(
                "INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (task, index, *row)
            )

    def list_reports(self, task: bytes, index: int, *, of_losses: bool = False) -> list[Reported]:
        """Returns the nodes' reports on round `index`, even on claims that a reorg removed. With `of_losses`,
        only losses."""
        rows = self._rows.execute(
            "SELECT slot, draw, rank, claim, account, said FROM reports WHERE task = ? AND round = ?"
            " AND draw <= ?",
            (task, index, LOSS if of_losses else DRAWS_MAX),
        )
        return [
            Reported(slot, draw, rank, claim, account, json.loads(said))
            for slot, draw, rank, claim, account, said in rows
        ]

    def list_distances(self, task: bytes, first: int) -> list[tuple[int, Reported]]:
        """Returns what auditors report of distances in the rounds from `first` on, with the rounds."""
        rows = self._rows.execute(
            "SELECT round, slot, draw, rank, claim, account, said FROM reports WHERE task = ? AND round >= ?"
            " AND draw >= 0",
            (task, first),
        )
        return [
            (index, Reported(slot, draw, rank, claim, account, json.loads(said)))
            for index, slot, draw, rank, claim, account, said in rows
        ]

    def forget_told(self) -> None:
        """Deletes what was computed from events, before all are folded again."""
        with self._rows:
            self._rows.execute("DELETE FROM lines")
            self._rows.execute("DELETE FROM rounds")

    def put_lines(self, lines: Sequence[tuple[bytes, int, int, str]]) -> None:
        """Stores lines that describe events: task, block, log index, text."""
        with self._rows:
            self._rows.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", lines)

    def put_round(self, task: bytes, number: int, document: dict[str, Any]) -> None:
        """Stores a round as it was when the contracts forgot it."""
        with self._rows:
            short = {key: value for key, value in document.items() if key != "slots"}
            row = (task, number, json.dumps(document), json.dumps(short))
            self._rows.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?)", row)

    def find_round(self, task: bytes, number: int, *, is_short: bool = False) -> dict[str, Any] | None:
        """Returns such a round, or None. `is_short` leaves out its slots, for a table."""
        column = "short" if is_short else "document"
        query = f"SELECT {column} FROM rounds WHERE task = ? AND number = ?"
        found = self._rows.execute(query, (task, number)).fetchone()
        return None if found is None else dict(json.loads(found[0]))

    def list_lines(self, task: bytes, before: tuple[int, int], limit: int) -> list[tuple[int, int, str]]:
        """Returns the newest lines of a task before a place (block, log index). The newest come first, and
        all lines of an event together."""
        rows = self._rows.execute(
            "SELECT block, log, group_concat(line, char(10)) FROM lines"
            " WHERE task = ? AND (block, log) < (?, ?) GROUP BY block, log"
            " ORDER BY block DESC, log DESC LIMIT ?",
            (task, *before, limit),
        )
        return rows.fetchall()

    def has_lines(self, task: bytes, block: int) -> bool:
        """Returns whether something happened in a task in a block."""
        query = "SELECT 1 FROM lines WHERE task = ? AND block = ? LIMIT 1"
        return self._rows.execute(query, (task, block)).fetchone() is not None

    def get_line(self, task: bytes, event: Event) -> str:
        """Returns the line that describes an event, empty if there is none."""
        place = (event.block_number, event.log_index)
        rows = self._rows.execute(
            "SELECT line FROM lines WHERE task = ? AND block = ? AND log = ?", (task, *place)
        )
        return "\n".join(line for (line,) in rows)

    def list_heads(self) -> list[Head]:
        """Returns the newest heads whose events are stored, ascending."""
        rows = self._rows.execute("SELECT number, hash, parent, seconds, fee FROM heads ORDER BY number")
        return [Head(number, name, parent, seconds, int(fee)) for number, name, parent, seconds, fee in rows]

    def list_blocks(self) -> Iterator[list[Event]]:
        """Yields all events, a few blocks at a time, in the chain's order. The index may grow meanwhile."""
        after = -1
        while True:
            blocks = self._rows.execute(
                "SELECT DISTINCT block FROM events WHERE block > ? ORDER BY block LIMIT ?",
                (after, BLOCKS_AT_ONCE),
            ).fetchall()
            if not blocks:
                return
            last = blocks[-1][0]
            yield self._select("WHERE block > ? AND block <= ?", (after, last))
            after = last

    def list_of_subject(self, subject: bytes) -> list[Event]:
        """Returns the events of a dispute, a query or a contest."""
        return self._select("WHERE subject = ?", (subject,))

    def find_number(self, transaction_hash: bytes) -> tuple[bool, dict[str, Any] | None]:
        """Returns whether a transaction was read already, and what it shows."""
        row = self._rows.execute("SELECT found FROM numbers WHERE transaction_hash = ?", (transaction_hash,))
        found = row.fetchone()
        return (False, None) if found is None else (True, json.loads(found[0]))

    def count_events(self) -> int:
        """Returns how many events are stored. They are counted once, when the file is opened, because each
        page asks."""
        return self._count

    def _count_from(self, block: int) -> int:
        ((count,),) = self._rows.execute("SELECT count(*) FROM events WHERE block >= ?", (block,))
        return int(count)

    def _select(self, condition: str, values: Sequence[Any]) -> list[Event]:
        rows = self._rows.execute(
            f"SELECT {EVENT_COLUMNS} FROM events {condition} ORDER BY block, log", values
        )
        return [_from_row(*row) for row in rows]


@cache
def _index_entries(contract: str) -> dict[str, Entry]:
    return {entry.name: entry for entry in load_own_abi(contract) if entry.kind == "event"}


def _to_row(event: Event) -> tuple[Any, ...]:
    values, entry = event.arguments, _index_entries(event.contract)[event.name]
    data = encode_values(entry.inputs, list(values.values()))
    subject = values.get("dispute", values.get("id"))
    place = (event.block_number, event.log_index, event.block_hash, event.transaction_hash)
    return (*place, event.contract, event.name, values.get("task"), subject, data)


def _from_row(
    block: int, log: int, block_hash: bytes, transaction_hash: bytes, contract: str, name: str, data: bytes
) -> Event:
    entry = _index_entries(contract)[name]
    values = decode_values(entry.inputs, data)
    arguments = {one.name: value for one, value in zip(entry.inputs, values, strict=True)}
    return Event(contract, name, arguments, block, log, block_hash, transaction_hash)
