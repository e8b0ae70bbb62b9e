"""What server and client agree on: endpoints, paths, desks and JSON answers.

An endpoint is the address under which a node's peers connect to it, announced on chain. One rule holds for
both sides: a node refuses to announce what its peers would refuse to use.

A blob's path holds a known kind and 64 hex digits, no name. A desk answers one kind of message of peers; a
room of the node opens one for each kind. In JSON a node answers with its own status, or says why it refuses.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

from protocol.adapters.blobs import BlobKey, BlobKind
from protocol.adapters.messages import Address, Count, Form, Message
from protocol.spec.errors import InvalidInput

MAX_STATUS_BYTES = 4096
MAX_REFUSAL_BYTES = 4096


class NodeStatus(Message, frozen=True):
    """What a node says of itself: how far it has read the chain, and for which block it waits (None: for
    the others only)."""

    account: Address
    processed_block: Count
    waiting_for_block: Count | None


class RefusalAnswer(Message, frozen=True):
    """Why a request is not served."""

    what: str
    expected: str = ""
    actual: str = ""
    remedy: str = ""


STATUS_FORM = Form(NodeStatus, MAX_STATUS_BYTES, "the status is malformed")
REFUSAL = Form(RefusalAnswer, MAX_REFUSAL_BYTES, "the refusal is malformed")


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
KEY_PATTERN = "{kind:" + "|".join(kind.value for kind in BlobKind) + "}/{root:[0-9a-f]{64}}"


def format_path(route: str, key: BlobKey) -> str:
    """The path of `key` under `route` (BLOB, CHUNKS or LEAVES)."""
    return f"/{route}/{key}"


def format_leaves(key: BlobKey, runs: str) -> str:
    """The path of some leaves of a dataset; runs: as `leaf_runs.format_runs` writes them."""
    return f"{format_path(LEAVES, key)}?{RUNS}={runs}"


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
