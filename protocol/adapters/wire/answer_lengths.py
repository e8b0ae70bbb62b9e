"""Bytes of an answer that may be more or fewer than were asked for.

A root says nothing of zeros at the end of the last leaf (`BlobRef.allow_lengths`).
"""

from collections.abc import AsyncIterator


def format_lengths(lengths: range) -> str:
    """Returns the lengths that an answer may have, in words."""
    return f"{lengths[0]} bytes" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} bytes"


async def fit(pieces: AsyncIterator[bytes], length: int, most: int) -> AsyncIterator[bytes]:
    """Yields the pieces as `length` bytes: cut, or filled with zeros. The root judges them. Nothing is read
    after more than `most` bytes: an answer may unpack to any length."""
    received = 0
    async for piece in pieces:
        if received < length:
            yield piece[: length - received]
        received += len(piece)
        if received > most:
            return
    if received < length:
        yield bytes(length - received)
