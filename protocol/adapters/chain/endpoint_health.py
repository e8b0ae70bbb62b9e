"""How the chain's endpoints answer: when one last did, and how often one did not."""

import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError


class NoAnswer(aiohttp.ClientError):
    """What came is no JSON-RPC: the page of a proxy, for example, or a result of another form."""


ERROR_KINDS: dict[type[Exception], str] = {
    TimeoutError: "timeout",
    aiohttp.ClientResponseError: "http",
    NoAnswer: "malformed",
    ProviderError: "refused",
    Exception: "connection",
}
"""What a request failed by, the first that fits."""
_REASONS = {Kind.BUSY: "busy", Kind.BEHIND: "behind"}


@dataclass
class RpcHealth:
    """How the chain's endpoints answer. answered_s: when one last did (monotonic seconds; at first, when it
    was first to be asked); errors: how often one did not, by `timeout`, `connection`, `http` (a status that
    is no success), `malformed` (no JSON-RPC, or of another form), `busy` (it wants to be left alone),
    `behind` (it lacks the block) and `refused` (another error in its own words); head: the newest block that
    the endpoint which is followed told of; unread: why nothing is read though endpoints answer, empty while
    all is read; unread_s: since when (monotonic seconds)."""

    answered_s: float = field(default_factory=time.monotonic)
    errors: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys([*ERROR_KINDS.values(), *_REASONS.values()], 0))
    )
    head: Head | None = None
    unread: str = ""
    unread_s: float = 0.0

    def note_reading(self, why_not: str = "") -> None:
        """Notes that the follower has read up to a head, or could not."""
        if not self.unread:
            self.unread_s = time.monotonic()
        self.unread = why_not

    def note_answer(self) -> None:
        """Notes that an endpoint has answered."""
        self.answered_s = time.monotonic()

    def note_error(self, error: Exception) -> None:
        """Notes that a request has failed."""
        kind = next(kind for known, kind in ERROR_KINDS.items() if isinstance(error, known))
        self.errors[_REASONS.get(error.kind, kind) if isinstance(error, ProviderError) else kind] += 1
