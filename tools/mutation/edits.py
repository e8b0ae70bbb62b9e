"""Applies nested edits to a source text by byte offsets, as solc's syntax tree gives them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]


@dataclass(frozen=True)
class Edit:
    """Replaces bytes start..end by `build(inner)`, where `inner` is that text with the edits inside it done.

    If two edits have the same span, the later one in the list is the outer one. Spans nest or are apart."""

    start: int
    end: int
    build: Callable[[str], str]


def span(node: Node) -> tuple[int, int]:
    """Returns the (start, end) byte offsets of a syntax tree's node."""
    start, length, _ = node["src"].split(":")
    return int(start), int(start) + int(length)


def apply_edits(source: bytes, edits: Iterable[Edit]) -> str:
    """Returns the text of `source` (UTF-8) with all `edits` done."""
    numbered = sorted(enumerate(edits), key=lambda item: (item[1].start, -item[1].end, -item[0]))
    return _render(source, 0, len(source), [edit for _, edit in numbered])


def _render(source: bytes, start: int, end: int, edits: list[Edit]) -> str:
    """Returns start..end with its edits done; `edits` lie inside it, sorted with the outer ones first."""
    parts, position, index = [], start, 0
    while index < len(edits):
        outer = edits[index]
        last = index + 1
        while last < len(edits) and edits[last].start < outer.end:
            last += 1
        parts.append(source[position : outer.start].decode())
        parts.append(outer.build(_render(source, outer.start, outer.end, edits[index + 1 : last])))
        position, index = outer.end, last
    parts.append(source[position:end].decode())
    return "".join(parts)
