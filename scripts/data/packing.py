"""Writes the tokens of documents to the file of a dataset."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.data.documents import Piece
from touchstone.scripts.data.heldout import Lengths, hold_out
from touchstone.scripts.data.packed_dataset import TOKENS_NAME
from touchstone.scripts.data.tokenizing import Tokens

BATCH_PIECES = 512
BATCH_CHARACTERS = 1 << 20
"""A batch ends with the piece that brings it to this many characters; it never has more pieces than this."""


@dataclass(frozen=True)
class Taken:
    """How many documents were taken, and how many tokens they have."""

    documents: int
    tokens: int


class Packer:
    """Writes the tokens of all documents in order; at the end those of held-out documents move behind the
    others."""

    def __init__(self, folder: Path, tokens: Tokens, tail: Sequence[int]) -> None:
        self.tokens, self.token_bytes = tokens, count_token_bytes(tokens.vocabulary_size)
        self.documents = 0
        self._path, self._tail = folder / TOKENS_NAME, np.array(tail, self._type)
        self._file, self._lengths = self._path.open("wb"), Lengths(folder)
        self._length = 0

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.token_bytes}")

    def take(self, pieces: Iterable[Piece]) -> Taken:
        """Takes all documents of a file."""
        documents, tokens = self.documents, self._lengths.total
        batch: list[Piece] = []
        size = 0
        for piece in pieces:
            batch.append(piece)
            size += len(piece.text)
            if len(batch) >= BATCH_PIECES or size >= BATCH_CHARACTERS:
                self._write(batch)
                batch, size = [], 0
        if batch:
            self._write(batch)
        return Taken(self.documents - documents, self._lengths.total - tokens)

    def _write(self, batch: Sequence[Piece]) -> None:
        for piece, tokens in zip(batch, self.tokens.encode([one.text for one in batch]), strict=True):
            found = (
                np.frombuffer(tokens, self._type)
                if isinstance(tokens, bytes)
                else np.array(tokens, self._type)
            )
            parts = [found, self._tail] if piece.is_last else [found]
            self._file.write(b"".join(part.tobytes() for part in parts))
            self._length += sum(len(part) for part in parts)
            if piece.is_last:
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
