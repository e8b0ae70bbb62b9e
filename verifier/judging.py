"""What an audit finds in a claim: the same rules for an auditor with a seat and for anybody else.

What a rejection must stand on, found in the store alone:

word           found when                                         checked by
REJECT_START   boundary 0 is not what the round starts from       `Evidence.proveRightStart` may not hold
REJECT_STATE   the ends differ beyond the limits at a leaf        the signer shows that leaf when asked
REJECT_DELTA   a leaf is not the encoded difference, or what is   `Evidence.proveRightDelta` may not hold
               handed on is not of the last boundary
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
    """What a vote says: a word, and the leaf that it names."""

    word: VoteWord
    leaf: int = 0


def judge_ends(about: AuditTask, end: ClaimedEnd) -> Finding | None:
    """Returns REJECT_STATE if the claimed end is beyond the task's tolerance of the replayed end, else None.
    Ends with one root are one state, whatever is in them."""
    verdict = about.tolerance.judge(end)
    return Finding(VoteWord.REJECT_STATE, verdict.leaf) if verdict.exceeds_limits else None


def judge_work(states: StateStore, base_weights: bytes, ends: EndsShown) -> Finding | None:
    """REJECT_DELTA where the work leaf is wrong: what it hands on, or the first leaf of the pseudo-gradient
    that is not the encoded difference of the base and the final weights. All are in the store."""
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
    """Returns the carried root of a boundary 0 that starts from moments of zeros and no step."""
    return compute_carried_root(StateHeader(ZERO_WORD, about.zero_root, about.zero_root, 0, 0))


def is_start_right(
    about: AuditTask, index: int, first: StateHeader, base_weights: bytes, carried_root: bytes | None
) -> bool:
    """Tells whether boundary 0 is what a claim of round `index` must start from. carried_root: None if the
    round that fixes it is forgotten."""
    is_placed = first.global_step == index * about.inner_steps
    is_carried = carried_root in (None, compute_carried_root(first))
    return first.weights_root == base_weights and is_placed and is_carried


async def find_carried(
    about: AuditTask, game: GameState, place: AuditPlace, ask: Callable[[int, int], Awaitable[bytes]]
) -> bytes | None:
    """Returns the carried root that boundary 0 must have; None if the round that says so is forgotten.
    ask(round, slot): what a merged claim hands on."""
    if not about.carry_moments:
        return carry_nothing(about)
    try:
        before = find_last_merged(game, place)
    except KeyError:
        return None
    return carry_nothing(about) if before is None else await ask(*before)


def _find_wrong_leaf(before: StoredTensor, after: StoredTensor, delta: memoryview) -> int | None:
    """In parts: first of a million elements, then, where one is wrong, leaf by leaf."""
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
    """Returns False if the difference cannot be encoded: no honest claim has such a one."""
    first = start // LEAF_ELEMENTS * DELTA_LEAF_BYTES
    try:
        expected = encode_delta(before.cut(start, stop), after.cut(start, stop))
    except ProtocolFault:
        return False
    return bytes(delta[first : first + len(expected)]) == expected
