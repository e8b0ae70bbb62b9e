"""Accepts answers with a few more or fewer bytes than asked for.

A root does not fix the zeros at the end of the last leaf (`BlobRef.allow_lengths`).
"""

from collections.abc import AsyncIterator


def format_lengths(lengths: range) -> str:
    """Describes the lengths that an answer may have."""
    return f"{lengths[0]} bytes" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} bytes"


async def fit(pieces: AsyncIterator[bytes], length: int, most: int) -> AsyncIterator[bytes]:
    """Yields the pieces as `length` bytes: cut, or filled with zeros. The root checks them. It stops reading
    after `most` bytes, because an answer may unpack to any length."""
    received = 0
    async for piece in pieces:
        if received < length:
            yield piece[: length - received]
        received += len(piece)
        if received > most:
            return
    if received < length:
        yield bytes(length - received)
