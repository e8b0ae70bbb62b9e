import subprocess
import sys

import pytest

from protocol.spec.json_text import MAX_BRACKETS, parse_json

DEEP = 1 << 16
HOSTILE = f"import eth_account; from protocol.spec.json_text import parse_json; parse_json(b'[' * {DEEP})"


def test_parse_json_reads_what_documents_are_made_of() -> None:
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * (MAX_BRACKETS + 1), b"[" * MAX_BRACKETS])
def test_parse_json_refuses_everything_else(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_parse_json_of_a_strangers_brackets_does_not_end_the_process() -> None:
    process = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, check=False)
    assert process.returncode == 1 and b"ValueError" in process.stderr
