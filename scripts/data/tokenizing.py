"""Turns texts into tokens and back: bytes, or a Hugging Face tokenizer.json through `tokenizers`.

A tokenizer.json is data: it is parsed, and nothing in it is executed. The text of a special token inside a
document is read as plain text, so that no document can end itself.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from touchstone.node.exports.model_note import BYTE_VOCABULARY, TOKENIZER_NAME
from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.foreign_calls import guard
from touchstone.scripts.data.long_texts import encode_long
from touchstone.scripts.data.merge_rules import MergeRules


class EncodingFailed(InvalidInput):
    """The tokenizer fails on a text; `where` is the tokenizer."""


MAX_TOKENIZER_BYTES = 256 * 1024 * 1024
PROBES = (
    "",
    " \n\t\r\n  ",
    "The quick brown fox, 1234567890!",
    "na\u00efve \u00df e\u0301 \u0141\u00f3d\u017a",
    "\u6f22\u5b57 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f600\u200d\u2603 \U00010348 \ue000 \0\x1b \u2028",
    "x" * 300,
)
"""Texts on which every tokenizer is tried: none, space, words, accents, scripts, signs, a long word."""
TEMPLATE_TEXT = "The quick brown fox"


class Tokens(Protocol):
    """Turns texts into tokens and back."""

    @property
    def is_lossless(self) -> bool:
        """Whether every text comes back from its tokens."""

    @property
    def unknown(self) -> int | None:
        """The token that stands for what the tokenizer does not know, if there is one."""

    @property
    def unknown_name(self) -> str:
        """The name of that token."""

    @property
    def vocabulary_size(self) -> int:
        """The largest token plus one."""

    def encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Returns the tokens of each text. Raises InvalidInput if a text cannot be encoded."""

    def encode_long(self, pieces: Iterable[str]) -> Iterator[Sequence[int]]:
        """Yields the tokens of one text, which comes in pieces, as `encode` would give them. Raises
        InvalidInput if it cannot be encoded."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of some tokens; bytes that are not valid text become U+FFFD."""


class ByteTokens:
    """A tokenizer for which each byte of UTF-8 is a token."""

    vocabulary_size = BYTE_VOCABULARY
    is_lossless = True
    unknown = None
    unknown_name = ""

    def encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Does what `Tokens.encode` says."""
        return [text.encode() for text in texts]

    def encode_long(self, pieces: Iterable[str]) -> Iterator[Sequence[int]]:
        """Does what `Tokens.encode_long` says."""
        return (piece.encode() for piece in pieces)

    def decode(self, tokens: Sequence[int]) -> str:
        """Does what `Tokens.decode` says; a token that is no byte is left out."""
        return bytes(token for token in tokens if token < BYTE_VOCABULARY).decode(errors="replace")


class FileTokens:
    """A tokenizer.json, and its SHA-256 in hex."""

    def __init__(self, data: bytes, where: str) -> None:
        """Parses `data`, the file. Raises InvalidInput if it is no tokenizer."""
        library = load_extra("tokenizers", where)
        self.sha256 = sha256(data).hexdigest()
        self._where = where
        with guard(partial(_refuse_tokenizer, "a tokenizer.json of Hugging Face", where=where)):
            self._tokenizer: Any = library.Tokenizer.from_str(data.decode("utf-8"))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            self._tokenizer.encode_special_tokens = True
            # Dropout is for training: it would draw other tokens each time.
            if getattr(self._tokenizer.model, "dropout", None):
                self._tokenizer.model.dropout = None
            self.vocabulary_size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())

    is_lossless = False

    @cached_property
    def unknown(self) -> int | None:
        """The token that stands for what the tokenizer does not know, if there is one."""
        model = self._read_model()
        if model["type"] == "Unigram":
            return None if model.get("unk_id") is None else int(model["unk_id"])
        name = model.get("unk_token")
        return None if name is None else self.find(name)

    @property
    def unknown_name(self) -> str:
        """The name of that token."""
        return "" if self.unknown is None else str(self._tokenizer.id_to_token(self.unknown))

    def find(self, token: str) -> int | None:
        """Returns the number of a token by its name, or None."""
        found = self._tokenizer.token_to_id(token)
        return None if found is None else int(found)

    def list_special(self) -> list[str]:
        """Returns the names of its special tokens, in order."""
        added = sorted(self._tokenizer.get_added_tokens_decoder().items())
        return [str(token.content) for _, token in added if token.special]

    def find_template(self) -> tuple[list[str], list[str]]:
        """Returns the names of the tokens that the tokenizer would put before a text and behind it."""
        with guard(self._refuse_text):
            found = self._tokenizer.encode(TEMPLATE_TEXT, add_special_tokens=True)
        is_added = [bool(one) for one in found.special_tokens_mask]
        first = is_added.index(False) if False in is_added else len(is_added)
        last = len(is_added) - (is_added[::-1].index(False) if False in is_added else 0)
        return list(found.tokens[:first]), list(found.tokens[last:])

    def encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Does what `Tokens.encode` says, without tokens that the tokenizer would add at the ends."""
        return [one.ids for one in self.encode_all(texts)]

    def encode_long(self, pieces: Iterable[str]) -> Iterator[Sequence[int]]:
        """Does what `Tokens.encode_long` says."""
        return encode_long(pieces, self.encode_all, self.joins)

    def encode_all(self, texts: Sequence[str]) -> list[Any]:
        """Returns the `Encoding` of each text. Raises InvalidInput if a text cannot be encoded."""
        with guard(self._refuse_text):
            return list(self._tokenizer.encode_batch(list(texts), add_special_tokens=False))

    def joins(self, before: int, behind: int) -> bool:
        """Returns whether the model may make one token of two neighbours, as far as it is known. Where a word
        ends shows it too, unless all of a text is one word."""
        return self._merges is None or self._merges.joins(before, behind)

    @cached_property
    def _merges(self) -> MergeRules | None:
        """The merges, if all of a text is one word."""
        has_words = any(len(set(one.word_ids)) > 1 for one in self.encode_all(PROBES))
        return None if has_words else MergeRules(self._read_model())

    def _read_model(self) -> dict[str, Any]:
        model: dict[str, Any] = json.loads(self._tokenizer.to_str())["model"]
        return model

    def decode(self, tokens: Sequence[int]) -> str:
        """Does what `Tokens.decode` says. Raises InvalidInput if the tokenizer fails."""
        with guard(self._refuse_text):
            return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def _refuse_text(self, words: str) -> InvalidInput:
        return EncodingFailed(
            what="the tokenizer fails on a text",
            expected="tokens for every text",
            actual=words,
            where=self._where,
            remedy="Add the token that it lacks to the tokenizer's vocabulary, or take another tokenizer.",
        )


def place_failure(error: InvalidInput, where: str) -> InvalidInput:
    """Returns the error with the document's place, if it has none or the tokenizer's."""
    if error.where and not isinstance(error, EncodingFailed):
        return error
    return InvalidInput(
        what=error.what, expected=error.expected, actual=error.actual, where=where, remedy=error.remedy
    )


def read_tokenizer(path: Path) -> tuple[FileTokens, bytes]:
    """Reads a tokenizer.json, or the one in a folder; returns it and its bytes. Raises InvalidInput if
    there is none, or if it fails on one of `PROBES`."""
    file = path / TOKENIZER_NAME if path.is_dir() else path
    if not file.is_file() or file.stat().st_size > MAX_TOKENIZER_BYTES:
        actual = "a larger one" if file.is_file() else "no such file"
        expected = f"a file of at most {MAX_TOKENIZER_BYTES} bytes"
        raise _refuse_tokenizer(expected, actual, str(file))
    data = file.read_bytes()
    tokens = FileTokens(data, str(file))
    for text, found in zip(PROBES, tokens.encode(PROBES), strict=True):
        if text:
            tokens.decode(found)
    return tokens, data


def _refuse_tokenizer(expected: str, actual: str, where: str) -> InvalidInput:
    return InvalidInput(
        what="not a tokenizer",
        expected=expected,
        actual=actual,
        where=where,
        remedy="Take the tokenizer.json that `tokenizers` or `transformers` saved.",
    )
