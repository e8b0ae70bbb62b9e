"""Classifies the errors of chain providers by a table of codes and words.

The words come from geth, reth, nethermind, besu, erigon, Anvil and hosted providers. Clients and versions
spell the same refusal differently, and JSON-RPC has no codes for most of them. A message without a row is
`REFUSED`: the request is wrong, and asking again does not help.

Sources: EIP-1474 (codes), EIP-2681 and the pools of the clients (words about nonces and fees).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What to do after an error."""

    BUSY = "busy"
    """Wait, as long as the provider says; then ask the same."""
    BEHIND = "behind"
    """The backend that answered lacks a block, or has not indexed it. Ask again, because another backend may
    have it."""
    TOO_MUCH = "too_much"
    """Ask for less at once."""
    UNSUPPORTED = "unsupported"
    """This provider lacks the method or the block tag. Ask in another way."""
    REVERTED = "reverted"
    """The contract refuses the call; the data says why."""
    KNOWN = "known"
    """The pool already has this transaction, or another one with this nonce."""
    NONCE_TOO_LOW = "nonce_too_low"
    """A transaction with this nonce is mined."""
    NONCE_TOO_HIGH = "nonce_too_high"
    """An earlier nonce is missing, as far as this backend knows."""
    UNDERPRICED = "underpriced"
    """Offer a higher fee."""
    REPLACEMENT = "replacement"
    """Another transaction waits with this nonce. Offer more than that one, or take another nonce."""
    POOR = "poor"
    """The account cannot pay the gas."""
    REFUSED = "refused"
    """The request is at fault."""


WORDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (Kind.NONCE_TOO_LOW, ("nonce (is )?too low", "oldnonce", "nonce has already been used")),
    (Kind.NONCE_TOO_HIGH, ("nonce (is )?too (high|distant)", "nonce ?gap", "gapped.nonce")),
    (Kind.REPLACEMENT, ("replacement.{0,20}(underpriced|fee|gas|price)", "could not replace existing")),
    (
        Kind.UNDERPRICED,
        (
            "underpriced", "below (the )?(block )?base ?fee", "fee ?too ?low", "tip.{0,20}too low",
            "fee per gas less than block", "gas price.{0,30}(below|too low)", "minimum needed",
            "pool is full",
        ),
    ),
    (
        Kind.KNOWN,
        (
            "already ?known", "already imported", "known transaction", "already exists",
            "already in (the )?pool",
        ),
    ),
    (Kind.POOR, ("insufficient ?funds", "insufficient balance", "upfront cost exceeds")),
    (Kind.REVERTED, ("execution reverted", "vm exception.{0,40}revert", "^reverted")),
    (
        Kind.REFUSED,
        ("gas limit", "intrinsic gas", "out of gas", "gas required exceeds", "oversized", "init ?code"),
    ),
    (Kind.BEHIND, ("beyond.{0,20}(head|latest)",)),
    (
        Kind.TOO_MUCH,
        (
            "more than \\d+ (results|logs)", "block range", "range (is )?too (large|wide)", "response size",
            "too many (blocks|results|logs)", "exceeds? max(imum)? (results|block|range|logs)",
        ),
    ),
    (
        Kind.BUSY,
        (
            "rate.?limit", "too many requests", "request (count|limit)", "limit exceeded", "capacity",
            "throttl", "exceeded.{0,60}(quota|throughput|compute|units|second)", "over quota",
            "daily.{0,20}limit",
        ),
    ),
    (
        Kind.BEHIND,
        (
            "header not found", "header for hash not found", "unknown block", "missing trie node",
            "block.{0,90}(not|n't) (be )?(found|available|known)", "transaction indexing",
            "resource (not found|unavailable)", "state.{0,60}(not available|unavailable|missing)",
            "after last (accepted )?block", "unfinalized", "syncing",
            "head block.{0,40}(less|lower)", "not (yet )?(synced|ready)", "time(d )?.?out", "temporarily",
            "try again", "bad gateway", "service unavailable", "internal (server )?error",
        ),
    ),
    (
        Kind.UNSUPPORTED,
        (
            "method.{0,90}(not|n't).{0,20}(found|exist|support|available|allow|enabled|implement|whitelist)",
            "unsupported", "not supported", "pending (block|state|tag)", "(unknown|invalid|bad) (block )?tag",
            "unknown method", "invalid block (number|parameter)",
        ),
    ),
)  # fmt: skip
"""Patterns in lower case, tried in this order; the first match counts."""

CODES: Mapping[int, Kind] = {
    3: Kind.REVERTED,
    429: Kind.BUSY,
    -32001: Kind.BEHIND,
    -32002: Kind.BEHIND,
    -32004: Kind.UNSUPPORTED,
    -32005: Kind.BUSY,
    -32029: Kind.BUSY,
    -32601: Kind.UNSUPPORTED,
    -32603: Kind.BEHIND,
}
"""The meaning of codes if the words say nothing. -32000 says nothing either."""

LOOKED_AT_CHARACTERS = 1_000
"""The most characters of an error's words that are read. Some patterns take time that grows with the square
of the length."""
SHOWN_CHARACTERS = 300

_COMPILED = tuple((kind, re.compile("|".join(words))) for kind, words in WORDS)
_WAIT = re.compile(r"(?:retry|try|again|wait|backoff)\D{0,40}?(\d+(?:\.\d+)?) ?(ms|milli|s\b|sec|m\b|min)?")
_NEEDED = re.compile(r"minimum needed (\d+)")
_UNITS_S = {"ms": 1e-3, "milli": 1e-3, "m": 60.0, "min": 60.0}


@dataclass
class ProviderError(Exception):
    """A JSON-RPC error of a provider. `data` is the revert's data, else empty. `wait_s` is the pause in
    seconds that the provider asks for, None if it names none. `may_have_arrived` says that another endpoint
    may have accepted the transaction that this one refuses."""

    kind: Kind
    message: str
    data: bytes = b""
    wait_s: float | None = None
    may_have_arrived: bool = False

    def __str__(self) -> str:
        """Returns the provider's words."""
        return self.message

    @property
    def needed_wei(self) -> int | None:
        """The least tip for each gas that the provider requires; None if it names none."""
        found = _NEEDED.search(self.message.lower())
        return int(found[1]) if found else None


def read_error(error: object) -> ProviderError:
    """Returns the `error` of a JSON-RPC answer, classified, whatever its form. Its words are shortened, and
    made safe for a terminal and a log."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    said = fields.get("message", "")
    message, code, data = _cut(said), fields.get("code"), _find_data(fields.get("data"))
    words = (
        f"{message} {_cut(fields['data'])}" if isinstance(fields.get("data"), str) and not data else message
    )
    kind = classify(code if isinstance(code, int) else None, words)
    if kind is not Kind.REVERTED and data:
        kind = Kind.REVERTED
    return ProviderError(kind, show_words(message) or "an error without words", data, find_wait_s(words))


def show_words(words: str) -> str:
    """Returns an endpoint's words, shortened and with control characters escaped, because a line break could
    fake a log line of this node."""
    shown = words[:SHOWN_CHARACTERS]
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)


def _cut(said: object) -> str:
    """Returns the part of an error's words that is read. Lists and objects are left out, because they may be
    long."""
    if isinstance(said, str):
        return said[:LOOKED_AT_CHARACTERS]
    return str(said) if said is None or isinstance(said, int | float) else ""


def classify(code: int | None, words: str) -> Kind:
    """Returns the kind of an error with this code (None: no code) and these words."""
    said = words[:LOOKED_AT_CHARACTERS].lower()
    for kind, pattern in _COMPILED:
        if pattern.search(said):
            return kind
    return CODES.get(code, Kind.REFUSED) if code is not None else Kind.REFUSED


def find_wait_s(words: str) -> float | None:
    """Returns the pause in seconds that a provider asks for; None if its words name no time."""
    found = _WAIT.search(words[:LOOKED_AT_CHARACTERS].lower())
    return float(found[1]) * _UNITS_S.get(found[2] or "s", 1.0) if found else None


def _find_data(data: object) -> bytes:
    """Returns the data of a revert. Nodes send it as text, or as `data` or `result` of an object, some with
    words before it."""
    if isinstance(data, Mapping):
        data = data.get("data") or data.get("result")
    if not isinstance(data, str) or "0x" not in data:
        return b""
    try:
        return bytes.fromhex(data[data.index("0x") + 2 :])
    except ValueError:
        return b""
