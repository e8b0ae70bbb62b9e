"""Values that look random and are the same on every machine, and recorded values, for tests and vectors."""

from hashlib import sha256

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.task_spec import Limits

TIMESTAMP_S = 1_692_806_304
"""The time of the recorded blocks: a margin before round 1000 of quicknet."""
ROUND_1000 = bytes.fromhex(
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"
)
"""The signature of round 1000, https://api.drand.sh/52db9ba7.../public/1000."""
MALFORMED_REQUESTS = (
    b"\x00\xff" * 200 + b"\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /requests/echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"GET /status HTTP/1.1\r\n" + b"x: y\r\n" * 500 + b"\r\n",
)
"""Malformed requests to an HTTP listener."""
ACCOUNT = "0x" + "a1" * 20


def _limits(tau: float, floor: float) -> Limits:
    scaled, unit = int(tau * 2**64), 2**149
    return Limits(scaled, int(1e-8 * unit), scaled, int(floor * unit), scaled, 2 ** (64 - 23))


LIMITS = _limits(1e-4, 1e-15)
WIDER = _limits(1e-3, 1e-14)


def word(label: str) -> bytes:
    """Returns 32 bytes that look random and are the same on every machine."""
    return sha256(label.encode()).digest()


def number(label: str, bound: int) -> int:
    """Returns an integer below `bound`, from a label."""
    return int.from_bytes(word(label), "big") % bound


def bits(value: float) -> int:
    """Returns the bits of the float32 nearest to a number."""
    return float32.float_to_bits(float32.nearest(value))
