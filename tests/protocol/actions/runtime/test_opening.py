"""Every record of every room can be kept."""

from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest

from protocol.actions.runtime.opening import RECORDS
from protocol.adapters.journal import Journal

SAMPLES: dict[Any, Any] = {int: 7, str: "0xa", bool: True, bytes: b"r" * 32}


def make_sample(hint: Any, name: str = "") -> Any:
    """A value of a type, of a container field by field."""
    if name == "signature":
        return b"s" * 64
    if get_origin(hint) is UnionType:
        return make_sample(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return tuple(make_sample(one) for one in get_args(hint) if one is not ...)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if is_dataclass(hint):
        kind = cast(type[Any], hint)
        return kind(*(make_sample(one, field) for field, one in get_type_hints(kind).items()))
    return SAMPLES[hint]


@pytest.mark.parametrize("kind", RECORDS)
def test_every_record_can_be_kept(tmp_path: Path, kind: type[Any]) -> None:
    record = make_sample(kind)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        journal.append(record)
    with Journal(tmp_path / "journal", RECORDS) as journal:
        assert list(journal.replay()) == [record]
    with pytest.raises(AttributeError):
        record.task = b""
