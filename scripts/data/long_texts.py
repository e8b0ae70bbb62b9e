"""Encodes a long text in windows, so that its tokens are those of the whole text.

Windows overlap. Two neighbours are joined at a token boundary in the overlap that no token can cross. There
the tokenizer cuts the text into words before its model sees it; or all of a text is one word, and no merge of
BPE joins the two sides. Both windows must have this boundary, and the same tokens before and behind it, up to
the next such ones. A window without such a boundary grows, at worst to the whole text.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from touchstone.protocol.spec.errors import InvalidInput

WINDOW = 64 * 1024
"""The least characters of a window, but for the last one."""
OVERLAP = 4 * 1024
"""The characters of the text before that a window begins with."""
WINDOWS = 16
"""How many windows are encoded at once, in several threads."""
MOST_WHOLE = 16 * 1024 * 1024
"""The most characters of a window that grows."""
Encode: TypeAlias = Callable[[Sequence[str]], Sequence[Any]]
"""Returns an `Encoding` of `tokenizers` for each text."""
Joins: TypeAlias = Callable[[int, int], bool]
"""Returns whether a merge may join two neighbouring tokens of one word."""


class Window:
    """A part of a text from the character `start` on, and its tokens: their numbers, the characters of the
    window that they come from, and the words that they are of."""

    def __init__(self, start: int, text: str, encoding: Any) -> None:
        self.start, self.text, self.end = start, text, start + len(text)
        self.ids: list[int] = encoding.ids
        self.offsets: list[tuple[int, int]] = encoding.offsets
        self.words: list[int | None] = encoding.word_ids


def encode_long(pieces: Iterable[str], encode: Encode, joins: Joins) -> Iterator[list[int]]:
    """Yields the tokens of a text, which comes in pieces, in several lists. Raises InvalidInput if more than
    `MOST_WHOLE` characters have nowhere to be cut."""
    parts = _gather(pieces)
    left = Window(0, text := next(parts, ""), encode([text])[0])
    first, count = 0, WINDOWS
    while texts := list(islice(parts, count)):
        if count > WINDOWS:
            texts = ["".join(texts)]
        for number, right in enumerate(_open_windows(left, texts, encode)):
            joint = find_joint(left, right, joins)
            if joint is None:
                text = left.text + "".join(texts[number:])
                _refuse_too_long(text)
                left = Window(left.start, text, encode([text])[0])
                count = max(WINDOWS + 1, len(text) // WINDOW)
                break
            yield left.ids[first : joint[0]]
            left, first, count = right, joint[1], WINDOWS
    yield left.ids[first:]


def _gather(pieces: Iterable[str]) -> Iterator[str]:
    """Yields the text in pieces of at least `WINDOW` characters, but for the last one."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= WINDOW:
            yield "".join(held)
            held, size = [], 0
    if size:
        yield "".join(held)


def _open_windows(left: Window, texts: Sequence[str], encode: Encode) -> Iterator[Window]:
    """Yields the windows of the texts behind `left`, each with the end of the one before."""
    spans: list[tuple[int, str]] = []
    start, text = left.start, left.text
    for more in texts:
        overlap = text[-OVERLAP:]
        start, text = start + len(text) - len(overlap), overlap + more
        spans.append((start, text))
    found = encode([text for _, text in spans])
    for (start, text), encoding in zip(spans, found, strict=True):
        yield Window(start, text, encoding)


def find_joint(left: Window, right: Window, joins: Joins) -> tuple[int, int] | None:
    """Returns the token of `left` and the token of `right` with which the text goes on at the same place, the
    nearest one to the middle of the overlap; None if there is no place where both are sure to be right."""
    ours, theirs = (_list_cuts(one, right.start, left.end, joins) for one in (left, right))
    common = [place for place in ours if place in theirs]

    def agree(start: int, end: int) -> bool:
        own = left.ids[ours[start] : ours[end]]
        return own == right.ids[theirs[start] : theirs[end]]

    middle = (right.start + left.end) // 2
    triples = zip(common, common[1:], common[2:], strict=False)
    for before, place, behind in sorted(triples, key=lambda one: abs(one[1] - middle)):
        if agree(before, place) and agree(place, behind):
            return ours[place], theirs[place]
    return None


def _list_cuts(window: Window, start: int, end: int, joins: Joins) -> dict[int, int]:
    """Returns the places from `start` to `end` where a token begins that is independent of the one before:
    place -> number of the token."""
    cuts: dict[int, int] = {}
    ids, offsets, words = window.ids, window.offsets, window.words
    first = bisect_left(offsets, (start - window.start,))
    last = bisect_left(offsets, (end - window.start + 1,))
    for number in range(max(1, first), last):
        place, before = offsets[number][0], offsets[number - 1]
        if before[0] >= place or before[1] > place:
            continue
        if words[number] != words[number - 1] or not joins(ids[number - 1], ids[number]):
            cuts[window.start + place] = number
    return cuts


def _refuse_too_long(text: str) -> None:
    if len(text) > MOST_WHOLE:
        raise InvalidInput(
            what="a long text can be cut nowhere for this tokenizer",
            expected=f"at most {MOST_WHOLE} characters without a cut",
            actual="more",
            remedy="Make several documents of it, in JSONL.",
        )
