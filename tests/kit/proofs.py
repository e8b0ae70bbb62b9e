"""Proofs in one transaction, as calls of `Evidence`: right ones, and ones of which a part is another."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.kit.contract_calls import ContractCall, list_words
from tests.kit.played_calls import NO_LEAF, list_plain
from tests.kit.played_claims import PlayedClaim, open_leaf
from touchstone.node.records.claim_records import WorkProof
from touchstone.protocol.adapters.keys.signatures import sign_statement
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.state_headers import OuterHeader
from touchstone.protocol.spec.statements import Sealed, Vote, VoteWord

if TYPE_CHECKING:
    from tests.kit.world import World

NO_WORK = WorkProof(bytes(32), bytes(32), ())
SEALED_FIELDS = 11
"""Fields that a vote repeats of its Sealed."""
Struct = tuple[Any, ...]
"""A struct as the ABI takes it."""


@dataclass(frozen=True)
class Proofs:
    """Makes the proofs of a world. Keyword arguments are parts of a proof, in place of the right ones."""

    world: World

    # Claims
    def get_claim(self, ref: StatementRef) -> PlayedClaim:
        """Returns the claim that a statement is or is about; any claim where there is none."""
        claimed = self.world.state.rounds[ref.round].claims.get(ref.slot)
        claims = self.world.claims
        return claims[claimed.claim_root] if claimed else next(iter(claims.values()))

    def get_base(self, index: int) -> OuterHeader:
        """Returns what is behind the base root of a round."""
        return OuterHeader(*self.world.behind[self.world.state.rounds[index].base_root])

    def start_parts(self, ref: StatementRef, **other: Any) -> Struct:
        """Returns what shows boundary 0 of a claim."""
        claim = self.get_claim(ref)
        work = NO_WORK if claim.before is None else claim.before.work
        return tuple(
            ({"first": claim.open(0), "base": self.get_base(ref.round), "work": work} | other).values()
        )

    def delta_parts(self, ref: StatementRef, leaf: int, **other: Any) -> Struct:
        """Returns what shows a leaf of a claim's pseudo-gradient, and what it is computed from."""
        claim = self.get_claim(ref)
        parts = {
            "work": claim.work,
            "base": self.get_base(ref.round),
            "last": claim.open(claim.segments),
            "global_leaf": open_leaf(claim.model.weights, leaf),
            "final_leaf": claim.open_leaf(0, claim.steps, leaf),
            "delta_leaf": open_leaf(claim.deltas, leaf),
        }
        return tuple((parts | other).values())

    def start(self, ref: StatementRef, **other: Any) -> ContractCall:
        """Of a claim's start."""
        return self._call("proveStart", (ref.round, ref.slot), self.start_parts(ref, **other))

    def delta(
        self, ref: StatementRef, leaf: int = 0, *, index: int | None = None, **other: Any
    ) -> ContractCall:
        """Of a leaf of a claim's pseudo-gradient. index: that the call says."""
        parts = self.delta_parts(ref, leaf, **other)
        return self._call("proveDelta", (ref.round, ref.slot), leaf if index is None else index, parts)

    def scale(
        self, ref: StatementRef, leaf: int = 0, *, of: StatementRef | None = None, **other: Any
    ) -> ContractCall:
        """Of a leaf's scales. of: whose leaf is shown."""
        parts = {"work": self.get_claim(ref).work, "leaf": open_leaf(self.get_claim(of or ref).deltas, leaf)}
        return self._call("proveScale", (ref.round, ref.slot), leaf, *(parts | other).values())

    def carried(self, ref: StatementRef, **other: Any) -> ContractCall:
        """Of what a claim says that it hands on."""
        claim = self.get_claim(ref)
        parts = {"work": claim.work, "last": claim.open(claim.segments)}
        return self._call("proveCarried", (ref.round, ref.slot), *(parts | other).values())

    # Votes
    def vote(
        self, ref: StatementRef, word: VoteWord = VoteWord.ACCEPT, *, by: str = "", **other: Any
    ) -> Struct:
        """Returns the vote of the drawn auditor with these other fields, signed by it or by another party."""
        vote, _, auditor = self.world._vote(ref, word, other.get("named_leaf", 0))
        return self.sign(replace(vote, **other), by or self.world.get_name(auditor.address))

    def make_sealed(self, ref: StatementRef, **other: Any) -> Sealed:
        """Returns what the drawn auditor sealed, with these other fields."""
        vote, _, _ = self.world._vote(ref, VoteWord.ACCEPT)
        return replace(Sealed(*astuple(vote)[:SEALED_FIELDS]), **other)

    def sealed(self, ref: StatementRef, *, by: str = "", **other: Any) -> Struct:
        """Returns it signed."""
        _, _, auditor = self.world._vote(ref, VoteWord.ACCEPT)
        return self.sign(self.make_sealed(ref, **other), by or self.world.get_name(auditor.address))

    def sign(self, statement: Vote | Sealed, by: str) -> Struct:
        """Returns a statement with the signature of a party."""
        signature = sign_statement(self.world.get_party(by).key, statement, self.world.signing)
        return list_words(statement), signature[:32], signature[32:]

    def vote_leaf(self, ref: StatementRef, vote: Struct, boundary: int, **other: Any) -> ContractCall:
        """Of the leaf that a claim's tree has at a boundary."""
        levels = self.get_claim(ref).levels
        parts = {"boundary": boundary, "leaf": levels[0][boundary], "path": compute_path(levels, boundary)}
        return self._call("proveVoteLeaf", vote, *(parts | other).values())

    def pair(self, function: str, first: Struct, second: Struct) -> ContractCall:
        """Of two statements: proveTwoVotes, proveTwoSeals, proveVoteAndSeal."""
        return self._call(function, first, second)

    def no_leaf(self, vote: Struct) -> ContractCall:
        """Of the leaf that a vote names."""
        return self._call("proveNoLeaf", vote)

    def right_start(self, ref: StatementRef, vote: Struct, **other: Any) -> ContractCall:
        """Of a REJECT_START."""
        return self._call("proveRightStart", vote, self.start_parts(ref, **other))

    def right_delta(self, ref: StatementRef, vote: Struct, leaf: int = 0, **other: Any) -> ContractCall:
        """Of a REJECT_DELTA."""
        return self._call("proveRightDelta", vote, self.delta_parts(ref, leaf, **other))

    def ends(self, ref: StatementRef, word: VoteWord, **other: Any) -> ContractCall:
        """Of a word about two ends in an exact task."""
        _, shown, _ = self.world._vote(ref, word)
        parts = dict(zip(("end", "salt", "own", "seal_salt"), shown, strict=True))
        return self._call("proveEnds", self.vote(ref, word), tuple((parts | other).values()))

    # By their kinds
    def write(self, ref: StatementRef, proof: ProofKind) -> ContractCall:
        """Returns the call that proves this of a statement, as far as it can be proven."""
        if proof == ProofKind.BOUNDARY_ZERO:
            return self.start(ref)
        if proof == ProofKind.DELTA_LEAF:
            is_scale = self.get_claim(ref).fault == "scale"
            leaf = min(1, self.world.model.leaves - 1)
            return self.scale(ref, leaf) if is_scale else self.delta(ref, leaf)
        if proof == ProofKind.CARRIED_ROOT:
            return self.carried(ref)
        if proof == ProofKind.TWO_STATEMENTS:
            words = (VoteWord.ACCEPT, VoteWord.REJECT_STATE)
            return self.pair("proveTwoVotes", *(self.vote(ref, word) for word in words))
        word = self.world._counted_word(ref)
        named = NO_LEAF if word == VoteWord.REJECT_DELTA else 0
        vote = self.vote(ref, word, named_leaf=named)
        return self.right_start(ref, vote) if word == VoteWord.REJECT_START else self.no_leaf(vote)

    def _call(self, function: str, *arguments: Any) -> ContractCall:
        return "Evidence", function, self.world.task, *(list_plain(one) for one in arguments)
