import re

import pytest

from touchstone.protocol.adapters.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.wire import conventions


@pytest.mark.parametrize("kind", BlobKind)
def test_a_path_names_its_key(kind: BlobKind) -> None:
    key = BlobKey(kind, bytes(range(32)))
    assert conventions.format_path(conventions.BLOB, key) == f"/blob/{kind.value}/{bytes(range(32)).hex()}"
    _, _, name, root = conventions.format_path(conventions.CHUNKS, key).split("/")
    assert conventions.parse_key(name, root) == key


def test_the_pattern_has_no_room_for_a_name() -> None:
    assert re.search(r"\[0-9a-f\]\{64\}", conventions.KEY_PATTERN)
    assert "." not in conventions.KEY_PATTERN and "*" not in conventions.KEY_PATTERN
