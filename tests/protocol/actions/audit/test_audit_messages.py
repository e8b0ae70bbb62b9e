"""Which step numbers a state may have at its place."""

import pytest

from protocol.actions.audit.audit_messages import are_steps_right
from protocol.spec.containers import StateHeader

ROOT = b"r" * 32


@pytest.mark.parametrize(
    ("local", "carries", "is_right"),
    [
        (0, False, True),
        (5, False, False),
        (0, True, True),
        (60, True, True),
        (61, True, False),
        ((1 << 32) - 11, True, False),
    ],
)
def test_local_steps_are_never_more_than_global_ones(local: int, carries: bool, is_right: bool) -> None:
    """Where moments carry over, boundary 0 says from where local steps count. A replay that ended at step
    2^32 could not be shown on chain: who sealed it would lose any dispute."""
    first = StateHeader(ROOT, ROOT, ROOT, local, 60)
    start = StateHeader(ROOT, ROOT, ROOT, local + 10, 70)
    assert are_steps_right(start, first, 70, 10, carries=carries) is is_right
