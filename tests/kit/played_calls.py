"""Calls of a play for the contracts: with claims that can be opened, so that every call can be written."""

from dataclasses import replace
from functools import cache
from typing import Any

from eth_abi.abi import encode

from tests.kit.contract_calls import ContractCall, ContractCalls, list_words
from tests.kit.members import Member, hand_vote, make_word
from tests.kit.zero_claims import RATE_SUM, ZEROS, ZeroClaim, make_schedule
from touchstone.node.records.claim_records import WorkProof
from touchstone.protocol.adapters.chain.abi import Entry, find_function, load_abi
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import SignedVote
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.merkle import compute_path, hash_leaf
from touchstone.protocol.spec.openings import LeafProof, StateLeaves
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.statements import Vote, VoteWord, compute_seal

FAR, NEAR = b"\x41" * len(ZEROS), b"\x01" * len(ZEROS)
"""Weights that lie beyond the limits from zeros, and weights that do not."""
NO_LEAF = 99_999
VotePlace = tuple[int, int, int, int]
"""round, slot, draw, rank."""


class PlayedCalls(ContractCalls):
    """claims: by their roots; own_ends: weights that an auditor's replay came to, where they are not what its
    word says (ACCEPT the claim's, a REJECT_STATE FAR ones)."""

    claims: dict[bytes, ZeroClaim]
    own_ends: dict[VotePlace, bytes]

    def _vote(self, ref: StatementRef, word: VoteWord, leaf: int = 0) -> tuple[Any, Any, Member]:
        """As its base, of the states behind the claim; a REJECT_DELTA names a leaf that is not there."""
        vote, shown, auditor = super()._vote(ref, word, NO_LEAF if word == VoteWord.REJECT_DELTA else leaf)
        claim = self.claims.get(vote.claim_root)
        if claim is None or vote.seal == bytes(32):
            return vote, shown, auditor
        start, end = claim.levels[0][vote.segment : vote.segment + 2]
        own, _ = self._own_end(claim, ref, vote.segment, word)
        shown = (
            claim.make_root(vote.segment + 1),
            claim.make_salt(vote.segment + 1),
            compute_state_root(own),
            shown[3],
        )
        place = (vote.domain, vote.round, vote.slot, vote.draw, vote.rank)
        seal = compute_seal(*place, auditor.address, start, shown[2], shown[3])
        return replace(vote, start_leaf=start, end_leaf=end, seal=seal), shown, auditor

    def _notify(self, made: Vote, vote: SignedVote, ref: StatementRef) -> Vote:
        """As its base; what an opening does not bear out is said as it is."""
        is_borne = (ref.round, ref.slot, ref.draw, ref.rank) not in self.own_ends
        return super()._notify(made, vote if is_borne else replace(vote, is_complete=True), ref)

    def _own_end(
        self, claim: ZeroClaim, ref: StatementRef, segment: int, word: VoteWord
    ) -> tuple[StateHeader, bytes]:
        """The state to which the auditor's own replay came, and its weights."""
        header, place = claim.make_header(segment + 1), (ref.round, ref.slot, ref.draw or 0, ref.rank)
        weights = self.own_ends.get(place, ZEROS if word == VoteWord.ACCEPT else FAR)
        return replace(header, weights_root=hash_leaf(weights)), weights

    def _signed(self, ref: StatementRef, word: VoteWord, leaf: int = 0) -> tuple[Any, ...]:
        """A vote with its signature, as a struct."""
        vote, _, auditor = self._vote(ref, word, leaf)
        return list_words(vote), *hand_vote(vote, None, auditor, self.signing)[-2:]

    def _counted_word(self, ref: StatementRef) -> VoteWord:
        votes = self.state.rounds[ref.round].votes.get((ref.slot, ref.draw or 0), {})
        return votes[ref.rank].word if ref.rank in votes else VoteWord.ACCEPT

    # Questions and disputes
    def _write_answer_ask(self, call: calls.AnswerAsk) -> ContractCall:
        question = self.questions.get(call.ask, next(iter(self.questions.values()), ()))
        vote = self._named_vote(question[0])
        ref = StatementRef(vote["round"], vote["slot"], vote["draw"], vote["rank"])
        claim, segment = self.claims[vote["claim_root"]], vote["segment"]
        _, shown, _ = self._vote(ref, VoteWord(vote["word"]), vote["named_leaf"])
        own, weights = self._own_end(claim, ref, segment, VoteWord(vote["word"]))
        schedule = make_schedule(self.state.terms.rounds * self.state.terms.segment_count)
        index = ref.round * self.state.terms.segment_count + segment
        answer = (
            claim.make_header(segment + 1), own, claim.solver, shown[1],
            shown[3] if call.is_fitting else bytes(32), _leaves(ZEROS), _leaves(weights), RATE_SUM,
            tuple(compute_path(schedule, index)),
        )  # fmt: skip
        return "Asks", "answer", self.task, question, list_plain(answer)

    def _named_vote(self, words: tuple[Any, ...]) -> dict[str, Any]:
        names = (
            "domain", "round", "base_root", "seed", "slot", "claim_root", "draw", "rank", "segment",
            "start_leaf", "seal", "end_leaf", "word", "named_leaf",
        )  # fmt: skip
        return dict(zip(names, words, strict=True))

    def _write_end_ask(self, call: calls.EndAsk) -> ContractCall | None:
        """Any question will do where nothing is open."""
        question = self.questions.get(call.ask, next(iter(self.questions.values()), None))
        return None if question is None else ("Asks", "endAsk", self.task, question)

    def _write_dispute_statement(self, call: calls.DisputeStatement) -> ContractCall:
        made = super()._write_dispute_statement(call)
        if made is not None:
            return made
        signed, salt = self._signed(call.statement, call.word), make_word("d", self.count)
        return "Disputes", "disputeVote", self.task, signed, call.bond_limit, salt

    # Roots
    def _write_bring_leaf(self, call: calls.BringLeaf) -> ContractCall:
        """Weights and momentum of the base, then each merged claim's pseudo-gradient, in order of shards."""
        name, contest = self.ids.get(call.contest, bytes(32)), self.state.contests.get(call.contest)
        if contest is None:
            return "Contests", "bringLeaf", self.task, name, b""
        game_round = self.state.rounds[contest.round]
        shards = assign_shards(game_round.beacon or bytes(32), len(game_round.pool.solvers))
        inputs = 2 * ZEROS
        for slot in sorted(game_round.merged, key=lambda slot: shards[slot]):
            claim = self.claims[game_round.claims[slot].claim_root]
            inputs += claim.delta + claim.carried + b"".join(claim.work.path)
        return "Contests", "bringLeaf", self.task, name, inputs if call.is_right else inputs[:-1]

    def _write_answer_contest(self, call: calls.AnswerContest) -> ContractCall:
        nodes = self._nodes(call.contest)
        shown = nodes if call.is_hashing else (*nodes[:1], make_word("another node"))
        return "Contests", "answer", self.task, self.ids.get(call.contest, bytes(32)), shown

    # Proofs
    def _write_seal_proof(self, call: calls.SealProof) -> ContractCall:
        return "Evidence", "sealProof", call.digest

    def _write_convict_seat(self, call: calls.ConvictSeat) -> ContractCall:
        return self.write_proof(call.statement, call.proof)

    def write_proof(self, ref: StatementRef, proof: ProofKind) -> ContractCall:
        """Returns the call that proves this of a statement, as far as it can be proven."""
        claimed = self.state.rounds[ref.round].claims.get(ref.slot)
        claim = self.claims[claimed.claim_root] if claimed else next(iter(self.claims.values()))
        place, last = (ref.round, ref.slot), claim.open(claim.segments)
        base = OuterHeader(*self.behind[self.state.rounds[ref.round].base_root])
        start = (claim.open(0), base, WorkProof(bytes(32), bytes(32), ()))
        leaf = LeafProof(claim.delta, ())
        made: tuple[Any, ...]
        if proof == ProofKind.BOUNDARY_ZERO:
            made = ("proveStart", self.task, place, start)
        elif proof == ProofKind.DELTA_LEAF and claim.fault == "scale":
            made = ("proveScale", self.task, place, 0, claim.work, leaf)
        elif proof == ProofKind.DELTA_LEAF:
            zeros = LeafProof(ZEROS, ())
            made = ("proveDelta", self.task, place, 0, (claim.work, base, last, zeros, zeros, leaf))
        elif proof == ProofKind.CARRIED_ROOT:
            made = ("proveCarried", self.task, place, claim.work, last)
        elif proof == ProofKind.TWO_STATEMENTS:
            words = (VoteWord.ACCEPT, VoteWord.REJECT_STATE)
            made = ("proveTwoVotes", self.task, *(self._signed(ref, word) for word in words))
        elif self._counted_word(ref) == VoteWord.REJECT_START:
            made = ("proveRightStart", self.task, self._signed(ref, VoteWord.REJECT_START), start)
        else:
            made = ("proveNoLeaf", self.task, self._signed(ref, self._counted_word(ref)))
        return "Evidence", *list_plain(made)

    # Inside a dispute
    def write_roots(self, ref: StatementRef) -> tuple[Any, ...]:
        """Returns function and arguments, but for the dispute's name, of the claimant's first answer."""
        if ref.draw is None:
            claim = self.claims[self.state.rounds[ref.round].claims[ref.slot].claim_root]
            return "postClaimRoots", *list_plain((claim.list_roots(0), claim.open(0), claim.open(1)))
        word = self._counted_word(ref)
        vote, shown, _ = self._vote(ref, word)
        claim = self.claims[vote.claim_root]
        starts = (claim.open(vote.segment), claim.open(vote.segment + 1))
        roots = claim.list_roots(vote.segment, shown[2])
        return "postVoteRoots", *list_plain((roots, claim.solver, *starts, shown[3]))


def _leaves(weights: bytes) -> StateLeaves:
    zeros = LeafProof(ZEROS, ())
    return StateLeaves(LeafProof(weights, ()), zeros, zeros)


def list_plain(value: Any) -> Any:
    """Returns a struct as the ABI takes it: fields in a tuple."""
    if hasattr(value, "__dataclass_fields__"):
        return tuple(list_plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return tuple(map(list_plain, value)) if isinstance(value, tuple | list) else value


@cache
def find_entry(contract: str, function: str) -> Entry:
    """Returns a function of a contract as its ABI has it."""
    return find_function(load_abi(contract), function)


def encode_contract_call(made: ContractCall) -> bytes:
    """Returns the data of a call: selector and arguments."""
    contract, function, *arguments = made
    entry = find_entry(contract, function)
    return entry.selector + encode([one.kind for one in entry.inputs], list_plain(arguments))
