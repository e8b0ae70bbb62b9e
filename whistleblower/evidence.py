"""Finds statements that one transaction proves false."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from touchstone.node.kit.known_statements import (
    find_accused,
    find_claim,
    find_signer,
    find_solver,
    get_now,
    is_provable,
)
from touchstone.node.kit.view import View
from touchstone.node.models.own_openings import compute_own_leaf, find_own_root, open_boundary
from touchstone.node.records.heard_statements import KnownSeal, KnownVote
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game.claim_status import is_open_reject
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statement_checks import (
    do_roots_fit_word,
    do_seals_differ,
    do_votes_differ,
    does_vote_misname,
)
from touchstone.protocol.spec.statements import NAMING, Vote
from touchstone.whistleblower.proof_calls import (
    Proof,
    prove_ends,
    prove_no_leaf,
    prove_two_seals,
    prove_two_votes,
    prove_vote_and_seal,
    prove_vote_leaf,
)


@dataclass(frozen=True)
class ProvableFault:
    """A statement that one call proves false. `name` is the kind of proof and the accused."""

    name: tuple[object, ...]
    proof: Proof


def list_provable_faults(view: View, game_round: GameRound, block: int) -> Iterator[ProvableFault]:
    """Yields statements about a round that can be proven false in `block` without more data. One for each
    seat is enough, because a conviction takes the whole stake."""
    votes, seals = _list_known(view, game_round.index, block)
    for first, second in combinations(votes, 2):
        if first.auditor == second.auditor and do_votes_differ(first.vote, second.vote):
            yield _two_votes(first, second)
    yield from _list_seal_faults(votes, seals)
    for known in votes:
        yield from _list_vote_faults(view, known)


def _list_known(view: View, index: int, block: int) -> tuple[list[KnownVote], list[KnownSeal]]:
    """Returns the known votes and seals of other accounts whose seats can still be convicted. A counted
    REJECT waits until its draw is decided: then the slash restores the pay that the vote took."""
    audits, state, me = view.audits, get_now(view), view.account
    votes = [
        one
        for one in audits.list_votes(index)
        if is_provable(state, one.ref, find_accused(state, one.ref, one), me, block)
        and not is_open_reject(state, one.ref, block)
    ]
    seals = [
        one
        for one in audits.list_seals(index)
        if one.auditor != me and find_signer(state, one.said, one.auditor) is not None
    ]
    return votes, seals


def _list_seal_faults(votes: list[KnownVote], seals: list[KnownSeal]) -> Iterator[ProvableFault]:
    said = [one for one in seals if one.said.seal != ZERO_WORD]
    for first, second in combinations(said, 2):
        if first.auditor == second.auditor and do_seals_differ(first.said, second.said):
            yield _two_seals(first, second)
    for known in votes:
        for seal in said:
            if known.auditor == seal.auditor and do_seals_differ(known.vote, seal.said):
                yield _vote_and_seal(known, seal)


def _list_vote_faults(view: View, known: KnownVote) -> Iterator[ProvableFault]:
    count = count_tensor_leaves(view.spec.terms.parameter_count)
    if known.vote.word in NAMING and known.vote.named_leaf >= count:
        yield ProvableFault(("no leaf", known.signature), prove_no_leaf(known))
    opening = known.opening
    if view.game.terms.is_exact and opening is not None and not do_roots_fit_word(opening):
        yield ProvableFault(("ends", known.signature), prove_ends(known, opening))
    if _is_on_own_claim(view, known.vote):
        yield from _list_misnamed_own(view, known)
    else:
        yield from _list_misnamed(view, known)


def _is_on_own_claim(view: View, vote: Vote) -> bool:
    """Returns whether a vote is about this node's own claim."""
    is_own = find_solver(get_now(view), vote.round, vote.slot) == view.account
    return is_own and find_own_root(view, vote.round) == vote.claim_root


def _list_misnamed(view: View, known: KnownVote) -> Iterator[ProvableFault]:
    """Yields a fault if a vote names a leaf that differs from the one its solver has shown."""
    vote, claim = known.vote, find_claim(get_now(view), known.vote.round, known.vote.slot)
    if claim is None:
        return
    openings = view.audits.get_openings(vote.round, vote.slot)
    last = {} if openings.last is None else {claim.segments: openings.last}
    for boundary, proof in {**last, **openings.boundaries}.items():
        if boundary in (vote.segment, vote.segment + 1):
            place = (view.domain, vote.round, claim.account, boundary, proof.salt)
            leaf = compute_boundary_leaf(*place, compute_state_root(proof.header))
            if does_vote_misname(vote, boundary, leaf):
                yield _misnamed(known, boundary, leaf, proof.path)


def _list_misnamed_own(view: View, known: KnownVote) -> Iterator[ProvableFault]:
    """Yields a fault if a vote names a leaf that is not in this node's own claim. This node knows each leaf,
    even of pruned states, so it also finds a leaf that an auditor made up. A path costs the whole tree, so it
    is computed for false votes only."""
    vote = known.vote
    for boundary in (vote.segment, vote.segment + 1):
        leaf = compute_own_leaf(view, vote.round, boundary)
        if does_vote_misname(vote, boundary, leaf):
            yield _misnamed(known, boundary, leaf, open_boundary(view, vote.round, boundary).path)


def _two_votes(first: KnownVote, second: KnownVote) -> ProvableFault:
    name = ("two votes", first.signature, second.signature)
    return ProvableFault(name, prove_two_votes(first, second))


def _two_seals(first: KnownSeal, second: KnownSeal) -> ProvableFault:
    name = ("two seals", first.signature, second.signature)
    return ProvableFault(name, prove_two_seals(first, second))


def _vote_and_seal(known: KnownVote, seal: KnownSeal) -> ProvableFault:
    name = ("vote and seal", known.signature, seal.signature)
    return ProvableFault(name, prove_vote_and_seal(known, seal))


def _misnamed(known: KnownVote, boundary: int, leaf: bytes, path: tuple[bytes, ...]) -> ProvableFault:
    name = ("vote leaf", known.signature, boundary)
    return ProvableFault(name, prove_vote_leaf(known, boundary, leaf, path))
