"""Finds where in a word no merge of a BPE tokenizer can make one token of two."""

import re
from typing import Any

BYTE = re.compile("<0x[0-9A-F]{2}>")
"""A token that stands for one byte of a character that is no token."""


class MergeRules:
    """The merges of a `model` of tokenizer.json, if it is BPE without affixes.

    A merge joins two tokens. If no merge joins a token that ends as the one before a boundary with a token
    that begins as the one behind it, no merge ever crosses the boundary, and neither side depends on the
    other.
    """

    def __init__(self, model: dict[str, Any]) -> None:
        affixes = ("continuing_subword_prefix", "end_of_word_suffix")
        is_known = model["type"] == "BPE" and not any(model.get(name) for name in affixes)
        self._has_bytes = bool(model.get("byte_fallback"))
        self._names = {number: name for name, number in model["vocab"].items()} if is_known else {}
        self._unknown = model.get("unk_token")
        merges = model["merges"] if is_known else ()
        self._ends = {(self._cut(before, -1), self._cut(behind, 0)) for before, behind in merges}
        self._found: dict[tuple[int, int], bool] = {}

    def joins(self, before: int, behind: int) -> bool:
        """Returns whether a merge may cross the boundary between two tokens of a word. Unknown characters may
        be one token together; of an added token nothing is known."""
        pair = before, behind
        if pair not in self._found:
            names = self._names.get(before), self._names.get(behind)
            self._found[pair] = self._is_joined(*names)
        return self._found[pair]

    def _is_joined(self, before: str | None, behind: str | None) -> bool:
        if not before or not behind or self._unknown in (before, behind):
            return True
        return (self._cut(before, -1), self._cut(behind, 0)) in self._ends

    def _cut(self, token: str, place: int) -> str:
        """Returns the first or the last unit of a token, which no merge divides."""
        return token if self._has_bytes and BYTE.fullmatch(token) else token[place]
