"""Chooses the documents that are held out, and moves their tokens to the end of the file.

A hash of a document's number orders the documents. The first ones, until there are enough tokens, are held
out: so they come from everywhere in the inputs. A document that is longer than a quarter of what is held out
counts as several of that length. Memory does not grow with the number of documents.
"""

import shutil
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import numpy as np

SHARE = 0.01
"""The share of the tokens that is held out, unless another one is named."""
LEAST_TOKENS = 100 * 1024
"""The least tokens that are held out without a named share: a hundred rows of 1,024."""
MOST_PART = 10
"""Of a small dataset, one token in so many is held out to come near to `LEAST_TOKENS`."""
LONGEST_PART = 4
"""A document that is longer than one part in so many of the held-out tokens is cut."""
TAG = b"touchstone.heldout"
DRAWS = 1 << 16
LENGTH_BYTES = 8
READ_LENGTHS = 1 << 16
COPY_BYTES = 1 << 20


def compute_least(total: int, share: float | None) -> int:
    """Returns the least number of tokens to hold out of `total`, at least one."""
    if share is None:
        return max(1, int(total * SHARE), min(LEAST_TOKENS, total // MOST_PART))
    return max(1, int(total * share))


class Lengths:
    """The number of tokens of each document, in a temporary file."""

    def __init__(self, folder: Path) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.total = 0

    def add(self, tokens: int) -> None:
        """Adds a document."""
        self._file.write(tokens.to_bytes(LENGTH_BYTES, "little"))
        self.total += tokens

    def read(self) -> Iterator[int]:
        """Yields the lengths, in order."""
        self._file.seek(0)
        while part := self._file.read(READ_LENGTHS * LENGTH_BYTES):
            yield from np.frombuffer(part, "<u8").tolist()

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


def hold_out(path: Path, lengths: Lengths, token_bytes: int, share: float | None) -> int:
    """Moves the held-out documents of a file of at least two tokens to its end; returns how many tokens they
    have. Both parts keep the order of the documents."""
    least = compute_least(lengths.total, share)
    longest = max(1, least // LONGEST_PART)
    sums = np.zeros(DRAWS, np.int64)
    for tokens, draw in _list_parts(lengths, longest):
        sums[draw] += tokens
    last = int(np.searchsorted(np.cumsum(sums), least))
    chosen = ((tokens, draw <= last) for tokens, draw in _list_parts(lengths, longest))
    runs = (
        (sum(tokens for tokens, _ in group) * token_bytes, is_held)
        for is_held, group in groupby(chosen, key=lambda one: one[1])
    )
    with path.open("r+b") as file, tempfile.TemporaryFile(dir=path.parent) as held:
        _move(file, runs, held)
        return held.tell() // token_bytes


def _list_parts(lengths: Lengths, longest: int) -> Iterator[tuple[int, int]]:
    """Yields the tokens of each document, or of its parts, with a draw from 0 to `DRAWS`."""
    for number, length in enumerate(lengths.read()):
        for part, start in enumerate(range(0, length, longest)):
            digest = sha256(TAG + number.to_bytes(8, "big") + part.to_bytes(8, "big")).digest()
            yield min(longest, length - start), int.from_bytes(digest[:8], "big") % DRAWS


def _move(file: BinaryIO, runs: Iterator[tuple[int, bool]], held: BinaryIO) -> None:
    """Moves the runs of bytes that are held out behind the others. `held` takes them meanwhile."""
    source = target = 0
    for size, is_held in runs:
        if is_held or source > target:
            for start in range(source, source + size, COPY_BYTES):
                file.seek(start)
                part = file.read(min(COPY_BYTES, source + size - start))
                if is_held:
                    held.write(part)
                else:
                    file.seek(target + start - source)
                    file.write(part)
        source += size
        target += 0 if is_held else size
    file.seek(target)
    held.seek(0)
    shutil.copyfileobj(held, file, COPY_BYTES)
