"""Keeps one account's waiting transactions, by nonce, in a file of its home.

A transaction is written down before it is sent. So after a crash it is known which may still be mined, and
which call each nonce belongs to. All processes of a home share the file, so a nonce is used once.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from touchstone.protocol.adapters.chain.fees import FeeOffer

QUEUE_FILE = "transactions.sqlite"
LOCK_TIMEOUT_S = 30.0
PRIVATE_MODE = 0o600
_TABLE = (
    "CREATE TABLE IF NOT EXISTS waiting (account TEXT, nonce INTEGER, target TEXT, data BLOB, gas INTEGER,"
    " max_fee TEXT, tip TEXT, hashes TEXT, block INTEGER, PRIMARY KEY (account, nonce))"
)


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Waiting:
    """A signed transaction. `to` is empty if it creates a contract. `hashes` are the hashes of all signed
    versions, newest last. `from_block` is the head when it was first signed."""

    nonce: int
    to: str
    data: bytes
    gas: int
    fee: FeeOffer
    hashes: tuple[bytes, ...]
    from_block: int

    def sign_again(self, fee: FeeOffer, transaction_hash: bytes) -> "Waiting":
        """Returns the same call with another fee offer."""
        return replace(self, fee=fee, hashes=(*self.hashes, transaction_hash))


class TransactionQueue:
    """The waiting transactions of one account. If the disk refuses the file, this process goes on in memory,
    because sending matters more than knowing the queue after a restart."""

    def __init__(self, account: str, path: Path | None = None) -> None:
        """Opens the queue in the file `path`, or in memory for this process alone (None)."""
        self._account = account
        self._own: dict[int, Waiting] = {}
        if path is not None:
            _make_private(path)
        self._rows = sqlite3.connect(path or ":memory:", timeout=LOCK_TIMEOUT_S, isolation_level=None)
        with self._tolerant():
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=FULL")
            self._rows.execute(_TABLE)

    def close(self) -> None:
        """Closes the file."""
        self._rows.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes from using nonces inside the `with` block."""
        with self._tolerant():
            self._rows.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            if self._rows.in_transaction:
                with self._tolerant():
                    self._rows.execute("COMMIT")

    def list_all(self) -> list[Waiting]:
        """Returns all waiting transactions, the lowest nonce first."""
        found = {one.nonce: one for one in self._read()}
        for nonce, one in self._own.items():
            if nonce not in found or len(found[nonce].hashes) < len(one.hashes):
                found[nonce] = one
        return [found[nonce] for nonce in sorted(found)]

    def find(self, nonce: int) -> Waiting | None:
        """Returns the waiting transaction with this nonce."""
        return next((one for one in self.list_all() if one.nonce == nonce), None)

    def put(self, one: Waiting) -> None:
        """Writes a transaction down, in place of an earlier one with its nonce."""
        self._own[one.nonce] = one
        hashes = json.dumps([name.hex() for name in one.hashes])
        fees = (str(one.fee.max_fee_wei), str(one.fee.tip_wei))
        row = (self._account, one.nonce, one.to, one.data, one.gas, *fees, hashes, one.from_block)
        with self._tolerant():
            self._rows.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def drop(self, nonce: int) -> None:
        """Removes a transaction, because it or another one with its nonce was mined."""
        self._own.pop(nonce, None)
        with self._tolerant():
            self._rows.execute("DELETE FROM waiting WHERE account = ? AND nonce = ?", (self._account, nonce))

    def _read(self) -> list[Waiting]:
        rows: list[tuple[int, str, bytes, int, str, str, str, int]] = []
        with self._tolerant():
            rows = self._rows.execute(
                "SELECT nonce, target, data, gas, max_fee, tip, hashes, block FROM waiting WHERE account = ?",
                (self._account,),
            ).fetchall()
        return [
            Waiting(
                nonce, to, data, gas, FeeOffer(int(fee), int(tip)),
                tuple(map(bytes.fromhex, json.loads(hashes))), block,
            )
            for nonce, to, data, gas, fee, tip, hashes, block in rows
        ]  # fmt: skip

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            log.warning("the file of waiting transactions cannot be used: %s", error)


def _make_private(path: Path) -> None:
    """Makes the file, and SQLite's files beside it, private: SQLite gives its helper files the same mode. If
    the disk refuses, the queue goes on in memory, as `TransactionQueue` says."""
    try:
        # Do not open an existing file: closing it would drop SQLite's locks of this process.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_MODE))
        for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            if one.exists():
                one.chmod(PRIVATE_MODE)
    except OSError as error:
        log.warning("the file of waiting transactions cannot be made private: %s", error)
