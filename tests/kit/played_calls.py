"""Calls of a play for the contracts: with claims that can be opened, so that every call can be written."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from eth_abi.abi import encode

from tests.kit.contract_calls import ContractCall, ContractCalls, list_words
from tests.kit.members import Member, hand_vote, make_word
from tests.kit.played_claims import RATE_SUM, ZEROS, Model, PlayedClaim, make_schedule
from tests.kit.played_roots import OuterTrees, write_inputs
from touchstone.protocol.adapters.chain.abi import Entry, find_function, load_abi
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import SignedVote
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.merkle import compute_depth, compute_path, hash_leaf
from touchstone.protocol.spec.openings import LeafProof, StateLeaves
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote, VoteWord, compute_seal

FAR, NEAR = b"\x41" * len(ZEROS), b"\x01" * len(ZEROS)
"""Weights that lie beyond the limits from zeros, and weights that do not."""
NO_LEAF = 99_999
SAME_ENDS = (VoteWord.ACCEPT,)
"""Words of an auditor that came to the claim's end, unless a play says otherwise."""
VotePlace = tuple[int, int, int, int]
"""round, slot, draw, rank."""


class PlayedCalls(ContractCalls):
    """claims: by their roots; own_ends: weights that an auditor's replay came to, where they are not what its
    word says (ACCEPT the claim's, a REJECT_STATE FAR ones); trees: behind posted roots, where a contest
    descends in them; children: that were named in a contest;
    other_votes: signed ones to dispute in place of what the drawn auditor would sign."""

    model: Model
    claims: dict[bytes, PlayedClaim]
    own_ends: dict[VotePlace, bytes]
    trees: dict[bytes, OuterTrees]
    children: dict[int, list[int]]
    disputed_segment: int
    other_votes: dict[StatementRef, tuple[Any, ...]]

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
        self, claim: PlayedClaim, ref: StatementRef, segment: int, word: VoteWord
    ) -> tuple[StateHeader, bytes]:
        """The state to which the auditor's own replay came, and its weights."""
        header, place = claim.make_header(segment + 1), (ref.round, ref.slot, ref.draw or 0, ref.rank)
        if place not in self.own_ends and word in SAME_ENDS:
            return header, ZEROS
        weights = self.own_ends.get(place, FAR)
        return replace(header, weights_root=hash_leaf(weights)), weights

    def _signed(self, ref: StatementRef, word: VoteWord, leaf: int = 0) -> tuple[Any, ...]:
        """A vote with its signature, as a struct."""
        vote, _, auditor = self._vote(ref, word, leaf)
        return list_words(vote), *hand_vote(vote, None, auditor, self.signing)[-2:]

    def _counted_word(self, ref: StatementRef) -> VoteWord:
        votes = self.state.rounds[ref.round].votes.get((ref.slot, ref.draw or 0), {})
        return votes[ref.rank].word if ref.rank in votes else VoteWord.ACCEPT

    # Questions and disputes
    def _write_answer_query(self, call: calls.AnswerQuery) -> ContractCall:
        question = self.questions.get(call.query, next(iter(self.questions.values()), ()))
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
        return "Queries", "answerQuery", self.task, question, list_plain(answer)

    def _named_vote(self, words: tuple[Any, ...]) -> dict[str, Any]:
        names = (
            "domain", "round", "base_root", "seed", "slot", "claim_root", "draw", "rank", "segment",
            "start_leaf", "seal", "end_leaf", "word", "named_leaf",
        )  # fmt: skip
        return dict(zip(names, words, strict=True))

    def _write_end_query(self, call: calls.EndQuery) -> ContractCall | None:
        """Any question will do where nothing is open."""
        question = self.questions.get(call.query, next(iter(self.questions.values()), None))
        return None if question is None else ("Queries", "endQuery", self.task, question)

    def _write_dispute_statement(self, call: calls.DisputeStatement) -> ContractCall:
        made = super()._write_dispute_statement(call)
        if made is not None:
            return (*made[:5], self.disputed_segment, *made[6:])
        salt, signed = make_word("d", self.count), self.other_votes.get(call.statement)
        signed = signed or self._signed(call.statement, call.word)
        return "Disputes", "disputeVote", self.task, signed, call.bond_limit, salt

    # Roots
    def list_merged(self, index: int, slots: Iterable[int]) -> list[PlayedClaim]:
        """Returns the claims of a round's slots in the order of their shards."""
        game_round = self.state.rounds[index]
        shards = assign_shards(game_round.beacon or bytes(32), len(game_round.pool.solvers))
        ordered = sorted(slots, key=lambda slot: shards[slot])
        return [self.claims[game_round.claims[slot].claim_root] for slot in ordered]

    def _nodes(self, number: int) -> tuple[bytes, ...]:
        """As its base; of a root whose trees are known, those below the children that were named."""
        contest = self.state.contests.get(number)
        if contest is None or contest.root not in self.trees:
            return super()._nodes(number)
        return self.trees[contest.root].list_nodes(self.children.get(number, []))

    def find_leaf(self, contest: int) -> int:
        """Returns the index of the leaf that a contest has come to."""
        index, children = 0, self.children.get(contest, [])
        for level, child in enumerate(children[1:]):
            index = index << min(4, self.model_depth - 4 * level) | child
        return index

    @property
    def model_depth(self) -> int:
        """Levels of a tensor's tree."""
        return compute_depth(self.model.leaves)

    def write_inputs(self, contest: int) -> bytes:
        """Returns the inputs of the leaf that a contest has come to; none behind the last leaf."""
        running, leaf = self.state.contests[contest], self.find_leaf(contest)
        if leaf >= self.model.leaves:
            return b""
        merged = self.list_merged(running.round, self.state.rounds[running.round].merged)
        return write_inputs(self.model, merged, leaf)

    def _write_bring_leaf(self, call: calls.BringLeaf) -> ContractCall:
        name, contest = self.ids.get(call.contest, bytes(32)), self.state.contests.get(call.contest)
        inputs = b"" if contest is None else self.write_inputs(call.contest)
        return "Contests", "bringLeaf", self.task, name, inputs if call.is_right else inputs[:-1]

    def _write_answer_contest(self, call: calls.AnswerContest) -> ContractCall:
        nodes = self._nodes(call.contest)
        shown = nodes if call.is_hashing else (*nodes[:1], make_word("another node"))
        return "Contests", "answerContest", self.task, self.ids.get(call.contest, bytes(32)), shown

    # Proofs
    def _write_commit_proof(self, call: calls.CommitProof) -> ContractCall:
        return "Evidence", "commitProof", call.digest


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
