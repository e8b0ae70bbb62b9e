"""What is written comes back, to one process of one account, and to nobody else."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.adapters.journalled import RECORDS, AccusationMade, ClaimMade, SaltsDrawn
from touchstone.protocol.adapters.journal import Journal, require_free
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

TASK = b"t" * 32
OPENER = """
import sys
from pathlib import Path
from touchstone.protocol.adapters.journal import Journal, require_free
from tests.protocol.adapters.journalled import RECORDS
from touchstone.protocol.spec.errors import EnvironmentFault
try:
    Journal(Path(sys.argv[1]), RECORDS)
except EnvironmentFault as fault:
    print(fault)
"""


@dataclass(frozen=True)
class Everything:
    number: int
    text: str
    flag: bool
    data: bytes
    numbers: tuple[int, ...]
    items: tuple[bytes, ...]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node" / "journal.sqlite"


def make_records() -> list[Any]:
    return [
        SaltsDrawn(TASK, 1, (b"a" * 32, b"b" * 32)),
        ClaimMade(TASK, 1, b"c" * 32, b"d" * 32),
        AccusationMade(TASK, 1, 0, 2, 1, 3, True, b"s" * 32),
        SaltsDrawn(TASK, 2, ()),
    ]


def write(path: Path, records: Sequence[Any]) -> None:
    with Journal(path, RECORDS) as journal:
        for record in records:
            journal.append(record)


def read(path: Path, kinds: Sequence[type[Any]] = RECORDS) -> list[Any]:
    with Journal(path, kinds) as journal:
        return list(journal.replay())


def change(path: Path, statement: str) -> None:
    """With another tool."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_records_come_back_in_order(path: Path) -> None:
    write(path, make_records()[:2])
    write(path, make_records()[2:])
    assert read(path) == make_records()


def test_a_journal_is_read_while_it_is_written(path: Path) -> None:
    with Journal(path, RECORDS) as journal:
        assert list(journal.replay()) == []
        for count, record in enumerate(make_records(), 1):
            journal.append(record)
            assert list(journal.replay()) == make_records()[:count]


@given(
    st.builds(
        Everything,
        st.integers(),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.booleans(),
        st.binary(),
        st.lists(st.integers()).map(tuple),
        st.lists(st.binary()).map(tuple),
    )
)
def test_every_field_type_survives(tmp_path_factory: pytest.TempPathFactory, record: Everything) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    with Journal(path, [Everything]) as journal:
        journal.append(record)
    assert read(path, [Everything]) == [record]


def test_threads_write_side_by_side(path: Path) -> None:
    def add(journal: Journal, index: int) -> None:
        for number in range(25):
            journal.append(ClaimMade(bytes([index]) * 32, number, TASK, TASK))

    with Journal(path, RECORDS) as journal:
        threads = [threading.Thread(target=add, args=(journal, index)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = read(path)
    for index in range(8):
        assert [one.round for one in records if one.task[0] == index] == list(range(25))


def test_every_record_waits_for_the_disk(path: Path) -> None:
    # SQLite's FULL: the -wal file is flushed with every record. No kill can show what a power cut would.
    with Journal(path, RECORDS) as journal:
        found = [journal._connection.execute(f"PRAGMA {name}") for name in ("synchronous", "journal_mode")]
        assert [cursor.fetchone() for cursor in found] == [(2,), ("wal",)]


# Who may open it
def test_all_files_are_private(path: Path) -> None:
    before = os.umask(0)
    try:
        with Journal(path, RECORDS) as journal:
            journal.append(make_records()[0])
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-last"), 0o600)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-last"])
def test_a_file_that_is_open_to_others_is_refused(path: Path, suffix: str) -> None:
    write(path, make_records())
    file = path.with_name(path.name + suffix)
    file.touch()
    file.chmod(0o640)
    with pytest.raises(InvalidInput, match="chmod 600"):
        read(path)
    file.chmod(0o600)
    assert read(path) == make_records()


def test_a_second_process_is_kept_out(path: Path) -> None:
    # An opening in this process is refused as well, and does not cost the first one its lock.
    with Journal(path, RECORDS) as journal:
        with pytest.raises(EnvironmentFault, match=f"in use.*process {os.getpid()} .*Stop the other process"):
            Journal(path, RECORDS)
        command = [sys.executable, "-c", OPENER, str(path)]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "the journal is in use" in found.stdout and f"process {os.getpid()} has" in found.stdout
        journal.append(make_records()[0])
    assert read(path) == make_records()[:1]


def test_a_home_with_an_older_journal_is_refused(path: Path) -> None:
    older = path.with_name("journal.jsonl")
    path.parent.mkdir()
    older.write_text("{}\n")
    with pytest.raises(InvalidInput, match="older version.*until your claims are settled"):
        Journal(path, RECORDS)
    assert list(path.parent.iterdir()) == [older]
    older.rename(path.with_name("elsewhere"))
    assert read(path) == []


@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 7"])
def test_a_database_of_another_make_or_format_is_refused(path: Path, pragma: str) -> None:
    write(path, make_records())
    change(path, f"PRAGMA {pragma}")
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="no journal of this version"):
        read(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"some text that is longer than the header of a database" * 9])
def test_another_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="no journal of this version"):
        Journal(path, RECORDS)
    assert path.read_bytes() == content


# What may be in it
WRONG = [
    (SaltsDrawn(TASK, 1, ["secret"]), "salts"),  # type: ignore[arg-type]
    (SaltsDrawn(TASK, 1, (b"secret",)), "salts"),
    (SaltsDrawn(TASK, 1, [b"secret" + bytes(26)]), "read back"),  # type: ignore[arg-type]
    (ClaimMade(TASK, True, TASK, TASK), "round"),
    (ClaimMade(TASK, 1, TASK, None), "delta_root"),  # type: ignore[arg-type]
    (ClaimMade(TASK, object(), TASK, TASK), "object"),  # type: ignore[arg-type]
    (Everything(1, "secret", True, b"", (), ()), "Everything"),
    ("secret", "str"),
]


@pytest.mark.parametrize(("record", "place"), WRONG)
def test_what_could_not_be_read_back_is_refused_without_showing_it(
    path: Path, record: Any, place: str
) -> None:
    with Journal(path, RECORDS) as journal:
        with pytest.raises(InvalidInput, match=place) as caught:
            journal.append(record)
        assert "secret" not in str(caught.value) and "c2Vjc" not in str(caught.value)
        assert list(journal.replay()) == []


def test_a_journal_with_other_kinds_is_refused(path: Path) -> None:
    write(path, make_records())
    with pytest.raises(InvalidInput, match="record 1: expected one of ClaimMade"):
        Journal(path, [ClaimMade])


@pytest.mark.parametrize("names", [["task", "round"], ["task", "round", "salts", "more"], ["round", "salts"]])
def test_a_kind_whose_fields_have_changed_is_refused(path: Path, names: list[str]) -> None:
    types: dict[str, Any] = {"task": bytes, "round": int, "salts": tuple[bytes, ...], "more": int}
    write(path, make_records()[:1])
    changed = make_dataclass("SaltsDrawn", [(name, types[name]) for name in names], frozen=True)
    with pytest.raises(InvalidInput, match="the fields of SaltsDrawn"):
        Journal(path, [changed])


def test_a_free_journal_is_told_without_knowing_its_records(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    require_free(path)
    assert not path.exists(), "it only looks"
    with Journal(path, RECORDS) as journal:
        with pytest.raises(EnvironmentFault, match="use"):
            require_free(path)
        assert list(journal.replay()) == []
    require_free(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(InvalidInput, match="journal format 2"):
        require_free(path)
