"""The paths that server and client agree on. A blob's path holds a known kind and 64 hex digits, no name."""

from hashlib import sha256

from protocol.adapters.blobs import BlobKey, BlobKind

BLOB = "blob"
"""GET /blob/<kind>/<root>: the bytes; signed, Range understood."""
CHUNKS = "chunks"
"""GET /chunks/<kind>/<root>: 32-byte subtree roots, so that each chunk can be judged as it comes; signed."""
DESK = "desk"
"""POST /desk/<name>?sha256=<of the body>: a message in JSON, answered by one; signed. The signature covers
the path, so it covers the body."""
BODY_DIGEST = "sha256"
HEALTH = "/health"
"""GET: 200 while the server runs."""
STATUS = "/status"
"""GET: a JSON object about the node."""

DESK_PATTERN = "{name:[a-z][a-z-]{0,31}}"
KEY_PATTERN = "{kind:" + "|".join(kind.value for kind in BlobKind) + "}/{root:[0-9a-f]{64}}"


def format_path(route: str, key: BlobKey) -> str:
    """The path of `key` under `route` (BLOB or CHUNKS)."""
    return f"/{route}/{key}"


def parse_key(kind: str, root: str) -> BlobKey:
    """The key that KEY_PATTERN matched."""
    return BlobKey(BlobKind(kind), bytes.fromhex(root))


def format_desk(name: str, body: bytes) -> str:
    """The path of a message to the desk of this name."""
    return f"/{DESK}/{name}?{BODY_DIGEST}={sha256(body).hexdigest()}"
