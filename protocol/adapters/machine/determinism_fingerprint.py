"""Notes beside the journal which bits this machine computed for each task when it last ran.

The note holds no secret, and can be made again: a damaged or missing one costs one self-test.
"""

import platform
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

from touchstone.protocol.adapters.files.private_files import replace_private_file

FILE_NAME = "bits.json"
"""The file's name in a home."""


class DeterminismFingerprint(msgspec.Struct, frozen=True):
    """Tells which bits the last run computed. `machine` is from `compute.determinism.describe_bits`.
    `step_root` is the root of the state after one fixed step of the task, in hex. Claims and votes up to
    round `unlike_until` were computed with other bits (-1: none). `former_root` is what `step_root` was
    before the last update that changed bits, empty if none did."""

    machine: str
    step_root: str
    unlike_until: int = -1
    former_root: str = ""


def read_bits(home: Path) -> dict[str, DeterminismFingerprint]:
    """Returns the fingerprints of the last runs, by task id in hex; empty if the file is missing or
    damaged."""
    try:
        return msgspec.json.decode((home / FILE_NAME).read_bytes(), type=dict[str, DeterminismFingerprint])
    except (OSError, msgspec.DecodeError):
        return {}


def write_bits(home: Path, bits: dict[str, DeterminismFingerprint]) -> None:
    """Writes the fingerprint for the next run. Raises OSError if the disk refuses it."""
    replace_private_file(home / FILE_NAME, msgspec.json.encode(bits))


def read_processor_model() -> str:
    """Returns the processor's model as the system names it. Kernels cut matrix products to fit the caches of
    the model."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


@cache
def hash_sources(*folders: Path) -> str:
    """Returns a hash (16 hex digits) of all Python files below these folders, as of the first call in this
    process."""
    found = sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        found.update(sha256(str(path.name).encode()).digest() + sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]
