"""Decodes messages of strangers, by type and within limits.

A message is the JSON of a `Message` class. Its size is checked before it is decoded. Then every field must be
there, with its type and within its bounds, and no other field. So it cannot nest deeper than the class does,
and no unnamed field is kept.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.hashing import WORD_BYTES

T = TypeVar("T")
MAX_SHOWN = 200
"""The most characters of a stranger's words that an error shows."""
Word = Annotated[bytes, Meta(min_length=WORD_BYTES, max_length=WORD_BYTES)]
"""A root, a salt, a nonce or a task id: 32 bytes."""
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
"""A signature in the form of `keys/signatures.py`."""
ClaimPath = Annotated[tuple[Word, ...], Meta(max_length=17)]
"""The siblings of a leaf in a claim's tree, which has at most 65,537 leaves."""
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Address = Annotated[str, Meta(pattern=r"\A0x[0-9a-f]{40}\Z")]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of what strangers send. Fields are bounded types of this module, messages, or tuples of
    bounded length of either. They are never `Any`, which could nest without limit."""


@dataclass(frozen=True)
class Form(Generic[T]):
    """One kind of message: its most bytes, and the error for other bytes. `is_exact` says that only the exact
    bytes of `encode_message` are accepted. It is for a class that is no `Message`, and so would allow unknown
    and missing fields."""

    kind: type[T]
    most_bytes: int
    what: str
    is_exact: bool = False

    def decode(self, body: bytes | str, culprit: str = "", where: str = "") -> T:
        """Returns the message in a stranger's bytes. For anything else raises ProtocolFault, which names the
        field and what is wrong."""
        try:
            return self._decode(body)
        except (ValueError, RecursionError, InvalidInput) as error:
            raise ProtocolFault(
                what=self.what,
                expected=self._expected,
                actual=_describe(error),
                where=where,
                culprit=culprit,
                remedy="Leave it out, or ask another peer.",
            ) from error

    def read_file(self, path: Path, remedy: str) -> T:
        """Reads a file of this node's own. Raises InvalidInput if it is missing or malformed."""
        try:
            with path.open("rb") as file:
                return self._decode(file.read(self.most_bytes + 1))
        except (OSError, ValueError, RecursionError, InvalidInput) as error:
            raise InvalidInput(
                what=self.what,
                expected=self._expected,
                actual=_describe(error),
                where=str(path),
                remedy=remedy,
            ) from error

    @property
    def _expected(self) -> str:
        return f"a {self.kind.__name__} in JSON of at most {self.most_bytes} bytes"

    def _decode(self, body: bytes | str) -> T:
        if len(body) > self.most_bytes:
            raise ValueError("more")
        message = msgspec.json.decode(body, type=self.kind)
        if self.is_exact and encode_message(message) != body:
            raise ValueError("another form of the same, or something more")
        return message


def encode_message(message: object) -> bytes:
    """Returns the JSON of a message, the same bytes each time."""
    return msgspec.json.encode(message)


def _describe(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"[:MAX_SHOWN]
    return "".join(character if character.isprintable() else "?" for character in text)
