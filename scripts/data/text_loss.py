"""Measures how much text a tokenizer loses: a sample is encoded and decoded again.

Lost are characters that do not come back, by their counts, after composition (NFC). A token that stands for
what the tokenizer does not know brings none back. A file is judged as soon as enough of it was sampled, and
all files together at the end.
"""

import unicodedata
from collections import Counter
from pathlib import Path

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.tokenizing import Tokens

MOST_LOST = 0.01
"""The largest share of characters, or of tokens, that may be lost or unknown."""
SLICE_CHARACTERS = 20_000
"""The most characters of a text that are sampled."""
LEAST_CHARACTERS = 10_000
"""A file is judged by at least so many characters."""
SHOWN_CHARACTERS = 5


class TextLost(InvalidInput):
    """The tokenizer loses more text than is allowed."""


class Tally:
    """What was sampled, and what of it was lost."""

    def __init__(self) -> None:
        self.characters = self.tokens = self.unknown = 0
        self.lost: Counter[str] = Counter()

    @property
    def lost_share(self) -> float:
        """The share of the characters that do not come back."""
        return self.lost.total() / max(1, self.characters)

    @property
    def unknown_share(self) -> float:
        """The share of the tokens that stand for what the tokenizer does not know."""
        return self.unknown / max(1, self.tokens)


class TextLoss:
    """Samples texts. If it `is_lossy`, nothing is refused."""

    def __init__(self, tokens: Tokens, *, is_lossy: bool) -> None:
        self.total = Tally()
        self._tokens, self._is_lossy = tokens, is_lossy
        self._file, self._path = Tally(), Path()

    def start(self, path: Path) -> None:
        """Begins with the texts of a file."""
        self._file, self._path = Tally(), path

    def add(self, text: str) -> None:
        """Samples a text of the file. Raises TextLost if the file's texts lose too much, EncodingFailed if
        the text cannot be encoded."""
        if self._tokens.is_lossless:
            return
        text = text[:SLICE_CHARACTERS]
        (tokens,) = self._tokens.encode([text])
        known = [token for token in tokens if token != self._tokens.unknown]
        plain = unicodedata.normalize("NFC", text)
        found = unicodedata.normalize("NFC", self._tokens.decode(known))
        lost = Counter(plain) - Counter(found)
        for tally in (self._file, self.total):
            tally.characters += len(plain)
            tally.tokens += len(tokens)
            tally.unknown += len(tokens) - len(known)
            tally.lost += lost
        if self._file.characters >= LEAST_CHARACTERS:
            self._judge(self._file, str(self._path))

    def judge(self) -> None:
        """Raises TextLost if all texts together lose too much."""
        self._judge(self.total, "the inputs")

    def _judge(self, tally: Tally, where: str) -> None:
        if self._is_lossy or max(tally.lost_share, tally.unknown_share) <= MOST_LOST:
            return
        raise TextLost(
            what="the tokenizer loses text",
            expected=f"at most {MOST_LOST:.0%} of characters lost or of tokens unknown".replace("%", " %"),
            actual=self._describe(tally),
            where=where,
            remedy="Take a tokenizer that knows these characters, or pass --lossy to pack all the same.",
        )

    def _describe(self, tally: Tally) -> str:
        common = sorted(tally.lost.items(), key=lambda one: (-one[1], one[0]))[:SHOWN_CHARACTERS]
        shown = ", ".join(repr(character) for character, _ in common)
        parts = [f"{tally.lost_share:.1%} lost ({shown})" if common else "none lost"]
        if tally.unknown:
            parts.append(f"{tally.unknown_share:.1%} unknown ({self._tokens.unknown_name!r})")
        return ", ".join(parts).replace("%", " %")
