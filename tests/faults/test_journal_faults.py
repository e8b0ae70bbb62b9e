"""A journal after a kill, on a bad disk and a full one, and after parts of it were deleted or restored."""

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.protocol.adapters.journalled import RECORDS, ClaimMade
from touchstone.protocol.adapters.journal import Journal, require_free
from touchstone.protocol.spec.errors import EnvironmentFault, TouchstoneError

TASK = b"t" * 32
PRELUDE = """
import os, resource, shutil, signal, sys
from pathlib import Path
from touchstone.protocol.adapters.journal import Journal, require_free
from tests.protocol.adapters.journalled import RECORDS, ClaimMade
from touchstone.protocol.spec.errors import EnvironmentFault

def make(number):
    return ClaimMade(b"t" * 32, number, b"c" * 32, b"d" * 32)

path = Path(sys.argv[1])
"""
WRITE_ON = """
with Journal(path, RECORDS) as journal:
    for number in range(len(list(journal.replay())), 10**9):
        journal.append(make(number))
        print(number, flush=True)
"""
WRITE_SOME_AND_DIE = """
journal = Journal(path, RECORDS)
for number in range(4):
    journal.append(make(number))
    shutil.copy(f"{path}-last", f"{path}-last.{number + 1}")
    print(os.path.getsize(f"{path}-wal"))
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
WRITE_ON_A_DISK_THAT_FAILS = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(path, RECORDS)
for number in range(3):
    journal.append(make(number))
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{path}-wal") + 1000, resource.RLIM_INFINITY))
try:
    journal.append(make(3))
except EnvironmentFault as fault:
    print(fault)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(len(list(journal.replay())), flush=True)
if sys.argv[2] == "goes on":
    journal.append(make(7))
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_writer(script: str, *words: object) -> str:
    """What a process says before it kills itself."""
    command = [sys.executable, "-c", PRELUDE + script, *map(str, words)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert found.returncode == -signal.SIGKILL
    return found.stdout


def read_rounds(path: Path) -> list[int]:
    with Journal(path, RECORDS) as journal:
        return [record.round for record in journal.replay()]


def append(path: Path, *rounds: int) -> None:
    with Journal(path, RECORDS) as journal:
        for number in rounds:
            journal.append(ClaimMade(TASK, number, b"c" * 32, b"d" * 32))


def make_new(path: Path) -> None:
    """A database as it is before it is written to for the first time."""
    append(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def find(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@contextmanager
def edit(path: Path) -> Iterator[sqlite3.Connection]:
    """With another tool."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three records, closed in order."""
    append(tmp_path / "journal", 0, 1, 2)
    return tmp_path / "journal"


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, list[int]]:
    """Four records of a process that was killed, and the length of the -wal file after each."""
    path = tmp_path / "killed"
    return path, [int(word) for word in run_writer(WRITE_SOME_AND_DIE, path).split()]


# Kills
def test_what_append_returned_for_survives_every_kill(tmp_path: Path) -> None:
    path, command = tmp_path / "journal", [sys.executable, "-c", PRELUDE + WRITE_ON]
    for life in range(8):
        with subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            promised = [writer.stdout.readline() for _ in range(3 + 7 * life)]
            writer.kill()
            promised += writer.stdout.read().splitlines()
        rounds = read_rounds(path)
        assert rounds == list(range(len(rounds))) and int(promised[-1]) < len(rounds)


def test_a_cut_anywhere_loses_only_the_unfinished_record(killed: tuple[Path, list[int]]) -> None:
    path, (*_, third, fourth) = killed
    wal = find(path, "-wal").read_bytes()
    for index, length in enumerate([*range(third, fourth, 97), fourth - 1, fourth]):
        copy = path.with_name(f"copy{index}")
        shutil.copy(path, copy)
        shutil.copy(find(path, "-last.3"), find(copy, "-last"))
        find(copy, "-wal").write_bytes(wal[:length])
        find(copy, "-wal").chmod(0o600)
        assert read_rounds(copy) == ([0, 1, 2, 3] if length == fourth else [0, 1, 2])
        append(copy, 9)
        assert read_rounds(copy)[-2:] == ([3, 9] if length == fourth else [2, 9])


def test_a_kill_before_the_first_record_is_no_loss(tmp_path: Path) -> None:
    """The last number is made after the database."""
    path = tmp_path / "journal"
    make_new(path)
    find(path, "-last").unlink()
    append(path, 0)
    assert read_rounds(path) == [0]


def test_a_database_that_was_copied_without_its_other_files_is_no_new_one(tmp_path: Path) -> None:
    """All records lay in the -wal file: the copy is as empty as a database that was just made."""
    path, copy = tmp_path / "killed", tmp_path / "copy"
    run_writer(WRITE_SOME_AND_DIE, path)
    shutil.copy(path, copy)
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="lost records.*0 of 0; copy-last has nothing"):
            read_rounds(copy)
    copy.unlink()
    shutil.copy(find(path, "-wal"), find(copy, "-wal"))
    with pytest.raises(EnvironmentFault, match="lost records.*no database"):
        read_rounds(copy)
    assert not copy.exists()


# Parts that are gone
def test_a_cut_that_takes_a_record_which_was_whole_is_found(killed: tuple[Path, list[int]]) -> None:
    path, (*_, fourth) = killed
    os.truncate(find(path, "-wal"), fourth - 1)
    with pytest.raises(EnvironmentFault, match="lost records.*3 of 3; .*-last has 4") as caught:
        read_rounds(path)
    assert not caught.value.retryable


@pytest.mark.parametrize("suffix", ["", "-wal", "-last"])
def test_a_deleted_file_is_found(killed: tuple[Path, list[int]], suffix: str) -> None:
    path, _ = killed
    find(path, suffix).unlink()
    with pytest.raises(EnvironmentFault, match="lost records.*Restore all files"):
        read_rounds(path)
    # A refusal changes nothing: the same again.
    with pytest.raises(EnvironmentFault, match="lost records.*Restore all files"):
        read_rounds(path)


def test_an_older_copy_of_the_database_is_found(path: Path) -> None:
    older = path.read_bytes()
    append(path, 3)
    newer = path.read_bytes()
    path.write_bytes(older)
    with pytest.raises(EnvironmentFault, match="lost records"):
        read_rounds(path)
    path.write_bytes(newer)
    assert read_rounds(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("look", [read_rounds, require_free])
def test_an_older_log_beside_the_database_is_not_written_into_it(
    killed: tuple[Path, list[int]], look: Callable[[Path], object]
) -> None:
    """A -wal file out of a backup: with the right one all is there again."""
    path, _ = killed
    older = find(path, "-wal").read_bytes()
    append(path, *range(4, 99))
    newer = path.read_bytes()
    find(path, "-wal").write_bytes(older)
    find(path, "-wal").chmod(0o600)
    with pytest.raises(EnvironmentFault, match="Restore all files"):
        look(path)
    assert (path.read_bytes(), find(path, "-wal").read_bytes()) == (newer, older)
    find(path, "-wal").unlink()
    assert read_rounds(path) == list(range(99))


def test_statistics_of_another_tool_are_no_damage(path: Path) -> None:
    with edit(path) as connection:
        connection.execute("ANALYZE")
    append(path, 3)
    assert read_rounds(path) == [0, 1, 2, 3]


def test_an_empty_last_number_is_no_loss_only_where_there_was_no_record(tmp_path: Path, path: Path) -> None:
    fresh = tmp_path / "fresh"
    make_new(fresh)
    for one in (fresh, path):
        find(one, "-last").write_bytes(b"")
    append(fresh, 0)
    assert read_rounds(fresh) == [0]
    with pytest.raises(EnvironmentFault, match="lost records"):
        read_rounds(path)
    with edit(path) as connection:
        connection.execute("DELETE FROM records")
    with pytest.raises(EnvironmentFault, match="lost records"):
        read_rounds(path)


def test_after_a_power_cut_the_last_number_may_be_behind(path: Path) -> None:
    last = find(path, "-last")
    behind = last.read_bytes()
    append(path, 3, 4)
    newest = last.read_bytes()
    last.write_bytes(behind)
    assert read_rounds(path) == [0, 1, 2, 3, 4]
    assert last.read_bytes() == newest


EDITS = {
    "the first": "DELETE FROM records WHERE number = 1",
    "the middle": "DELETE FROM records WHERE number = 2",
    "the last": "DELETE FROM records WHERE number = 3",
    "all": "DELETE FROM records",
    "all and the count": "DELETE FROM records; DELETE FROM sqlite_sequence",
    "the table": "DROP TABLE records",
    "renumbered": "UPDATE records SET number = 9 WHERE number = 3",
    "a trigger": "CREATE TRIGGER one AFTER INSERT ON records BEGIN DELETE FROM records WHERE number = 1; END",
    "another kind": "UPDATE records SET kind = 'AuditMade' WHERE number = 2",
    "no bytes": "PRAGMA ignore_check_constraints = ON; UPDATE records SET fields = 7 WHERE number = 3",
}


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_records_that_were_taken_or_changed_are_found(path: Path, statement: str) -> None:
    with edit(path) as connection:
        connection.executescript(statement)
    with pytest.raises(TouchstoneError, match=r"damaged|lost records|not a record of this journal"):
        read_rounds(path)


def test_a_last_record_taken_while_the_last_number_was_behind_is_found(path: Path) -> None:
    behind = find(path, "-last").read_bytes()
    append(path, 3)
    find(path, "-last").write_bytes(behind)
    with edit(path) as connection:
        connection.execute("DELETE FROM records WHERE number = 4")
    with pytest.raises(EnvironmentFault, match="3 of 4; .*-last has 3"):
        read_rounds(path)


# Damage
@pytest.mark.parametrize("suffix", ["", "-wal", "-last"])
def test_a_flipped_bit_is_found_or_changes_nothing(killed: tuple[Path, list[int]], suffix: str) -> None:
    path, _ = killed
    if not suffix:
        append(path, 4)  # Closed in order: everything is in the database.
    expected = list(range(4 if suffix else 5))
    names, found = [name for name in ("", "-wal", "-last") if find(path, name).exists()], 0
    whole = find(path, suffix).read_bytes()
    for at in range(len(whole)):
        if at % 4096 > 40 and at % 31:  # Mostly what stands at the head of a page.
            continue
        copy = path.with_name(f"copy{at}")
        for name in names:
            shutil.copy(find(path, name), find(copy, name))
        find(copy, suffix).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            assert read_rounds(copy) == expected
        except TouchstoneError:
            found += 1
        else:
            added = try_to_append(copy, 9)
            assert read_rounds(copy) == [*expected, *added]
    assert found


def try_to_append(path: Path, number: int) -> list[int]:
    """What `append` returned for."""
    try:
        append(path, number)
    except EnvironmentFault:
        return []
    return [number]


def test_a_flipped_bit_of_a_record_is_found(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b'"round":1') - 9] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        EnvironmentFault, match="damaged.*row 2 missing from index second_copies.*Restore all files"
    ):
        read_rounds(path)
    assert path.read_bytes() == content


def test_a_damaged_page_is_found(path: Path) -> None:
    append(path, *range(3, 200))
    content = bytearray(path.read_bytes())
    for page in range(0, len(content), 4096):
        damaged = bytearray(content)
        damaged[page : page + 4096] = bytes(4096)
        path.write_bytes(damaged)
        with pytest.raises(TouchstoneError, match="damaged|no journal"):
            read_rounds(path)


def test_a_truncated_database_is_found(path: Path) -> None:
    append(path, *range(3, 200))
    content = path.read_bytes()
    for length in range(0, len(content), 1024):
        path.write_bytes(content[:length])
        with pytest.raises(TouchstoneError, match="damaged|no journal"):
            read_rounds(path)


# Disks that refuse
def test_a_full_disk_leaves_nothing_of_the_record(path: Path) -> None:
    big = b"c" * 32
    with Journal(path, RECORDS) as journal:
        [pages] = journal._connection.execute("PRAGMA page_count").fetchone()
        journal._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(EnvironmentFault, match="cannot be written.*full.*Free some space"):
            for number in count(3):
                journal.append(ClaimMade(TASK, number, big, big))
        kept = [record.round for record in journal.replay()]
        assert kept == list(range(len(kept))) == list(range(number))
        journal._connection.execute(f"PRAGMA max_page_count = {pages + 9}")
        journal.append(ClaimMade(TASK, number, big, big))
    assert read_rounds(path) == [*kept, number]


@pytest.mark.parametrize(("then", "expected"), [("dies", [0, 1, 2]), ("goes on", [0, 1, 2, 7])])
def test_a_failed_write_leaves_nothing_of_the_record(tmp_path: Path, then: str, expected: list[int]) -> None:
    # A limit on files' sizes has the system write a part and refuse the rest.
    path = tmp_path / "journal"
    told, length = run_writer(WRITE_ON_A_DISK_THAT_FAILS, path, then).splitlines()
    assert "cannot be written" in told and length == "3"
    assert read_rounds(path) == expected


def refuse(*_: object) -> int:
    raise OSError(errno.EIO, "Input/output error")


def test_a_record_counts_though_the_last_number_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Journal(path, RECORDS) as journal:
        monkeypatch.setattr(os, "pwrite", refuse)
        journal.append(ClaimMade(TASK, 3, TASK, TASK))
        monkeypatch.undo()
    assert "journal-last: cannot be written: Input/output error" in caplog.text
    assert read_rounds(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("opens", [lambda path: append(path.with_name("new"), 0), read_rounds])
def test_a_folder_that_cannot_be_written_is_told_of(
    path: Path, monkeypatch: pytest.MonkeyPatch, opens: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(EnvironmentFault, match="cannot be written.*Input/output error"):
        opens(path)
