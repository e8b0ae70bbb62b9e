"""What an auditor's word must stand on. Nothing here asks anybody: everything is in the store.

REJECT_START   boundary 0 is not what the round starts from       `Evidence.proveRightStart` may not hold
REJECT_STATE   the ends differ beyond the limits at a leaf        the signer shows that leaf when asked
REJECT_DELTA   a leaf is not the encoded difference, or what is   `Evidence.proveRightDelta` may not hold
               handed on is not of the last boundary
"""

from dataclasses import dataclass

import numpy as np

from protocol.actions.audit.records import EndsShown, SealMade
from protocol.actions.audit.room import AuditTask
from protocol.actions.audit.states import StateShelf
from protocol.actions.tensors import StoredTensor, open_tensor
from protocol.adapters.blobs import refer_delta, refer_tensor
from protocol.compute.compare import judge_state
from protocol.compute.outer import PART_ELEMENTS, encode_delta
from protocol.spec.claim_tree import compute_carried_root
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.errors import ProtocolFault
from protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES, LEAF_ELEMENTS
from protocol.spec.statements import VoteWord


@dataclass(frozen=True)
class Finding:
    """What a vote says: a word, and the leaf that it names."""

    word: VoteWord
    leaf: int = 0


def judge_ends(
    about: AuditTask, shelf: StateShelf, place: tuple[int, int], own: StateHeader, end: StateHeader, *,
    is_exact: bool,
) -> Finding | None:  # fmt: skip
    """REJECT_STATE where the claim's end lies beyond the limits from the own one, both in the store; None
    inside. Ends with one root are one state, whatever is in them. place: round and segment."""
    if compute_state_root(own) == compute_state_root(end):
        return None
    if (own.local_step, own.global_step) != (end.local_step, end.global_step):
        return Finding(VoteWord.REJECT_STATE)
    claimed, replayed = shelf.open(end), shelf.open(own)
    if is_exact:
        pairs = zip(claimed.tensors, replayed.tensors, strict=True)
        return Finding(VoteWord.REJECT_STATE, min(_find_difference(*pair) for pair in pairs))
    verdict = judge_state(claimed, replayed, about.get_rate_sum(*place), about.limits)
    return Finding(VoteWord.REJECT_STATE, verdict.leaf) if verdict.is_beyond else None


def judge_work(shelf: StateShelf, base_weights: bytes, ends: EndsShown) -> Finding | None:
    """REJECT_DELTA where the work leaf is wrong: what it hands on, or the first leaf of the pseudo-gradient
    that is not the encoded difference of the base and the final weights. All are in the store."""
    if ends.work.carried_root != compute_carried_root(ends.last.header):
        return Finding(VoteWord.REJECT_DELTA)
    count = shelf.parameter_count
    before, after = (
        open_tensor(shelf.store, refer_tensor(root, count))
        for root in (base_weights, ends.last.header.weights_root)
    )
    delta = shelf.store.open_map(refer_delta(ends.work.delta_root, count))
    leaf = _find_wrong_leaf(before, after, delta)
    return None if leaf is None else Finding(VoteWord.REJECT_DELTA, leaf)


def is_start_right(about: AuditTask, made: SealMade, base_weights: bytes, carried_root: bytes | None) -> bool:
    """Whether boundary 0 is what the claim must start from. carried_root: None where nobody can know it."""
    header, index = made.first.header, made.sealed.round
    is_placed = header.global_step == index * about.inner_steps
    is_carried = carried_root in (None, compute_carried_root(header))
    return header.weights_root == base_weights and is_placed and is_carried


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
    """A difference that has no encoding is the solver's own fault."""
    first = start // LEAF_ELEMENTS * DELTA_LEAF_BYTES
    try:
        expected = encode_delta(before.cut(start, stop), after.cut(start, stop))
    except ProtocolFault:
        return False
    return bytes(delta[first : first + len(expected)]) == expected


def _find_difference(claimed: StoredTensor, replayed: StoredTensor) -> int:
    """The first leaf in which two tensors differ; one behind the last where they do not."""
    theirs, mine = (np.frombuffer(one.mapped, np.uint8) for one in (claimed, replayed))
    for start in range(0, len(mine), 4 * PART_ELEMENTS):
        differing = np.flatnonzero(
            theirs[start : start + 4 * PART_ELEMENTS] != mine[start : start + 4 * PART_ELEMENTS]
        )
        if differing.size:
            return (start + int(differing[0])) // LEAF_BYTES
    return 1 << 62
