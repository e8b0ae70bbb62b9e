from pathlib import Path
from typing import Any, get_type_hints

import pytest

from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS

SAMPLES: dict[Any, Any] = {int: 7, str: "0xa", bool: True, bytes: b"r" * 32, tuple[bytes, ...]: (b"a" * 32,)}


@pytest.mark.parametrize("kind", RECORDS)
def test_every_record_can_be_kept(tmp_path: Path, kind: type[Any]) -> None:
    record = kind(*(SAMPLES[hint] for hint in get_type_hints(kind).values()))
    with Journal(tmp_path / "journal", RECORDS) as journal:
        journal.append(record)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        assert list(journal.replay()) == [record]
    with pytest.raises(AttributeError):
        record.task = b""
