"""Signs requests, and verifies who signed one, with the account's key (EIP-712).

The signature covers the chain and registry (domain), the method and path, the server's account, the time and
a nonce. So it cannot be used on another server, for another blob, later, or twice.
"""

import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping

from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.signatures import recover_signer, sign_statement
from touchstone.protocol.adapters.messages import (
    Address,
    Count,
    Form,
    Message,
    Signature,
    Word,
    encode_message,
)
from touchstone.protocol.adapters.wire.clocks import PeerClocks
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.node_statements import Request
from touchstone.protocol.spec.typed_data import SigningDomain

HEADER = "Touchstone-Proof"
"""The name of the header that holds a `Proof` in JSON."""
MAX_PROOF_BYTES = 1024
MAX_AGE_SECONDS = 60
"""A signature is valid within a minute before or after the server's time."""
MAX_REMEMBERED_NONCES = 8192
"""The most nonces remembered for one account: more than the rate limit allows. At this number the account's
requests are refused, so that no nonce is forgotten; other accounts are not affected."""


class Proof(Message, frozen=True):
    """Who sent a request: the signing account, and the other signed fields."""

    account: Address
    issued_at: Count
    nonce: Word
    signature: Signature


PROOF = Form(Proof, MAX_PROOF_BYTES, f"the header {HEADER} is malformed")


class RequestSigner:
    """Signs this account's requests, each once, with its own nonce."""

    def __init__(self, key: AccountKey, domain: SigningDomain, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._domain = domain
        self.clocks = PeerClocks(now)
        """The clocks of the servers. Each request is dated by the clock of its server."""

    @property
    def account(self) -> str:
        """The address that signs, in lower case."""
        return self._key.address.lower()

    def sign(self, method: str, path: str, server: str) -> dict[str, str]:
        """Returns the header for one request of `path` (as sent, with any query) to the server of account
        `server`."""
        issued_at = self.clocks.get_time(server.lower())
        request = Request(method, path, server.lower(), issued_at, secrets.token_bytes(32))
        signature = sign_statement(self._key, request, self._domain)
        proof = Proof(self.account, request.issued_at, request.nonce, signature)
        return {HEADER: encode_message(proof).decode()}


class RequestVerifier:
    """Checks requests to one server. Raises ProtocolFault, with the reason, for an invalid one."""

    def __init__(
        self,
        server: str,
        domain: SigningDomain,
        is_staked: Callable[[str], bool],
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begins. `server` is this server's account. `is_staked` says at once whether an address in lower
        case has a stake."""
        self._server = server.lower()
        self._domain = domain
        self._is_staked = is_staked
        self._now = now
        self._seen: OrderedDict[tuple[str, bytes], float] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def verify(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Returns the account, in lower case, that signed this request."""
        text = headers.get(HEADER, "")
        if not text:
            raise _refuse("the request is not signed", f"the header {HEADER}", "none", "unsigned")
        proof = PROOF.decode(text, "unsigned")
        self._require_fresh(proof)
        # Recovering a signature takes longest, so it comes last.
        if not self._is_staked(proof.account):
            raise _refuse("the account has no stake here", "a staked account", proof.account, proof.account)
        request = Request(method, path, self._server, proof.issued_at, proof.nonce)
        signer = recover_signer(request, proof.signature, self._domain, proof.account)
        if signer != proof.account:
            expected = f"{method} {path} signed by {proof.account} for server {self._server}"
            raise _refuse(
                "the signature does not belong to this request", expected, f"signer {signer}", proof.account
            )
        self._remember(proof.account, proof.nonce)
        return proof.account

    def _require_fresh(self, proof: Proof) -> None:
        now = int(self._now())
        if abs(proof.issued_at - now) > MAX_AGE_SECONDS:
            expected = f"issued within {MAX_AGE_SECONDS} s of unix second {now}"
            raise _refuse("the request is stale", expected, proof.issued_at, proof.account)

    def read_clock(self) -> int:
        """Returns the Unix second of this server's clock."""
        return int(self._now())

    def count_remembered(self) -> int:
        """Returns how many nonces of all accounts are remembered."""
        return len(self._seen)

    def _remember(self, account: str, nonce: bytes) -> None:
        now = self._now()
        self._forget(now)
        if (account, nonce) in self._seen:
            raise _refuse("the request was used before", "a fresh nonce", nonce.hex(), account)
        if self._counts[account] >= MAX_REMEMBERED_NONCES:
            raise _refuse("too many requests", f"{MAX_REMEMBERED_NONCES} in two minutes", "more", account)
        # A signature from a clock ahead of ours stays valid for twice MAX_AGE_SECONDS.
        self._seen[account, nonce] = now + 2 * MAX_AGE_SECONDS + 1
        self._counts[account] += 1

    def _forget(self, now: float) -> None:
        """Drops expired nonces of all accounts, because an account may ask once and never again."""
        while self._seen and next(iter(self._seen.values())) < now:
            (account, _), _ = self._seen.popitem(last=False)
            self._counts[account] -= 1
            if not self._counts[account]:
                del self._counts[account]


def _refuse(what: str, expected: object, actual: object, account: str) -> ProtocolFault:
    return ProtocolFault(
        what=what,
        expected=expected,
        actual=actual,
        culprit=account,
        remedy="Sign each request again, with the staked key. Check the clock and the announced endpoint.",
    )
