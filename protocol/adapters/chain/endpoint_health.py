"""Counts how well the chain's endpoints answer."""

import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.provider_errors import Kind, ProviderError


class NoAnswer(aiohttp.ClientError):
    """The answer is not JSON-RPC (for example a proxy's page), or has another form."""


ERROR_KINDS: dict[type[Exception], str] = {
    TimeoutError: "timeout",
    aiohttp.ClientResponseError: "http",
    NoAnswer: "malformed",
    ProviderError: "refused",
    Exception: "connection",
}
"""How a request can fail; the first entry that fits counts."""
_REASONS = {Kind.BUSY: "busy", Kind.BEHIND: "behind"}


@dataclass
class RpcHealth:
    """How the chain's endpoints answer. `answered_s` is when one last answered (monotonic seconds; before the
    first answer, when the first request was sent). `errors` counts failures: `timeout`, `connection`, `http`
    (an error status), `malformed` (not JSON-RPC, or of another form), `busy` (it asks for a pause), `behind`
    (it lacks the block) and `refused` (another error). `head` is the newest block that the followed endpoint
    reported. `unread` says why nothing is read though endpoints answer, empty if all is read; `unread_s` is
    since when (monotonic seconds)."""

    answered_s: float = field(default_factory=time.monotonic)
    errors: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys([*ERROR_KINDS.values(), *_REASONS.values()], 0))
    )
    head: Head | None = None
    unread: str = ""
    unread_s: float = 0.0

    def note_reading(self, why_not: str = "") -> None:
        """Notes that the follower has read up to a head, or why it could not."""
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
