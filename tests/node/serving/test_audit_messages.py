"""Which step numbers a state may have at its place."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.nodes import make_view
from tests.node.specs import get_spec
from touchstone.node.serving.audit_messages import are_steps_right
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.whistleblower import step_judging

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


def test_a_start_that_may_be_sealed_can_be_posted_in_a_dispute() -> None:
    """Whatever a solver shows of boundary 0 and of the segment's start: else an honest auditor's vote could
    be disputed, and its start posted by nobody. The rule of `DisputeOpening._requirePlaced`."""
    inner, segment_steps, sealed, refused = 4, 2, 0, 0
    terms = replace(get_spec().terms, inner_steps=inner, segment_steps=segment_steps)
    view = make_view(spec=replace(get_spec(), terms=terms))
    numbers = range(12)
    for index, segment, carries in product(range(3), range(2), (False, True)):
        claimed: Any = SimpleNamespace(round=index, segment=segment, peer=SimpleNamespace(account="solver"))
        steps = segment * segment_steps
        place = index * inner + steps
        for first_local, local, global_step in product(numbers, numbers, numbers):
            first = StateHeader(ROOT, ROOT, ROOT, first_local, global_step)
            start = StateHeader(ROOT, ROOT, ROOT, local, global_step)
            if not are_steps_right(start, first, place, steps, carries=carries):
                refused += 1
                continue
            sealed += 1
            after = range(segment_steps + 1)
            states = [StateHeader(ROOT, ROOT, ROOT, local + one, global_step + one) for one in after]
            step_judging._require_placed(view, claimed, states)
            assert local <= global_step == place
    assert sealed and refused
    with pytest.raises(ProtocolFault, match="wrong step counters"):
        step_judging._require_placed(view, claimed, [StateHeader(ROOT, ROOT, ROOT, 0, place + 1)])
