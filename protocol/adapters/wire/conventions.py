"""What server and client agree on: endpoints, paths, desks, JSON answers and signed requests.

An endpoint is the address under which a node's peers connect to it, announced on chain. One rule holds for
both sides: a node refuses to announce what its peers would refuse to use.

A blob's path holds a known kind and 64 hex digits, no name. A desk answers one kind of message of peers; a
room of the node opens one for each kind. In JSON a node answers with its own status, or says why it refuses.

Signed requests: who asks, proven with the staked key (EIP-712). The signature covers the chain and registry
(domain), the method and path, the server's account, the time and a nonce. So it cannot be used on another
server, for another blob, later, or twice.
"""

import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from touchstone.protocol.adapters.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.keys import AccountKey, recover_signer, sign_statement
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
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.statements import Request, SigningDomain

MAX_STATUS_BYTES = 4096
MAX_REFUSAL_BYTES = 4096


class NodeStatus(Message, frozen=True):
    """What a node says of itself: how far it has read the chain, and for which block it waits (None: for
    the others only)."""

    account: Address
    processed_block: Count
    waiting_for_block: Count | None


class RefusalAnswer(Message, frozen=True):
    """Why a request is not served. unix_second: of the server's clock, where it does not take a
    signature."""

    what: str
    expected: str = ""
    actual: str = ""
    remedy: str = ""
    unix_second: Annotated[int, Meta(ge=0, lt=1 << 40)] | None = None


STATUS_FORM = Form(NodeStatus, MAX_STATUS_BYTES, "the status is malformed")
REFUSAL = Form(RefusalAnswer, MAX_REFUSAL_BYTES, "the refusal is malformed")

REACH = "reach"
"""The desk of a question that any account with an announced endpoint may ask: do you reach me?"""
MAX_REACH_BYTES = 1024


class Reach(StrEnum):
    """What a node saw at another's endpoint."""

    REACHED = "reached"
    REFUSED = "refused"
    SILENT = "silent"
    OTHER = "other"
    """Another certificate, or no TLS."""
    NO_ADDRESS = "no address"
    """The endpoint has no address at which the node may look: none at all, or none of the public internet."""
    NOT_LOOKED = "not looked"
    """Nothing in the endpoint's way is known: the node could not look."""


class ReachAsked(Message, frozen=True):
    """Do you reach the endpoint that I have announced? It is read from the chain: none is named here."""


class ReachSaid(Message, frozen=True):
    """What was seen, at which address, of the endpoint as the chain tells it."""

    url: Annotated[str, Meta(max_length=256)]
    certificate_sha256: Word
    reach: Reach
    address: Annotated[str, Meta(pattern=r"\A[0-9a-fA-F:.]{0,45}\Z")] = ""


REACH_ASKED = Form(ReachAsked, MAX_REACH_BYTES, "the question for reach is malformed")
REACH_SAID = Form(ReachSaid, MAX_REACH_BYTES, "the answer about reach is malformed")


BLOB = "blob"
"""GET /blob/<kind>/<root>: the bytes; signed, Range understood."""
CHUNKS = "chunks"
"""GET /chunks/<kind>/<root>: 32-byte subtree roots, so that each chunk can be judged as it comes; signed."""
LEAVES = "leaves"
"""GET /leaves/dataset/<root>?runs=<FIRST-LAST,...>: leaves with their proofs inside their chunks
(`adapters/leaf_runs.py`), those of them that this node has; signed."""
RUNS = "runs"
DESK = "desk"
"""POST /desk/<name>?sha256=<of the body>: a message in JSON, answered by one; signed. The signature covers
the path, so it covers the body."""
BODY_DIGEST = "sha256"
REPORTS = "reports"
"""GET /reports/<task>/<round>: what the node reports of its own work in a round; unsigned, for strangers."""
HEALTH = "/health"
"""GET: 200 while the server runs."""
STATUS = "/status"
"""GET: a JSON object about the node."""

STORAGE = "Touchstone-Storage"
"""A header of GET /blob: who sends it takes status 307 too, with a presigned URL of the blob in the peer's
bucket. It asks without this header where that URL is of no use."""
REDIRECT = 307
MAX_LOCATION_CHARACTERS = 4096

DESK_PATTERN = "{name:[a-z][a-z-]{0,31}}"
DATASET_PATTERN = "{kind:" + BlobKind.DATASET.value + "}/{root:[0-9a-f]{64}}"
REPORTS_PATTERN = "{task:[0-9a-f]{64}}/{round:[0-9]{1,9}}"
KEY_PATTERN = "{kind:" + "|".join(kind.value for kind in BlobKind) + "}/{root:[0-9a-f]{64}}"


def format_path(route: str, key: BlobKey) -> str:
    """The path of `key` under `route` (BLOB, CHUNKS or LEAVES)."""
    return f"/{route}/{key}"


def format_leaves(key: BlobKey, runs: str) -> str:
    """The path of some leaves of a dataset; runs: as `leaf_runs.format_runs` writes them."""
    return f"{format_path(LEAVES, key)}?{RUNS}={runs}"


def format_reports(task: bytes, index: int) -> str:
    """The path of a node's reports of round `index` of a task."""
    return f"/{REPORTS}/{task.hex()}/{index}"


def parse_key(kind: str, root: str) -> BlobKey:
    """The key that KEY_PATTERN matched."""
    return BlobKey(BlobKind(kind), bytes.fromhex(root))


def format_desk(name: str, body: bytes) -> str:
    """The path of a message to the desk of this name."""
    return f"/{DESK}/{name}?{BODY_DIGEST}={sha256(body).hexdigest()}"


@dataclass(frozen=True)
class Desk:
    """One kind of message and who answers it. most_bytes: of the message; answer(account, body): the answer
    to what `account` sent. It raises ProtocolFault for what is wrong for ever, EnvironmentFault for what may
    be right later; both are told to the sender."""

    most_bytes: int
    answer: Callable[[str, bytes], Awaitable[Message]]


MAX_URL_CHARACTERS = 256
MAX_PORT = 65535
ANY_PORT = 0
"""Takes a free port."""

FORM = "https://HOST or https://HOST:PORT"
_URL = re.compile(r"(?i:https)://(?:\[(?P<address>[^\[\]/]*)\]|(?P<name>[^\[\]/:]*))(?::(?P<port>\d+))?/?")
_NAME = re.compile(r"(?:(?!-)[A-Za-z0-9_-]{1,63}\.)*(?!-)[A-Za-z0-9_-]{1,63}\.?")
_NUMBER = re.compile(r"(?:\d+|0[xX][0-9A-Fa-f]*)\.?")
"""A last part of a host that makes it an address, never a name."""


def find_endpoint_fault(url: str) -> str:
    """Why no peer can use this URL as an endpoint; empty where one can."""
    if len(url) > MAX_URL_CHARACTERS:
        return f"{len(url)} characters, more than {MAX_URL_CHARACTERS}"
    found = _URL.fullmatch(url) if url.isascii() and url.isprintable() else None
    if found is None:
        return f"not of the form {FORM}"
    if found["port"] and not 1 <= int(found["port"]) <= MAX_PORT:
        return f"{found['port']} is no port"
    return _find_host_fault(found["address"] or found["name"] or "", in_brackets=found["address"] is not None)


def _find_host_fault(host: str, *, in_brackets: bool) -> str:
    with suppress(ValueError):
        address = ip_address(host)
        inner = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
        if inner.is_unspecified:
            return (
                f"{host} stands for every address of the machine itself: no other machine can connect to it"
            )
        if "%" in host:
            return f"{host} names a network card of one machine, and no other machine can connect to it"
        return "" if isinstance(address, IPv6Address) == in_brackets else f"{host!r} is no host"
    is_name = _NAME.fullmatch(host) and not _NUMBER.fullmatch(host.rstrip(".").rsplit(".", 1)[-1])
    return "" if is_name and not in_brackets else f"{host!r} is no host"


def choose_endpoint(listen_host: str, listen_port: int, public_url: str) -> str:
    """The endpoint of a node: `public_url`, or where it listens if that is empty. Raises InvalidInput where
    no peer could use it. listen_port: ANY_PORT before the port is known; the URL then lacks it."""
    host = f"[{listen_host}]" if ":" in listen_host else listen_host
    url = public_url or f"https://{host}" + (f":{listen_port}" if listen_port != ANY_PORT else "")
    fault = find_endpoint_fault(url)
    if fault:
        raise InvalidInput(
            what="no peer could use the endpoint of this node",
            expected=f"{FORM}, where other machines reach it",
            actual=f"{url!r}: {fault}",
            remedy=(
                "Use `touchstone init` with --public-url https://HOST:PORT, or with --listen-host and one "
                "address of this machine; for a home that exists, set public_url or listen_host in its "
                "config.toml."
            ),
        )
    return url


def find_own_host(listen_host: str, public_url: str) -> str:
    """Returns the host of a node's endpoint, as `choose_endpoint` chooses it; no URL is judged."""
    with suppress(ValueError):
        return (urlsplit(public_url).hostname or "") if public_url else listen_host
    return ""


# --- Signed requests ----------------------------------------------------------------------------------------
HEADER = "Touchstone-Proof"
"""The header of a `Proof` in JSON."""
MAX_PROOF_BYTES = 1024

MAX_AGE_SECONDS = 60
"""A signature counts within a minute of the server's clock, before or after."""
MAX_REMEMBERED_NONCES = 8192
"""per account, above what the rate limit lets through. Beyond it requests are refused rather than forgotten;
one account cannot use up another's."""


class Proof(Message, frozen=True):
    """Who asks: the account that signed the request, and what else it signed of it."""

    account: Address
    issued_at: Count
    nonce: Word
    signature: Signature


PROOF = Form(Proof, MAX_PROOF_BYTES, f"the header {HEADER} is malformed")


class RequestSigner:
    """Signs this account's requests; each one once, with its own nonce."""

    def __init__(self, key: AccountKey, domain: SigningDomain, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._domain = domain
        self.clocks = PeerClocks(now)
        """Those of the servers; each request is signed by that of its own."""

    @property
    def account(self) -> str:
        """The address that signs, in lower case."""
        return self._key.address.lower()

    def sign(self, method: str, path: str, server: str) -> dict[str, str]:
        """The header for one request of `path` (as sent, with any query) to the server of account
        `server`."""
        issued_at = self.clocks.get_time(server.lower())
        request = Request(method, path, server.lower(), issued_at, secrets.token_bytes(32))
        signature = sign_statement(self._key, request, self._domain)
        proof = Proof(self.account, request.issued_at, request.nonce, signature)
        return {HEADER: encode_message(proof).decode()}


class RequestVerifier:
    """Checks requests to one server. Raises ProtocolFault, with the reason, for each that does not count."""

    def __init__(
        self,
        server: str,
        domain: SigningDomain,
        is_staked: Callable[[str], bool],
        now: Callable[[], float] = time.time,
    ) -> None:
        """server: this server's account; is_staked: answers at once for an address in lower case."""
        self._server = server.lower()
        self._domain = domain
        self._is_staked = is_staked
        self._now = now
        self._seen: OrderedDict[tuple[str, bytes], float] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def verify(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The account, in lower case, that signed this request."""
        text = headers.get(HEADER, "")
        if not text:
            raise _refuse("the request is not signed", f"the header {HEADER}", "none", "unsigned")
        proof = PROOF.decode(text, "unsigned")
        self._require_fresh(proof)
        # Cheap first: recovering a signature takes longest.
        if not self._is_staked(proof.account):
            raise _refuse("the account has no stake here", "a staked account", proof.account, proof.account)
        request = Request(method, path, self._server, proof.issued_at, proof.nonce)
        signer = recover_signer(request, proof.signature, self._domain, proof.account)
        if signer != proof.account:
            expected = f"{method} {path} signed by {proof.account} for server {self._server}"
            raise _refuse("the signature is not of this request", expected, f"signer {signer}", proof.account)
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
        """Nonces that are kept, of all accounts."""
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
        """Drop the nonces of all accounts that are stale by now: an account may ask once and never again."""
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
        remedy="Sign each request anew with the staked key; check the clock and the registered endpoint.",
    )
