"""A twin whose claims and votes have states behind them: who is asked or disputed can answer.

The states are of one leaf, all zeros; they differ by their step numbers.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tests.kit.contract_calls import list_words
from tests.kit.members import Member, hand_vote, make_word
from tests.rounds.chain import Sent
from tests.rounds.twin import Twin
from touchstone.protocol.adapters.chain.abi import find_function, load_own_abi
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof, encode_call
from touchstone.protocol.compute.digest import build_byte_tree
from touchstone.protocol.spec.claim_tree import compute_claim_root, compute_work_leaf
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import GameOutcome
from touchstone.protocol.spec.game.inner_dispute import DisputeStage
from touchstone.protocol.spec.game.state import RunningDispute, StatementRef
from touchstone.protocol.spec.merkle import compute_levels, compute_path
from touchstone.protocol.spec.openings import LeafProof, StateLeaves
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord, compute_seal

STEPS = 5
"""of a segment, as `Twin` posts its tasks."""
LEAF = bytes(1_024)
ZERO_ROOT = build_byte_tree(LEAF).root
SHOWN = StateLeaves(*(LeafProof(LEAF, ()) for _ in range(3)))
NO_LEAF = StateLeaves(*(LeafProof(b"", ()) for _ in range(3)))


@dataclass(frozen=True)
class ShownClaim:
    """A claim of so many segments by a solver."""

    domain: bytes
    round: int
    solver: str
    segments: int

    def make_header(self, boundary: int) -> StateHeader:
        steps = boundary * STEPS
        return StateHeader(ZERO_ROOT, ZERO_ROOT, ZERO_ROOT, steps, self.round * self.segments * STEPS + steps)

    def make_salt(self, boundary: int) -> bytes:
        return make_word("salt", self.solver, self.round, boundary)

    def make_root(self, boundary: int) -> bytes:
        """Of the state at a boundary."""
        return compute_state_root(self.make_header(boundary))

    @cached_property
    def leaves(self) -> list[bytes]:
        place = (self.domain, self.round, self.solver)
        boundaries = [
            compute_boundary_leaf(*place, b, self.make_salt(b), self.make_root(b))
            for b in range(self.segments + 1)
        ]
        return [*boundaries, compute_work_leaf(*place, self.segments, make_word("delta"), make_word("carry"))]

    @property
    def root(self) -> bytes:
        return compute_claim_root(self.leaves)

    def open(self, boundary: int) -> BoundaryProof:
        path = tuple(compute_path(compute_levels(self.leaves), boundary))
        return BoundaryProof(self.make_header(boundary), self.make_salt(boundary), path)

    def list_roots(self, segment: int, last: bytes | None = None) -> list[bytes]:
        """The states' roots along a segment. last: of whom replayed it to another end."""
        inner = [make_word("state", self.round, segment, step) for step in range(1, STEPS)]
        return [self.make_root(segment), *inner, last or self.make_root(segment + 1)]


class AnsweringTwin(Twin):
    """shown: claims by their roots."""

    shown: dict[bytes, ShownClaim]

    def make_claim(self, index: int, solver: str) -> ShownClaim:
        """The claim of an account in a round, from then on known."""
        terms = self.state.terms
        claim = ShownClaim(terms.domain, index, solver, terms.segment_count)
        self.__dict__.setdefault("shown", {})[claim.root] = claim
        return claim

    # Statements
    def _vote(self, ref: StatementRef, word: VoteWord, leaf: int = 0) -> tuple[Any, Any, Member]:
        """As of a twin, of the states behind the claim."""
        vote, (_, _, _, seal_salt), auditor = super()._vote(ref, word, leaf)
        claim = self.shown[vote.claim_root]
        start, end = claim.leaves[vote.segment : vote.segment + 2]
        claimed = claim.make_root(vote.segment + 1)
        own = claimed if word == VoteWord.ACCEPT else make_word("own", claimed, auditor.address)
        place = (vote.domain, vote.round, vote.slot, vote.draw, vote.rank)
        seal = compute_seal(*place, auditor.address, start, own, seal_salt)
        shown = (claimed, claim.make_salt(vote.segment + 1), own, seal_salt)
        if word not in (VoteWord.UNSERVED, VoteWord.ABSTAIN):
            vote = replace(vote, start_leaf=start, end_leaf=end, seal=seal)
        return vote, shown, auditor

    def _write_dispute_statement(self, call: calls.DisputeStatement) -> tuple[Any, ...] | None:
        ref = call.statement
        if ref.draw is None:
            return super()._write_dispute_statement(call)
        word = self.state.rounds[ref.round].votes[ref.slot, ref.draw][ref.rank].word
        vote, _, auditor = self._vote(ref, word)
        signature = hand_vote(vote, None, auditor, self.signing)[-2:]
        salt = make_word("d", self.count)
        return "Disputes", "disputeVote", self.task, (list_words(vote), *signature), call.bond_limit, salt

    def _write_answer_query(self, call: calls.AnswerQuery) -> tuple[Any, ...]:
        """Both ends are one state: only the claimed one is shown."""
        question = self.questions[call.query]
        ask, vote = self.state.queries[call.query], question[0]
        _, (_, _, _, seal_salt), _ = self._vote(ask.statement, ask.word, ask.leaf)
        claim, segment = self.shown[vote[5]], vote[8]
        header, salt = claim.make_header(segment + 1), claim.make_salt(segment + 1)
        said = _plain((header, header, claim.solver, salt, seal_salt, SHOWN, NO_LEAF, 0, ()))
        return "Queries", "answerQuery", self.task, question, said

    # Inside a dispute
    def defend(self, dispute: RunningDispute) -> Sent:
        """The claimant's first answer: the roots along the segment."""
        name, ref = self.ids[dispute.number], dispute.statement
        account = self.state.seats[dispute.seat].account
        if ref.draw is None:
            claim = self.shown[self.state.rounds[ref.round].claims[ref.slot].claim_root]
            said: tuple[Any, ...] = (claim.list_roots(0), claim.open(0), claim.open(1))
            return self._send_whole(account, "postClaimRoots", name, *said)
        word = self.state.rounds[ref.round].votes[ref.slot, ref.draw][ref.rank].word
        vote, (_, _, own, seal_salt), _ = self._vote(ref, word)
        claim = self.shown[vote.claim_root]
        roots = claim.list_roots(vote.segment, own)
        starts = (claim.open(vote.segment), claim.open(vote.segment + 1))
        behind = (roots, claim.solver, *starts, seal_salt)
        return self._send_whole(account, "postVoteRoots", name, *behind)

    def _send_whole(self, sender: str, function: str, *arguments: Any) -> Sent:
        entry = find_function(load_own_abi("Disputes"), function)
        return self._must(
            self.chain.send_data(sender, "Disputes", encode_call(entry, (self.task, *arguments)))
        )

    def prepare(self, call: GameCall, block: int, sender: str) -> GameCall:
        """Who has answered is cleared where its opener moves no more."""
        prepared = super().prepare(call, block, sender)
        if isinstance(prepared, calls.EndDispute) and call.dispute in self.ids:  # type: ignore[attr-defined]
            stage = self.chain.read("Disputes", "disputeOf", self.task, self.ids[prepared.dispute])[0]
            is_silent = stage in (DisputeStage.ROOTS, DisputeStage.TRACE, DisputeStage.LEAVES)
            outcome = GameOutcome.CONVICTED if is_silent else GameOutcome.CLEARED
            return replace(prepared, outcome=outcome)
        return prepared


def _plain(value: Any) -> Any:
    """A struct as the ABI takes it."""
    if hasattr(value, "__dataclass_fields__"):
        return tuple(_plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return tuple(map(_plain, value)) if isinstance(value, tuple | list) else value
