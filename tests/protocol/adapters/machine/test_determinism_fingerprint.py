"""What a home remembers of the bits that its machine computed."""

from pathlib import Path

import pytest

from touchstone.protocol.adapters.machine.determinism_fingerprint import (
    FILE_NAME,
    DeterminismFingerprint,
    read_bits,
    write_bits,
)

BITS = {
    "aa": DeterminismFingerprint("torch 1", "11" * 32),
    "bb": DeterminismFingerprint("torch 2", "22" * 32, unlike_until=5),
}


def test_what_was_written_is_read_and_replaced_whole(tmp_path: Path) -> None:
    assert read_bits(tmp_path) == {}
    for bits in (BITS, {"aa": BITS["bb"]}):
        write_bits(tmp_path, bits)
        assert read_bits(tmp_path) == bits
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"aa": {"machine": 1, "step_root": ""}}'])
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    assert read_bits(tmp_path) == {}
