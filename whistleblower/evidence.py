"""Statements that one transaction proves false: how this node finds them, seals the proof, sends it.

Each proof is sealed first, so that no other account can copy it from the mempool.

There is one function for each proof of `Evidence.sol`. It takes what a node has: openings, signed votes and
seals, leaves of its store. The contract decides whether the proof holds.

`list_cases` finds contradictions and misnamed leaves, which need only what was signed and shown. Starts and
pseudo-gradients need what is in the store: `judging_work.py` finds those.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import compute_own_leaf, find_own_root, open_boundary
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.dispute_records import KnownSeal, KnownVote
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof, encode_call
from touchstone.protocol.spec.codec import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.containers import LeafProof, OuterHeader
from touchstone.protocol.spec.game.state import GameRound
from touchstone.protocol.spec.merkle import count_tensor_leaves
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.statements import (
    NAMING,
    Vote,
    VoteOpening,
    do_roots_fit_word,
    do_seals_differ,
    do_votes_differ,
    does_vote_misname,
)
from touchstone.whistleblower.known_statements import (
    find_accused,
    find_claim,
    find_signer,
    find_solver,
    get_now,
    is_provable,
    seal_form,
    sign_form,
)

NO_WORK = WorkProof(bytes(32), bytes(32), ())
"""Where moments do not carry over, or from no claim."""
EXPIRY_BLOCKS = 2
"""A seal that has fewer blocks left is made anew."""

Form = dict[str, Any]


async def prove(party: Party, function: str, *arguments: Any) -> None:
    """Seal the call of a function of Evidence, named as in Solidity, and make it once the seal counts.

    Raises ContractRefused where the proof does not hold, or another account convicted the seat first."""
    evidence, call = party.chain.evidence, (party.task.task, *arguments)
    data = encode_call(find_function(load_own_abi("Evidence"), function), call)
    digest = await evidence.digest_of(party.account, data)
    head = party.state.head_block
    since = int(await evidence.sealed_block(party.account, digest))
    lasts = party.game.limits.proof_seal_blocks - EXPIRY_BLOCKS
    if not since or head >= since + lasts:
        await evidence.seal_proof(digest)
    await getattr(evidence, to_snake_case(function))(*call)


def claim_form(index: int, slot: int) -> Form:
    """Names a claim."""
    return {"round": index, "slot": slot}


def start_form(first: BoundaryProof, base: OuterHeader, work: WorkProof = NO_WORK) -> Form:
    """Boundary 0 of a claim and what it must be. work: of the solver's last merged claim, where moments carry
    over from one."""
    return {"first": first, "base": base, "work": work}


def delta_form(
    work: WorkProof, base: OuterHeader, last: BoundaryProof, leaves: tuple[LeafProof, LeafProof, LeafProof]
) -> Form:
    """A leaf of a pseudo-gradient and what it must be. leaves: of the global weights, of the final weights,
    of the pseudo-gradient."""
    names = ("global_leaf", "final_leaf", "delta_leaf")
    return {"work": work, "base": base, "last": last, **dict(zip(names, leaves, strict=True))}


# --- Claims -------------------------------------------------------------------------------------------------
async def prove_start(party: Party, index: int, slot: int, start: Form) -> None:
    """The claim does not start from its base root, or with other moments and steps than it must."""
    await prove(party, "proveStart", claim_form(index, slot), start)


async def prove_delta(party: Party, index: int, slot: int, leaf: int, delta: Form) -> None:
    """A leaf of the pseudo-gradient is not the encoded difference."""
    await prove(party, "proveDelta", claim_form(index, slot), leaf, delta)


async def prove_scale(
    party: Party, index: int, slot: int, leaf: int, work: WorkProof, opened: LeafProof
) -> None:
    """A leaf of the pseudo-gradient has a scale that no encoding has."""
    await prove(party, "proveScale", claim_form(index, slot), leaf, work, opened)


async def prove_carried(party: Party, index: int, slot: int, work: WorkProof, last: BoundaryProof) -> None:
    """What the claim hands on is not that of its last boundary."""
    await prove(party, "proveCarried", claim_form(index, slot), work, last)


# --- Votes --------------------------------------------------------------------------------------------------
async def prove_vote_leaf(
    party: Party, known: KnownVote, boundary: int, leaf: bytes, path: tuple[bytes, ...]
) -> None:
    """The vote names another leaf at a boundary than the claim's tree holds."""
    await prove(party, "proveVoteLeaf", sign_form(known.vote, known.signature), boundary, leaf, path)


async def prove_two_votes(party: Party, first: KnownVote, second: KnownVote) -> None:
    """Two votes on one draw that differ."""
    await prove(party, "proveTwoVotes", *(sign_form(one.vote, one.signature) for one in (first, second)))


async def prove_two_seals(party: Party, first: KnownSeal, second: KnownSeal) -> None:
    """Two seals of one draw that differ."""
    await prove(party, "proveTwoSeals", *(seal_form(one.said, one.signature) for one in (first, second)))


async def prove_vote_and_seal(party: Party, known: KnownVote, seal: KnownSeal) -> None:
    """A vote that is not on what was sealed."""
    forms = (sign_form(known.vote, known.signature), seal_form(seal.said, seal.signature))
    await prove(party, "proveVoteAndSeal", *forms)


async def prove_no_leaf(party: Party, known: KnownVote) -> None:
    """A REJECT of a leaf that is not there."""
    await prove(party, "proveNoLeaf", sign_form(known.vote, known.signature))


async def prove_right_start(party: Party, known: KnownVote, start: Form) -> None:
    """A REJECT_START of a claim that starts as it must."""
    await prove(party, "proveRightStart", sign_form(known.vote, known.signature), start)


async def prove_right_delta(party: Party, known: KnownVote, delta: Form) -> None:
    """A REJECT_DELTA of a leaf that is the encoded difference."""
    await prove(party, "proveRightDelta", sign_form(known.vote, known.signature), delta)


async def prove_ends(party: Party, known: KnownVote, opening: VoteOpening) -> None:
    """In an exact task: an ACCEPT of two ends that differ, or a REJECT_STATE of equal ones."""
    await prove(party, "proveEnds", sign_form(known.vote, known.signature), opening)


Prove = Callable[[Party], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Case:
    """A statement that can be proven false. name: what by, and whose statement it is."""

    name: tuple[object, ...]
    prove: Prove


def list_cases(party: Party, game_round: GameRound, block: int) -> Iterator[Case]:
    """Statements about a round that can be proven false in `block`, by what is known of them alone; one for
    each seat is enough, for a conviction takes the whole seat."""
    votes, seals = _list_known(party.view, game_round.index, block)
    for first, second in combinations(votes, 2):
        if first.auditor == second.auditor and do_votes_differ(first.vote, second.vote):
            yield _two_votes(first, second)
    yield from _list_seal_cases(votes, seals)
    for known in votes:
        yield from _list_vote_cases(party, known)


def _list_known(view: View, index: int, block: int) -> tuple[list[KnownVote], list[KnownSeal]]:
    """Votes and seals of others that a seat answers for."""
    audits, state, me = view.audits, get_now(view), view.account
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
        yield Case(("no leaf", known.signature), lambda party: prove_no_leaf(party, known))
    opening = known.opening
    if party.game.terms.is_exact and opening is not None and not do_roots_fit_word(opening):
        yield Case(("ends", known.signature), lambda party: prove_ends(party, known, opening))
    if _is_on_own_claim(party.view, known.vote):
        yield from _list_misnamed_own(party.view, known)
    else:
        yield from _list_misnamed(party.view, known)


def _is_on_own_claim(view: View, vote: Vote) -> bool:
    """Whether a vote is on a claim that this home has made."""
    is_own = find_solver(get_now(view), vote.round, vote.slot) == view.account
    return is_own and find_own_root(view, vote.round) == vote.claim_root


def _list_misnamed(view: View, known: KnownVote) -> Iterator[Case]:
    """A vote that names another leaf than the claim's tree holds, by what its solver has shown."""
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


def _list_misnamed_own(view: View, known: KnownVote) -> Iterator[Case]:
    """The same of this node's own claim: it knows each leaf, whatever its states are pruned to. An auditor
    may have asked for none, and made one up. A path costs the whole tree, so only a false vote has one."""
    vote = known.vote
    for boundary in (vote.segment, vote.segment + 1):
        leaf = compute_own_leaf(view, vote.round, boundary)
        if does_vote_misname(vote, boundary, leaf):
            yield _misnamed(known, boundary, leaf, open_boundary(view, vote.round, boundary).path)


def _two_votes(first: KnownVote, second: KnownVote) -> Case:
    name = ("two votes", first.signature, second.signature)
    return Case(name, lambda party: prove_two_votes(party, first, second))


def _two_seals(first: KnownSeal, second: KnownSeal) -> Case:
    name = ("two seals", first.signature, second.signature)
    return Case(name, lambda party: prove_two_seals(party, first, second))


def _vote_and_seal(known: KnownVote, seal: KnownSeal) -> Case:
    name = ("vote and seal", known.signature, seal.signature)
    return Case(name, lambda party: prove_vote_and_seal(party, known, seal))


def _misnamed(known: KnownVote, boundary: int, leaf: bytes, path: tuple[bytes, ...]) -> Case:
    name = ("vote leaf", known.signature, boundary)
    return Case(name, lambda party: prove_vote_leaf(party, known, boundary, leaf, path))
