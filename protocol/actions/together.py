"""Duties that one transaction does together: its base fee and its look at the round are paid once.

Pure: which of the calls that are due go together. `Participant` performs them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.keeping import get_claim_page
from protocol.spec.round import RoundState, get_audit_deadlines, get_phase

ByDraw = calls.OpenStart | calls.OpenEnd
BySlot = calls.Judge | calls.SettleClaim


@dataclass(frozen=True)
class Together:
    """Calls of one kind in one round, for one transaction."""

    calls: tuple[Call, ...]


def hold_commitments(state: RoundState, due: Iterable[Call], block: int) -> Iterator[Call]:
    """The calls without the commitments that wait for another replay, so that all go in one transaction.

    None waits once a quarter of its window is left."""
    listed = list(due)
    replaying = any(isinstance(call, calls.Replay) for call in listed)
    for call in listed:
        if not (replaying and isinstance(call, calls.CommitReplay) and not _is_late(state, call, block)):
            yield call


def _is_late(state: RoundState, call: calls.CommitReplay, block: int) -> bool:
    clock = get_audit_deadlines(state, get_phase(state, call.audit.draw, call.audit.rank), block)
    return clock is None or block >= clock.replay_end - state.terms.windows.replay // 4


def join_calls(state: RoundState, due: Iterable[Call]) -> Iterator[Call | Together]:
    """The calls, those that go together as one."""
    listed = list(due)
    for kind in dict.fromkeys(map(type, listed)):
        yield from _join(state, [call for call in listed if type(call) is kind])


def _join(state: RoundState, same: list[Call]) -> Iterator[Call | Together]:
    first = same[0]
    if isinstance(first, ByDraw):
        draws = [call for call in same if isinstance(call, ByDraw) and call.draw != state.late_draw]
        # One transaction opens draws 0, 1, ... in this order.
        if len(draws) > 1 and [call.draw for call in draws] == list(range(len(draws))):
            yield Together(tuple(draws))
            same = [call for call in same if call not in draws]
    elif isinstance(first, calls.CommitReplay | calls.Reveal) and len(same) > 1:
        yield Together(tuple(same))
        return
    elif isinstance(first, BySlot):
        for run in _list_runs(state, [call for call in same if isinstance(call, BySlot)]):
            yield Together(tuple(run)) if len(run) > 1 else run[0]
        return
    yield from same


def _list_runs(state: RoundState, same: list[BySlot]) -> Iterator[list[BySlot]]:
    """Slots one after the other, of one page each: a page fits a transaction, whatever was not done."""
    ordered = enumerate(sorted(same, key=lambda call: call.slot))
    for _, run in groupby(ordered, lambda one: (one[1].slot - one[0], get_claim_page(state, one[1].slot))):
        yield [call for _, call in run]
