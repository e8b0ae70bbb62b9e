"""Finds what is wrong in a claim, for auditors with and without a seat.

A rejection rests on data in the store alone:

verdict        voted when                                         challenged by
REJECT_START   boundary 0 is not what the round starts from       `Evidence.proveRightStart`
REJECT_STATE   the ends differ beyond the limits at a leaf        a query: the signer shows that leaf
REJECT_DELTA   a leaf is not the encoded difference, or the       `Evidence.proveRightDelta`
               carried root is not of the last boundary
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from touchstone.node.kit.states import StateStore
from touchstone.node.kit.stored_tensors import StoredTensor, open_tensor
from touchstone.node.records.audit_records import EndsShown
from touchstone.node.serving.audit_room import AuditTask
from touchstone.protocol.adapters.store.blobs import refer_delta, refer_tensor
from touchstone.protocol.compute.outer.pseudo_gradients import PART_ELEMENTS, encode_delta
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd
from touchstone.protocol.spec.claim_tree import compute_carried_root
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.game.previous_claim import find_last_merged
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_ELEMENTS, ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class Finding:
    """The outcome of an audit: a verdict, and the leaf that the vote names."""

    word: VoteWord
    leaf: int = 0


def judge_ends(about: AuditTask, end: ClaimedEnd) -> Finding | None:
    """Returns REJECT_STATE if the claimed end differs from the replayed end by more than the task's
    tolerance, else None. Two ends with the same root are equal."""
    verdict = about.tolerance.judge(end)
    return Finding(VoteWord.REJECT_STATE, verdict.leaf) if verdict.exceeds_limits else None


def judge_work(states: StateStore, base_weights: bytes, ends: EndsShown) -> Finding | None:
    """Returns REJECT_DELTA if the work leaf is wrong, else None. The carried root must be of the last
    boundary, and each leaf of the pseudo-gradient must encode base minus final weights. All three tensors are
    in the store."""
    if ends.work.carried_root != compute_carried_root(ends.last.header):
        return Finding(VoteWord.REJECT_DELTA)
    count = states.parameter_count
    before, after = (
        open_tensor(states.store, refer_tensor(root, count))
        for root in (base_weights, ends.last.header.weights_root)
    )
    delta = states.store.open_map(refer_delta(ends.work.delta_root, count))
    leaf = _find_wrong_leaf(before, after, delta)
    return None if leaf is None else Finding(VoteWord.REJECT_DELTA, leaf)


def carry_nothing(about: AuditTask) -> bytes:
    """Returns the carried root of a boundary 0 with zero moments and local step 0."""
    return compute_carried_root(StateHeader(ZERO_WORD, about.zero_root, about.zero_root, 0, 0))


def is_start_right(
    about: AuditTask, index: int, first: StateHeader, base_weights: bytes, carried_root: bytes | None
) -> bool:
    """Returns whether boundary 0 is what a claim of round `index` must start from. carried_root is None if
    the round that fixes it is no longer known."""
    is_placed = first.global_step == index * about.inner_steps
    is_carried = carried_root in (None, compute_carried_root(first))
    return first.weights_root == base_weights and is_placed and is_carried


async def find_carried(
    about: AuditTask, game: GameState, place: AuditPlace, ask: Callable[[int, int], Awaitable[bytes]]
) -> bytes | None:
    """Returns the carried root that boundary 0 must have, or None if the round that fixes it is no longer
    known. `ask(round, slot)` returns the carried root of a merged claim."""
    if not about.carry_moments:
        return carry_nothing(about)
    try:
        before = find_last_merged(game, place)
    except KeyError:
        return None
    return carry_nothing(about) if before is None else await ask(*before)


def _find_wrong_leaf(before: StoredTensor, after: StoredTensor, delta: memoryview) -> int | None:
    """Returns the first wrong leaf, or None. It compares a million elements at a time, and single leaves only
    inside a wrong part."""
    for start in range(0, before.elements, PART_ELEMENTS):
        stop = min(start + PART_ELEMENTS, before.elements)
        if not _is_encoded(before, after, delta, start, stop):
            leaves = range(start, stop, LEAF_ELEMENTS)
            return next(
                one // LEAF_ELEMENTS
                for one in leaves
                if not _is_encoded(before, after, delta, one, one + LEAF_ELEMENTS)
            )
    return None


def _is_encoded(before: StoredTensor, after: StoredTensor, delta: memoryview, start: int, stop: int) -> bool:
    """Returns whether these elements of the pseudo-gradient are right. It returns False if the difference
    cannot be encoded."""
    first = start // LEAF_ELEMENTS * DELTA_LEAF_BYTES
    try:
        expected = encode_delta(before.cut(start, stop), after.cut(start, stop))
    except ProtocolFault:
        return False
    return bytes(delta[first : first + len(expected)]) == expected
