"""Writes the tokens of documents to the file of a dataset."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.data.documents import Piece
from touchstone.scripts.data.packed_dataset import TOKENS_NAME
from touchstone.scripts.data.tokenizing import Tokens

BATCH_PIECES = 512
BATCH_CHARACTERS = 1 << 20
"""A batch ends with the piece that brings it to this many characters; it never has more pieces than this."""
COPY_BYTES = 1 << 20
HELDOUT_TAG = b"touchstone.heldout"
HELDOUT_NAME = "heldout.bin"


@dataclass(frozen=True)
class Taken:
    """How many documents were taken, and how many tokens they have."""

    documents: int
    tokens: int


class Packer:
    """Writes tokens to two files and joins them at the end."""

    def __init__(self, folder: Path, tokens: Tokens, tail: Sequence[int], heldout: float) -> None:
        self.tokens, self.token_bytes = tokens, count_token_bytes(tokens.vocabulary_size)
        self.trained = self.held = self.documents = 0
        self._folder, self._tail, self._share = folder, np.array(tail, self._type), heldout
        self._batches = 0
        self._files: tuple[BinaryIO, BinaryIO] = (
            (folder / TOKENS_NAME).open("wb"),
            (folder / HELDOUT_NAME).open("wb"),
        )

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.token_bytes}")

    def take(self, pieces: Iterable[Piece]) -> Taken:
        """Takes all documents of a file."""
        documents, tokens = self.documents, self.trained + self.held
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
        return Taken(self.documents - documents, self.trained + self.held - tokens)

    def _write(self, batch: Sequence[Piece]) -> None:
        for piece, tokens in zip(batch, self.tokens.encode([one.text for one in batch]), strict=True):
            is_held = self._is_held(self._batches)
            found = (
                np.frombuffer(tokens, self._type)
                if isinstance(tokens, bytes)
                else np.array(tokens, self._type)
            )
            parts = [found, self._tail] if piece.is_last else [found]
            self._files[is_held].write(b"".join(part.tobytes() for part in parts))
            count = sum(len(part) for part in parts)
            self.held, self.trained = self.held + count * is_held, self.trained + count * (not is_held)
            self.documents += piece.is_last
            self._batches += 1

    def _is_held(self, number: int) -> bool:
        draw = sha256(HELDOUT_TAG + number.to_bytes(8, "big")).digest()
        return int.from_bytes(draw[:8], "big") < self._share * 2**64

    def finish(self) -> None:
        """Puts the held-out tokens after the others. If no batch was held out, or all were, holds out the
        last tokens."""
        train, held = self._files
        held.close()
        with (self._folder / HELDOUT_NAME).open("rb") as source:
            shutil.copyfileobj(source, train, COPY_BYTES)
        train.close()
        (self._folder / HELDOUT_NAME).unlink()
        total = self.trained + self.held
        if total < 2:
            raise InvalidInput(
                what="the inputs hold no tokens",
                expected="two or more",
                actual=total,
                where="the inputs",
                remedy="Name files that hold texts.",
            )
        if not self.held or not self.trained:
            self.held = max(1, int(total * self._share))
            self.trained = total - self.held
