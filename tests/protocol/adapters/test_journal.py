import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS, BoundarySaltsDrawn, ClaimMade, RoundEnded, TransactionSigned
from protocol.spec.errors import EnvironmentFault, InvalidInput

TASK = b"t" * 32


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
    return tmp_path / "node" / "journal.jsonl"


def make_records() -> list[Any]:
    return [
        BoundarySaltsDrawn(TASK, 1, (b"a" * 32, b"b" * 32)),
        ClaimMade(TASK, 1, b"c" * 32, b"d" * 32),
        TransactionSigned(0, b"h" * 32, b"\x02raw", "commit"),
        RoundEnded(TASK, 1),
    ]


def write(path: Path, records: list[Any]) -> None:
    with Journal(path, RECORDS) as journal:
        for record in records:
            journal.append(record)


def read(path: Path) -> list[Any]:
    with Journal(path, RECORDS) as journal:
        return list(journal.replay())


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
    with Journal(path, [Everything]) as journal:
        assert list(journal.replay()) == [record]


def test_the_file_is_private(path: Path) -> None:
    write(path, make_records())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        read(path)


def test_a_second_process_is_kept_out(path: Path) -> None:
    # A lock belongs to the open file, so a second opening in this process is refused as another's would be.
    with Journal(path, RECORDS), pytest.raises(EnvironmentFault, match="in use"):
        Journal(path, RECORDS)
    read(path)


def test_a_field_of_another_type_is_refused_without_showing_it(path: Path) -> None:
    with Journal(path, RECORDS) as journal:
        with pytest.raises(InvalidInput, match="BoundarySaltsDrawn.salts") as caught:
            journal.append(BoundarySaltsDrawn(TASK, 1, ["secret"]))  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)
        with pytest.raises(InvalidInput, match="RoundEnded.round"):
            journal.append(RoundEnded(TASK, True))
        assert list(journal.replay()) == []


def test_an_unknown_kind_is_refused(path: Path) -> None:
    write(path, make_records())
    with pytest.raises(InvalidInput, match="not a record of this journal"):
        Journal(path, [RoundEnded])
    with Journal(path.with_name("other"), [RoundEnded]) as journal, pytest.raises(InvalidInput):
        journal.append(make_records()[0])


def test_a_kind_with_an_unwritable_field_is_refused(path: Path) -> None:
    @dataclass(frozen=True)
    class Measured:
        loss: float

    with pytest.raises(InvalidInput, match="Measured: loss"):
        Journal(path, [Measured])
