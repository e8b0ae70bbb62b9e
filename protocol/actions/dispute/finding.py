"""Which of the statements that this node knows can be proven false in one transaction.

Contradictions and misnamed leaves need nothing but what was signed and shown. Starts and pseudo-gradients are
compared by what is in the store: `judging_work.py`.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from protocol.actions.dispute import evidence
from protocol.actions.dispute.knowing import get_now
from protocol.actions.dispute.sources import ClaimOpenings, KnownSeal, KnownVote
from protocol.actions.dispute.standing import find_accused, find_signer, find_solver, is_provable
from protocol.actions.runtime.party import Party
from protocol.spec.codec import compute_boundary_leaf, compute_state_root
from protocol.spec.game.state import GameRound
from protocol.spec.merkle import count_tensor_leaves
from protocol.spec.params import ZERO_WORD
from protocol.spec.statements import (
    NAMING,
    do_roots_fit_word,
    do_seals_differ,
    do_votes_differ,
    does_vote_misname,
)

Prove = Callable[[Party], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Case:
    """A statement that can be proven false. name: what by, and whose statement it is."""

    name: tuple[object, ...]
    prove: Prove


def list_cases(party: Party, game_round: GameRound, block: int) -> Iterator[Case]:
    """Statements about a round that can be proven false in `block`, by what is known of them alone; one for
    each seat is enough, for a conviction takes the whole seat."""
    votes, seals = _list_known(party, game_round.index, block)
    for first, second in combinations(votes, 2):
        if first.auditor == second.auditor and do_votes_differ(first.vote, second.vote):
            yield _two_votes(first, second)
    yield from _list_seal_cases(votes, seals)
    for known in votes:
        yield from _list_vote_cases(party, known)


def _list_known(party: Party, index: int, block: int) -> tuple[list[KnownVote], list[KnownSeal]]:
    """Votes and seals of others that a seat answers for."""
    audits, state, me = party.task.audits, get_now(party), party.account
    votes = [
        one
        for one in audits.list_votes(index)
        if is_provable(state, one.ref, find_accused(state, one.ref, one), me, block)
    ]
    seals = [
        one
        for one in audits.list_seals(index)
        if one.auditor != me and find_signer(state, one.said, one.auditor) is not None
    ]
    return votes, seals


def _list_seal_cases(votes: list[KnownVote], seals: list[KnownSeal]) -> Iterator[Case]:
    said = [one for one in seals if one.said.seal != ZERO_WORD]
    for first, second in combinations(said, 2):
        if first.auditor == second.auditor and do_seals_differ(first.said, second.said):
            yield _two_seals(first, second)
    for known in votes:
        for seal in said:
            if known.auditor == seal.auditor and do_seals_differ(known.vote, seal.said):
                yield _vote_and_seal(known, seal)


def _list_vote_cases(party: Party, known: KnownVote) -> Iterator[Case]:
    count = count_tensor_leaves(party.task.spec.terms.parameter_count)
    if known.vote.word in NAMING and known.vote.named_leaf >= count:
        yield Case(("no leaf", known.signature), lambda party: evidence.prove_no_leaf(party, known))
    opening = known.opening
    if party.game.terms.is_exact and opening is not None and not do_roots_fit_word(opening):
        yield Case(("ends", known.signature), lambda party: evidence.prove_ends(party, known, opening))
    openings = party.task.audits.get_openings(known.vote.round, known.vote.slot)
    yield from _list_misnamed(party, known, openings)


def _list_misnamed(party: Party, known: KnownVote, openings: ClaimOpenings) -> Iterable[Case]:
    """A vote that names another leaf than the claim's tree holds."""
    solver, vote = find_solver(get_now(party), known.vote.round, known.vote.slot), known.vote
    for boundary, proof in openings.boundaries.items():
        if solver is not None and boundary in (vote.segment, vote.segment + 1):
            place = (party.task.domain, vote.round, solver, boundary, proof.salt)
            leaf = compute_boundary_leaf(*place, compute_state_root(proof.header))
            if does_vote_misname(vote, boundary, leaf):
                yield _misnamed(known, boundary, leaf, proof.path)


def _two_votes(first: KnownVote, second: KnownVote) -> Case:
    name = ("two votes", first.signature, second.signature)
    return Case(name, lambda party: evidence.prove_two_votes(party, first, second))


def _two_seals(first: KnownSeal, second: KnownSeal) -> Case:
    name = ("two seals", first.signature, second.signature)
    return Case(name, lambda party: evidence.prove_two_seals(party, first, second))


def _vote_and_seal(known: KnownVote, seal: KnownSeal) -> Case:
    name = ("vote and seal", known.signature, seal.signature)
    return Case(name, lambda party: evidence.prove_vote_and_seal(party, known, seal))


def _misnamed(known: KnownVote, boundary: int, leaf: bytes, path: tuple[bytes, ...]) -> Case:
    name = ("vote leaf", known.signature, boundary)
    return Case(name, lambda party: evidence.prove_vote_leaf(party, known, boundary, leaf, path))
