"""Defines what nodes sign and no contract checks: requests, calibration profiles, reports of a round.

Hashes and nonces are 32 bytes.
"""

from dataclasses import dataclass

from touchstone.protocol.spec.signed_reports import DistanceReport, HeldoutReport, LossReport


@dataclass(frozen=True)
class Request:
    """A signed HTTP request: for this path, to the server of this account, at this second, valid once."""

    method: str
    path: str
    server: str
    issued_at: int
    nonce: bytes


@dataclass(frozen=True)
class Calibration:
    """A calibration profile: the SHA-256 of its canonical bytes."""

    profile: bytes


NodeStatement = Request | Calibration | LossReport | HeldoutReport | DistanceReport
