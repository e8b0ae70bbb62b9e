"""What nodes sign for each other, and no contract ever checks: requests and calibration profiles.

`typed_data.py` says how each is signed. Hashes, nonces and ids are 32 bytes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One HTTP request: for this path, to the server of this account, at this second, once."""

    method: str
    path: str
    server: str
    issued_at: int
    nonce: bytes


@dataclass(frozen=True)
class Calibration:
    """A calibration profile: the SHA-256 of its canonical bytes."""

    profile: bytes


NodeStatement = Request | Calibration
