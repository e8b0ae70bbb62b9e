"""Defines a peer as it is registered on chain."""

from dataclasses import dataclass

from touchstone.protocol.adapters.wire.endpoint_urls import FORM, find_endpoint_fault
from touchstone.protocol.spec.errors import ProtocolFault

MAX_SHOWN_CHARACTERS = 300


@dataclass(frozen=True)
class Peer:
    """A node as registered on chain: its account, its https URL, the SHA-256 of its certificate (DER)."""

    account: str
    url: str
    fingerprint: bytes

    def __post_init__(self) -> None:
        fault = find_endpoint_fault(self.url)
        if fault or len(self.fingerprint) != 32:
            shown = f"{self.url[:MAX_SHOWN_CHARACTERS]!r}" + (f" ({show(fault)})" if fault else "")
            raise ProtocolFault(
                what="the registered endpoint is malformed",
                expected=f"{FORM} and a fingerprint of 32 bytes",
                actual=f"{shown} and {len(self.fingerprint)} bytes",
                culprit=self.account,
                remedy="Ask another peer; this one has to announce its endpoint again.",
            )

    def format_url(self, path: str) -> str:
        """Returns the URL of `path` (with its slash) at this peer."""
        return self.url.rstrip("/") + path

    def __str__(self) -> str:
        return f"{self.account} at {self.url}"


def show(text: str) -> str:
    """Returns a stranger's text, shortened and without control characters, fit for a terminal and a log."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_SHOWN_CHARACTERS])
