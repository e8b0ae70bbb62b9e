"""Answers are cut and filled, and an endless one is left."""

from collections.abc import AsyncIterator

import pytest

from touchstone.protocol.adapters.wire.answer_lengths import fit


@pytest.mark.parametrize(("sent", "found"), [
    ([b"abc"], b"abc"), ([b"ab", b"cd"], b"abc"), ([b"abc", b"d"], b"abc"), ([b"a"], b"a\0\0"),
    ([], b"\0\0\0"),
])  # fmt: skip
async def test_an_answer_is_cut_or_filled(sent: list[bytes], found: bytes) -> None:
    async def send() -> AsyncIterator[bytes]:
        for piece in sent:
            yield piece

    assert b"".join([piece async for piece in fit(send(), 3, 5)]) == found


async def test_an_answer_that_unpacks_to_any_length_is_left() -> None:
    asked = list[int]()

    async def send() -> AsyncIterator[bytes]:
        while True:
            asked.append(len(asked))
            yield b"ab"

    assert b"".join([piece async for piece in fit(send(), 3, 5)]) == b"aba"
    assert len(asked) == 3
