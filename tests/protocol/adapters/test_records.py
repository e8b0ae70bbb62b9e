from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS

SAMPLES: dict[Any, Any] = {
    int: 7,
    bool: True,
    str: "text",
    bytes: b"r" * 32,
    tuple[int, ...]: (1, 2),
    tuple[bytes, ...]: (b"a" * 32,),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_every_record_can_be_kept(tmp_path: Path, kind: type[Any]) -> None:
    record = kind(*(SAMPLES[field.type] for field in fields(kind)))
    with Journal(tmp_path / "journal", RECORDS) as journal:
        journal.append(record)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        assert list(journal.replay()) == [record]
    with pytest.raises(AttributeError):
        record.task = b""
