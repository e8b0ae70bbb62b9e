"""The calls that prove a statement false, by what it says."""

from collections.abc import Callable, Coroutine
from typing import Any

from touchstone.node.kit.party import Party
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.heard_statements import KnownSeal, KnownVote
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof, encode_call
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import VoteOpening
from touchstone.whistleblower.known_statements import seal_form, sign_form

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
