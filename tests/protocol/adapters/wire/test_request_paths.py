import re

import pytest

from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.wire import request_paths


@pytest.mark.parametrize("kind", BlobKind)
def test_a_path_names_its_key(kind: BlobKind) -> None:
    key = BlobKey(kind, bytes(range(32)))
    assert request_paths.format_path(request_paths.BLOB, key) == f"/blob/{kind.value}/{key.root.hex()}"
    _, _, name, root = request_paths.format_path(request_paths.CHUNKS, key).split("/")
    assert request_paths.parse_key(name, root) == key


def test_the_pattern_has_no_room_for_a_name() -> None:
    assert re.search(r"\[0-9a-f\]\{64\}", request_paths.KEY_PATTERN)
    assert "." not in request_paths.KEY_PATTERN and "*" not in request_paths.KEY_PATTERN
