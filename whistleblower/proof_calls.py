"""Builds and sends the calls that prove a statement false."""

from dataclasses import dataclass
from typing import Any

from touchstone.node.kit.known_statements import seal_form, sign_form
from touchstone.node.kit.view import GetView
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.heard_statements import KnownSeal, KnownVote
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof, encode_call
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import VoteOpening

NO_WORK = WorkProof(bytes(32), bytes(32), ())
"""The work leaf in a proof if moments do not carry over, or no claim came before."""


EXPIRY_BLOCKS = 2
"""A commitment to a proof is made anew if it has fewer blocks left than this."""


Form = dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """A call of `Evidence` that proves a statement false. `function` is the name in Solidity."""

    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class ProofCalls:
    """Sends proofs to `Evidence`. It commits to each proof first, so that no account can copy it."""

    get_view: GetView
    chain: GameChain

    async def send_proof(self, proof: Proof) -> None:
        """Commits to a proof, and sends it once the commitment counts. Raises ContractRefused if the proof
        fails, or another account convicted the seat first."""
        evidence, call = self.chain.game, (self.get_view().task, *proof.arguments)
        data = encode_call(find_function(load_own_abi("Evidence"), proof.function), call)
        digest = await evidence.digest_of(self.get_view().account, data)
        head = self.get_view().head_block
        since = int(await evidence.committed_block(self.get_view().account, digest))
        lasts = self.get_view().game.bounds.proof_commit_blocks - EXPIRY_BLOCKS
        if not since or head >= since + lasts:
            await evidence.commit_proof(digest)
        await getattr(evidence, to_snake_case(proof.function))(*call)


def claim_form(index: int, slot: int) -> Form:
    """Returns the words that name a claim in a call."""
    return {"round": index, "slot": slot}


def start_form(first: BoundaryProof, base: OuterHeader, work: WorkProof = NO_WORK) -> Form:
    """Returns boundary 0 of a claim, and what it must be. `work` is the work leaf of the solver's last merged
    claim, if moments carry over from one."""
    return {"first": first, "base": base, "work": work}


def delta_form(
    work: WorkProof, base: OuterHeader, last: BoundaryProof, leaves: tuple[LeafProof, LeafProof, LeafProof]
) -> Form:
    """Returns a leaf of a pseudo-gradient, and what it must be. `leaves` are the same leaf of the global
    weights, the final weights and the pseudo-gradient."""
    names = ("global_leaf", "final_leaf", "delta_leaf")
    return {"work": work, "base": base, "last": last, **dict(zip(names, leaves, strict=True))}


def prove_start(index: int, slot: int, start: Form) -> Proof:
    """Proves that a claim starts from another root, or with other moments or step counters, than it must."""
    return Proof(
        "proveStart",
        (
            claim_form(index, slot),
            start,
        ),
    )


def prove_delta(index: int, slot: int, leaf: int, delta: Form) -> Proof:
    """Proves that a leaf of a pseudo-gradient is not the encoded difference."""
    return Proof(
        "proveDelta",
        (
            claim_form(index, slot),
            leaf,
            delta,
        ),
    )


def prove_scale(index: int, slot: int, leaf: int, work: WorkProof, opened: LeafProof) -> Proof:
    """Proves that a leaf of a pseudo-gradient has a scale that the encoding never gives."""
    return Proof(
        "proveScale",
        (
            claim_form(index, slot),
            leaf,
            work,
            opened,
        ),
    )


def prove_carried(index: int, slot: int, work: WorkProof, last: BoundaryProof) -> Proof:
    """Proves that a claim's carried root is not of its last boundary."""
    return Proof(
        "proveCarried",
        (
            claim_form(index, slot),
            work,
            last,
        ),
    )


def prove_vote_leaf(known: KnownVote, boundary: int, leaf: bytes, path: tuple[bytes, ...]) -> Proof:
    """Proves that a vote names another boundary leaf than the claim's tree holds."""
    return Proof(
        "proveVoteLeaf",
        (
            sign_form(known.vote, known.signature),
            boundary,
            leaf,
            path,
        ),
    )


def prove_two_votes(first: KnownVote, second: KnownVote) -> Proof:
    """Proves that an auditor signed two different votes on one draw."""
    return Proof("proveTwoVotes", (*(sign_form(one.vote, one.signature) for one in (first, second)),))


def prove_two_seals(first: KnownSeal, second: KnownSeal) -> Proof:
    """Proves that an auditor signed two different seals for one draw."""
    return Proof("proveTwoSeals", (*(seal_form(one.said, one.signature) for one in (first, second)),))


def prove_vote_and_seal(known: KnownVote, seal: KnownSeal) -> Proof:
    """Proves that a vote differs from its auditor's seal."""
    forms = (sign_form(known.vote, known.signature), seal_form(seal.said, seal.signature))
    return Proof("proveVoteAndSeal", (*forms,))


def prove_no_leaf(known: KnownVote) -> Proof:
    """Proves that a vote rejects a leaf that does not exist."""
    return Proof("proveNoLeaf", (sign_form(known.vote, known.signature),))


def prove_right_start(known: KnownVote, start: Form) -> Proof:
    """Proves that a vote says REJECT_START of a claim whose start is right."""
    return Proof(
        "proveRightStart",
        (
            sign_form(known.vote, known.signature),
            start,
        ),
    )


def prove_right_delta(known: KnownVote, delta: Form) -> Proof:
    """Proves that a vote says REJECT_DELTA of a leaf that is encoded rightly."""
    return Proof(
        "proveRightDelta",
        (
            sign_form(known.vote, known.signature),
            delta,
        ),
    )


def prove_ends(known: KnownVote, opening: VoteOpening) -> Proof:
    """Proves, in an exact task, an ACCEPT of two ends that differ, or a REJECT_STATE of equal ones."""
    return Proof(
        "proveEnds",
        (
            sign_form(known.vote, known.signature),
            opening,
        ),
    )
