"""JSON that strangers wrote."""

import json
from typing import Any

MAX_BRACKETS = 16_384
"""Python's parser recurses at each. eth_account raises the interpreter's limit of recursion to 100,000, which
lets 64 KiB of opening brackets run into the end of the stack and end the process."""


def parse_json(text: bytes) -> Any:
    """The value of a JSON text. Raises ValueError for anything else, and for more lists and objects than any
    document of this protocol has."""
    brackets = text.count(b"[") + text.count(b"{")
    if brackets > MAX_BRACKETS:
        raise ValueError(f"at most {MAX_BRACKETS} lists and objects were expected, not {brackets}")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
