"""Whom and what limits the vectors name."""

from protocol.spec.containers import Limits

ACCOUNT = "0x" + "a1" * 20


def _limits(tau: float, floor: float) -> Limits:
    scaled, unit = int(tau * 2**64), 2**149
    return Limits(scaled, int(1e-8 * unit), scaled, int(floor * unit), scaled, 2 ** (64 - 23))


LIMITS = _limits(1e-4, 1e-15)
WIDER = _limits(1e-3, 1e-14)
