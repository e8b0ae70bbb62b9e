"""Writes the tokens of documents to the file of a dataset."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.data.bad_documents import BadDocuments
from touchstone.scripts.data.documents import TextDocument
from touchstone.scripts.data.heldout import Lengths, hold_out
from touchstone.scripts.data.packed_dataset import TOKENS_NAME
from touchstone.scripts.data.text_loss import TextLoss, TextLost
from touchstone.scripts.data.tokenizing import Tokens, place_failure

BATCH_DOCUMENTS = 512
BATCH_CHARACTERS = 1 << 20
"""A batch ends with the document that brings it to this many characters, or at so many documents."""
SAMPLED_PIECES = 16
"""Of a long text one piece in so many is sampled; of a batch of documents one is."""


@dataclass(frozen=True)
class Borders:
    """The tokens before each document and behind it."""

    begin: Sequence[int] = ()
    end: Sequence[int] = ()


@dataclass(frozen=True)
class Taken:
    """How many documents were taken, and how many tokens they have."""

    documents: int
    tokens: int


class Packer:
    """Writes the tokens of all documents in order; at the end those of held-out documents move behind the
    others."""

    def __init__(
        self, folder: Path, tokens: Tokens, borders: Borders, bad: BadDocuments, loss: TextLoss
    ) -> None:
        self.tokens, self.token_bytes = tokens, count_token_bytes(tokens.vocabulary_size)
        self.documents, self.bad, self._loss = 0, bad, loss
        self._path, self._borders = folder / TOKENS_NAME, borders
        self._file, self._lengths = self._path.open("wb"), Lengths(folder)
        self._length = 0

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.token_bytes}")

    def take(self, path: Path, documents: Iterable[TextDocument]) -> Taken:
        """Takes all documents of a file. Raises InvalidInput if more are bad than may be skipped, or if too
        much text is lost."""
        self._loss.start(path)
        number, tokens = self.documents, self._lengths.total
        batch: list[tuple[str, str]] = []
        size = 0
        for document in documents:
            pieces = document.read()
            try:
                text, second = next(pieces, ""), next(pieces, None)
            except InvalidInput as error:
                self.bad.skip(error)
                continue
            if second is not None:
                self._write_all(batch)
                batch, size = [], 0
                self._write_long(document.where, chain((text, second), pieces))
                continue
            batch.append((document.where, text))
            size += len(text)
            if len(batch) >= BATCH_DOCUMENTS or size >= BATCH_CHARACTERS:
                self._write_all(batch)
                batch, size = [], 0
        self._write_all(batch)
        return Taken(self.documents - number, self._lengths.total - tokens)

    def _write_all(self, batch: Sequence[tuple[str, str]]) -> None:
        """Writes documents, each given as its place and its text."""
        try:
            found = self.tokens.encode([text for _, text in batch])
        except InvalidInput:
            # One of them cannot be encoded: which one?
            for where, text in batch:
                self._write_long(where, [text])
            return
        for tokens in found:
            self._write(self._borders.begin)
            self._write(tokens)
            self._end_document()
        if batch:
            self._loss.add(batch[0][1])

    def _write_long(self, where: str, pieces: Iterable[str]) -> None:
        """Writes a document as its tokens come; takes it back if it is bad."""
        self._write(self._borders.begin)
        try:
            for tokens in self.tokens.encode_long(self._sample(pieces)):
                self._write(tokens)
        except TextLost:
            raise
        except InvalidInput as error:
            self._file.seek(self._lengths.total * self.token_bytes)
            self._file.truncate()
            self._length = 0
            self.bad.skip(place_failure(error, where))
        else:
            self._end_document()

    def _sample(self, pieces: Iterable[str]) -> Iterator[str]:
        for number, piece in enumerate(pieces):
            if number % SAMPLED_PIECES == 0:
                self._loss.add(piece)
            yield piece

    def _write(self, tokens: Sequence[int]) -> None:
        data = tokens if isinstance(tokens, bytes) else np.array(tokens, self._type).tobytes()
        self._file.write(data)
        self._length += len(tokens)

    def _end_document(self) -> None:
        self._write(self._borders.end)
        self._lengths.add(self._length)
        self._length = 0
        self.documents += 1

    def finish(self, share: float | None) -> tuple[int, int]:
        """Holds documents out; returns the numbers of tokens that train and that are held out. Raises
        InvalidInput if there are fewer than two."""
        self._file.close()
        total = self._lengths.total
        if total < 2:
            raise InvalidInput(
                what="the inputs hold no tokens",
                expected="two or more",
                actual=total,
                where="the inputs",
                remedy="Name files that hold texts.",
            )
        held = hold_out(self._path, self._lengths, self.token_bytes, share)
        self._lengths.close()
        return total - held, held
