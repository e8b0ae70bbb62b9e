"""Signed requests: who asks, proven with the staked key (EIP-712).

The signature covers the chain and registry (domain), the method and path, the server's account, the time and
a nonce. So it cannot be used on another server, for another blob, later, or twice.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from protocol.adapters.keys import AccountKey
from protocol.spec.errors import ProtocolFault

HEADER_ACCOUNT = "Touchstone-Account"
HEADER_ISSUED_AT = "Touchstone-Issued-At"
HEADER_NONCE = "Touchstone-Nonce"
HEADER_SIGNATURE = "Touchstone-Signature"

MAX_AGE_SECONDS = 60
"""A signature counts within a minute of the server's clock, before or after."""
MAX_REMEMBERED_NONCES = 8192
"""per account, above what the rate limit lets through. Beyond it requests are refused rather than forgotten;
one account cannot use up another's."""

REQUEST_TYPE = {
    "Request": [
        {"name": "method", "type": "string"},
        {"name": "path", "type": "string"},
        {"name": "server", "type": "address"},
        {"name": "issuedAt", "type": "uint64"},
        {"name": "nonce", "type": "bytes32"},
    ]
}


@dataclass(frozen=True)
class WireDomain:
    """Where signatures are valid: one chain, one registry contract (an address)."""

    chain_id: int
    registry: str

    def to_typed_data(self) -> dict[str, Any]:
        """The EIP-712 domain."""
        return {
            "name": "Touchstone",
            "version": "1",
            "chainId": self.chain_id,
            "verifyingContract": self.registry,
        }


class RequestSigner:
    """Signs this account's requests; each one once, with its own nonce."""

    def __init__(self, key: AccountKey, domain: WireDomain, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._domain = domain
        self._now = now

    @property
    def account(self) -> str:
        """The address that signs, in lower case."""
        return self._key.address.lower()

    def sign(self, method: str, path: str, server: str) -> dict[str, str]:
        """Headers for one request of `path` (as sent, with any query) to the server of account `server`."""
        issued_at, nonce = int(self._now()), secrets.token_bytes(32)
        message = _make_message(method, path, server, issued_at, nonce)
        signature = self._key.sign_typed_data(self._domain.to_typed_data(), REQUEST_TYPE, message)
        return {
            HEADER_ACCOUNT: self.account,
            HEADER_ISSUED_AT: str(issued_at),
            HEADER_NONCE: nonce.hex(),
            HEADER_SIGNATURE: signature.hex(),
        }


class RequestVerifier:
    """Checks requests to one server. Raises ProtocolFault, with the reason, for each that does not count."""

    def __init__(
        self,
        server: str,
        domain: WireDomain,
        is_staked: Callable[[str], bool],
        now: Callable[[], float] = time.time,
    ) -> None:
        """server: this server's account; is_staked: answers at once for an address in lower case."""
        self._server = server.lower()
        self._domain = domain
        self._is_staked = is_staked
        self._now = now
        self._seen: dict[str, OrderedDict[bytes, float]] = {}

    def verify(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The account, in lower case, that signed this request."""
        account = headers.get(HEADER_ACCOUNT, "").lower()
        if not account:
            raise _refuse("the request is not signed", f"the header {HEADER_ACCOUNT}", "none", account)
        issued_at = self._read_time(headers, account)
        nonce = _read_hex(headers, HEADER_NONCE, 32, account)
        signature = _read_hex(headers, HEADER_SIGNATURE, 65, account)
        # Cheap first: recovering a signature takes longest.
        if not self._is_staked(account):
            raise _refuse("the account has no stake here", "a staked account", account, account)
        message = _make_message(method, path, self._server, issued_at, nonce)
        signer = _recover(self._domain, message, signature, account)
        if signer != account:
            expected = f"{method} {path} signed by {account} for server {self._server}"
            raise _refuse("the signature is not of this request", expected, f"signer {signer}", account)
        self._remember(account, nonce)
        return account

    def _read_time(self, headers: Mapping[str, str], account: str) -> int:
        text, now = headers.get(HEADER_ISSUED_AT, ""), int(self._now())
        is_number = text.isascii() and text.isdigit() and len(text) <= 12
        if not is_number or abs(int(text) - now) > MAX_AGE_SECONDS:
            expected = f"issued within {MAX_AGE_SECONDS} s of unix second {now}"
            raise _refuse("the request is stale", expected, repr(text[:32]), account)
        return int(text)

    def _remember(self, account: str, nonce: bytes) -> None:
        now, seen = self._now(), self._seen.setdefault(account, OrderedDict())
        while seen and next(iter(seen.values())) < now:
            seen.popitem(last=False)
        if nonce in seen:
            raise _refuse("the request was used before", "a fresh nonce", nonce.hex(), account)
        if len(seen) >= MAX_REMEMBERED_NONCES:
            raise _refuse("too many requests", f"{MAX_REMEMBERED_NONCES} in two minutes", "more", account)
        # A signature from a clock ahead of ours stays valid for twice MAX_AGE_SECONDS.
        seen[nonce] = now + 2 * MAX_AGE_SECONDS + 1


def _make_message(method: str, path: str, server: str, issued_at: int, nonce: bytes) -> dict[str, Any]:
    return {"method": method, "path": path, "server": server.lower(), "issuedAt": issued_at, "nonce": nonce}


def _read_hex(headers: Mapping[str, str], name: str, length: int, account: str) -> bytes:
    text = headers.get(name, "")
    if len(text) != 2 * length or not set(text) <= set("0123456789abcdef"):
        raise _refuse(
            f"the header {name} is malformed", f"{2 * length} hex digits", repr(text[:140]), account
        )
    return bytes.fromhex(text)


def _recover(domain: WireDomain, message: dict[str, Any], signature: bytes, account: str) -> str:
    signable = encode_typed_data(domain.to_typed_data(), REQUEST_TYPE, message)
    try:
        return str(Account.recover_message(signable, signature=signature)).lower()
    except (BadSignature, ValidationError, ValueError) as error:
        raise _refuse(
            "the signature is malformed", "a recoverable signature", type(error).__name__, account
        ) from error


def _refuse(what: str, expected: object, actual: object, account: str) -> ProtocolFault:
    return ProtocolFault(
        what=what,
        expected=expected,
        actual=actual,
        culprit=account or "unsigned",
        remedy="Sign each request anew with the staked key; check the clock and the registered endpoint.",
    )
