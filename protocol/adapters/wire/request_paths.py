"""Defines the paths of a node's server.

A blob's path holds a known kind and 64 hex digits.
"""

from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind

BLOB = "blob"
"""GET /blob/<kind>/<root>: the bytes; signed, Range understood."""
CHUNKS = "chunks"
"""GET /chunks/<kind>/<root>: the 32-byte chunk roots, so that each chunk can be checked as it comes;
signed."""
LEAVES = "leaves"
"""GET /leaves/dataset/<root>?runs=<FIRST-LAST,...>: those leaves that this node has, with their proofs inside
their chunks (`store/leaf_runs.py`); signed."""
RUNS = "runs"
REPORTS = "reports"
"""GET /reports/<task>/<round>: the node's reports of its work in a round; unsigned, for strangers."""
HEALTH = "/health"
"""GET: 200 while the server runs."""
STATUS = "/status"
"""GET: the node's status, a JSON object."""
STORAGE = "Touchstone-Storage"
"""A header of GET /blob. Its sender also accepts status 307 with a presigned URL in the peer's bucket. If
that URL fails, it asks again without this header."""
REDIRECT = 307
MAX_LOCATION_CHARACTERS = 4096
DATASET_PATTERN = "{kind:" + BlobKind.DATASET.value + "}/{root:[0-9a-f]{64}}"
REPORTS_PATTERN = "{task:[0-9a-f]{64}}/{round:[0-9]{1,9}}"
KEY_PATTERN = "{kind:" + "|".join(kind.value for kind in BlobKind) + "}/{root:[0-9a-f]{64}}"


def format_path(route: str, key: BlobKey) -> str:
    """Returns the path of `key` under `route` (BLOB, CHUNKS or LEAVES)."""
    return f"/{route}/{key}"


def format_leaves(key: BlobKey, runs: str) -> str:
    """Returns the path for some leaves of a dataset. `runs` is written by `format_runs`."""
    return f"{format_path(LEAVES, key)}?{RUNS}={runs}"


def format_reports(task: bytes, index: int) -> str:
    """Returns the path of a node's reports of round `index` of a task."""
    return f"/{REPORTS}/{task.hex()}/{index}"


def parse_key(kind: str, root: str) -> BlobKey:
    """Returns the key of a path that KEY_PATTERN matched."""
    return BlobKey(BlobKind(kind), bytes.fromhex(root))
