"""Damages valid inputs of a parser of what strangers send.

Damages are flipped bits, cuts, splices, repeated fields, huge numbers, deep nesting, and bytes that are not
UTF-8. The same seed gives the same inputs.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Parser:
    """A parser. `seeds` are valid inputs, `parse` reads one as a node does. `share` is its share of all
    inputs, relative to the others. Slow parsers, which recover a signature or build a tree, get less."""

    name: str
    seeds: tuple[bytes, ...]
    parse: Callable[[bytes], object]
    share: float = 1.0


MOST_BYTES = 1 << 18
"""The most bytes of an input, more than any limit on a message."""
NO_UTF8 = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x00", b"\xef\xbb\xbf")
HUGE = (
    b"9" * 400,
    b"9" * 5_000,
    b"1e999",
    b"-1",
    b"1e-999",
    b"0.1",
    b"18446744073709551616",
    b"1" + b"0" * 77,
)
OTHERS = (b"null", b"true", b"[]", b"{}", b'""', b"NaN", b"-", b'"\\ud800"', b'"\\u0000"')
DEPTHS = (10, 1_000, 20_000)
DAMAGES = (1, 1, 1, 2, 2, 3, 6)
"""The number of damages in one input is drawn from these."""
_NUMBER = re.compile(rb"\d+")
_FIELD = re.compile(rb'"\w+":(?:"[^"]*"|[\w.+-]+),?|[\w-]+: [^\r\n]*\r\n')


class Mutator:
    """A stream of damaged inputs."""

    def __init__(self, seed: str) -> None:
        self.dice = random.Random(seed)
        self._ways: Sequence[Callable[[bytes], bytes]] = (
            self._flip,
            self._set,
            self._cut,
            self._remove,
            self._repeat,
            self._insert_no_utf8,
            self._enlarge_number,
            self._exchange_value,
            self._repeat_field,
            self._nest,
            self._extend,
            self._fill_word,
        )

    def make(self, seeds: Sequence[bytes]) -> bytes:
        """Returns one of `seeds`, damaged once or more. A few are returned undamaged, so that code after a
        parser's last check is reached too."""
        data = self.dice.choice(seeds)
        if self.dice.random() < 0.01:
            return data
        for _ in range(self.dice.choice(DAMAGES)):
            is_splice = self.dice.random() < 0.1
            data = self._splice(data, self.dice.choice(seeds)) if is_splice else self._damage(data)
        return data[:MOST_BYTES]

    def _damage(self, data: bytes) -> bytes:
        return self.dice.choice(self._ways)(data)

    def _place(self, data: bytes) -> int:
        return self.dice.randrange(len(data) + 1)

    def _span(self, data: bytes) -> tuple[int, int]:
        first, second = self._place(data), self._place(data)
        if self.dice.random() < 0.5:
            second = first + self.dice.choice((1, 2, 4, 31, 32, 33))
        return min(first, second), min(max(first, second), len(data))

    def _splice(self, data: bytes, other: bytes) -> bytes:
        return data[: self._place(data)] + other[self._place(other) :]

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data or b"\0")
        for _ in range(self.dice.choice((1, 1, 2, 8))):
            changed[self.dice.randrange(len(changed))] ^= 1 << self.dice.randrange(8)
        return bytes(changed)

    def _set(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self.dice.randbytes(self.dice.choice((1, 1, 4, 32))) + data[place + 1 :]

    def _cut(self, data: bytes) -> bytes:
        return data[: self._place(data)] if self.dice.random() < 0.7 else data[self._place(data) :]

    def _remove(self, data: bytes) -> bytes:
        first, last = self._span(data)
        return data[:first] + data[last:]

    def _repeat(self, data: bytes) -> bytes:
        first, last = self._span(data)
        return data[:last] + data[first:last] * self.dice.choice((1, 2, 20)) + data[last:]

    def _insert_no_utf8(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self.dice.choice(NO_UTF8) + data[place:]

    def _enlarge_number(self, data: bytes) -> bytes:
        return self._exchange(data, _NUMBER, self.dice.choice(HUGE))

    def _exchange_value(self, data: bytes) -> bytes:
        return self._exchange(data, re.compile(rb'"[^"]*"|\d+'), self.dice.choice(OTHERS))

    def _exchange(self, data: bytes, pattern: re.Pattern[bytes], value: bytes) -> bytes:
        found = list(pattern.finditer(data))
        if not found:
            return self._fill_word(data)
        one = self.dice.choice(found)
        return data[: one.start()] + value + data[one.end() :]

    def _repeat_field(self, data: bytes) -> bytes:
        found = list(_FIELD.finditer(data))
        if not found:
            return self._repeat(data)
        one = self.dice.choice(found)
        return data[: one.start()] + one[0] * self.dice.choice((1, 2, 100)) + data[one.start() :]

    def _nest(self, data: bytes) -> bytes:
        opening, closing = self.dice.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")))
        depth, place = self.dice.choice(DEPTHS), self._place(data)
        end = closing * depth if self.dice.random() < 0.7 else b""
        return data[:place] + opening * depth + end + data[place:]

    def _extend(self, data: bytes) -> bytes:
        return data + self.dice.choice((b"\0", b" ", b"\xff", b"\n")) * self.dice.choice((1, 31, 32, 20_000))

    def _fill_word(self, data: bytes) -> bytes:
        """Replaces a word of the ABI: by the largest, one far behind the end, or a small one."""
        place = self._place(data) // 32 * 32 + self.dice.choice((0, 0, 4))
        value = self.dice.choice((-1, 1 << 255, 1 << 63, 1 << 32, len(data), 32, 1, 0, self._place(data)))
        return data[:place] + (value % (1 << 256)).to_bytes(32, "big") + data[place + 32 :]
