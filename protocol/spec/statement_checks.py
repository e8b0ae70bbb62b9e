"""Checks whether a statement is complete, whether its opening fits, and which statements contradict."""

from typing import Any

from touchstone.protocol.spec.commitments import compute_boundary_leaf
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statements import (
    COMPARED,
    NAMING,
    Sealed,
    Vote,
    VoteOpening,
    VoteWord,
    compute_seal,
)


def is_vote_complete(vote: Vote) -> bool:
    """Returns whether a vote has all fields that its verdict needs. An incomplete vote does not count.

    An auditor that compared ends has seen both leaves and has sealed. Without this rule an ACCEPT could leave
    a leaf out, and nobody could ever prove it false."""
    seen = (vote.start_leaf, vote.end_leaf, vote.seal)
    is_complete = vote.word not in COMPARED or ZERO_WORD not in seen
    is_word = vote.word in tuple(VoteWord)
    return is_word and is_complete and (vote.word in NAMING or vote.named_leaf == 0)


def does_opening_fit(vote: Vote, opening: VoteOpening, solver: str, auditor: str) -> bool:
    """Returns whether an opening fits the vote of `auditor` on the claim of `solver` (accounts): the claim's
    end leaf and the seal."""
    place = (vote.domain, vote.round, vote.slot, vote.draw, vote.rank)
    seal = compute_seal(*place, auditor, vote.start_leaf, opening.own_end_root, opening.seal_salt)
    end = (opening.boundary_salt, opening.claim_end_root)
    leaf = compute_boundary_leaf(vote.domain, vote.round, solver, vote.segment + 1, *end)
    return opening.vote == vote and seal == vote.seal and leaf == vote.end_leaf


def do_roots_fit_word(opening: VoteOpening) -> bool:
    """Returns whether an opening agrees with its vote in an exact task. An ACCEPT needs equal end roots, a
    REJECT_STATE different ones. Other verdicts say nothing about the end roots."""
    expected = {VoteWord.ACCEPT: True, VoteWord.REJECT_STATE: False}
    are_equal = opening.claim_end_root == opening.own_end_root
    return expected.get(opening.vote.word, are_equal) == are_equal


def do_votes_differ(a: Vote, b: Vote) -> bool:
    """Returns whether two votes of one auditor contradict each other: they differ, on one draw and rank of
    one claim.

    Votes that name another round, root, claim or seed do not contradict, because both may be right on two
    forks."""
    return _get_draw(a) == _get_draw(b) and a != b


def do_seals_differ(a: Sealed, b: Sealed) -> bool:
    """Returns whether an auditor's seal differs from its vote or another seal for the same draw and rank. A
    vote counts as the fields that it repeats. A zero seal hides nothing, so it contradicts nothing: the
    auditor was not served yet, or no longer has its sealed result.

    Without this rule an auditor could seal anything, wait for the end, and then vote with a new seal of the
    solver's own root, and so be paid without a replay."""
    is_kept = (a.segment, a.start_leaf, a.seal) == (b.segment, b.start_leaf, b.seal)
    is_said = ZERO_WORD not in (a.seal, b.seal)
    return _get_draw(a) == _get_draw(b) and is_said and not is_kept


def does_vote_misname(vote: Vote, boundary: int, leaf: bytes) -> bool:
    """Returns whether a vote names another leaf than `leaf`, which the claim's tree has at `boundary`. A vote
    that did not compare may have a zero there, which names none."""
    named = {vote.segment: vote.start_leaf, vote.segment + 1: vote.end_leaf}.get(boundary, leaf)
    return named != leaf and named != ZERO_WORD


def _get_draw(sealed: Sealed) -> tuple[Any, ...]:
    where = (sealed.domain, sealed.round, sealed.base_root, sealed.seed)
    return (*where, sealed.slot, sealed.claim_root, sealed.draw, sealed.rank)
