"""Runs a play on the real contracts and in memory at once; after every call both must agree.

All tensors are zeros, so that a right outer step gives zeros again. Claims have real trees; a false one is
wrong in what its proof needs. In a dispute a right claim shows its step roots and the opener makes no move; a
false one shows nothing.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from lab.benchmarks.economy import parameters
from lab.benchmarks.economy.block_duties import play_task
from lab.benchmarks.economy.parameters import LIMITS, change_terms, make_terms, make_word
from lab.benchmarks.economy.play import EXTRAS, KEEPER, STRANGER, SpotChecks, name_parties
from lab.benchmarks.economy.strategy import Agent, Claim, Fault
from tests.kit import members
from tests.kit.members import Member, Party, hand_vote
from tests.rounds import twin
from tests.rounds.chain import RoundChain, Sent
from tests.rounds.twin import Disagreement, Twin
from touchstone.node.records.claim_records import WorkProof
from touchstone.protocol.adapters.chain.abi import find_function
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof, encode_call
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_claim_root, compute_work_leaf
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.merkle import compute_levels, compute_path, hash_leaf
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import DELTA_LEAF_BYTES, LEAF_BYTES
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.statements import VoteWord, compute_seal

STEPS = 5
"""The steps of a segment in tests/rounds."""
ZEROS = bytes(LEAF_BYTES)
ZERO_ROOT = hash_leaf(ZEROS)
OTHER = b"\x41" * LEAF_BYTES
CHECKED = 16
NO_LEAF = 99_999
WINDOWS = replace(parameters.WINDOWS, train_max=40, respond=20, dispute=240, query=400)
"""Windows in which nothing happens are shorter, because blocks of a chain take time."""
DELTAS = {Fault.SCALE: bytes([221]) + bytes(DELTA_LEAF_BYTES - 1), Fault.LENGTH: bytes(100)}


def _make_word(*parts: object) -> bytes:
    """Returns the same as tests/rounds do, but zeros for the model."""
    return ZERO_ROOT if parts in (("W",), ("zero",)) else members.make_word(*parts)


def make_header(segments: int, index: int, claim: Claim, boundary: int) -> StateHeader:
    """Returns the header of a state of zeros at a boundary."""
    root = make_word("elsewhere") if claim.fault is Fault.START and boundary == 0 else ZERO_ROOT
    steps = boundary * STEPS
    return StateHeader(root, ZERO_ROOT, ZERO_ROOT, steps, index * segments * STEPS + steps)


class Tree:
    """The tree of a claim. `work` is its opened last leaf."""

    def __init__(self, terms: GameTerms, solver: str, index: int, claim: Claim) -> None:
        self.headers = [make_header(terms.segment_count, index, claim, b) for b in range(claim.segments + 1)]
        self.salts = [make_word("salt", solver, index, claim, b) for b in range(claim.segments + 1)]
        place = (terms.domain, index, solver)
        roots = [compute_state_root(header) for header in self.headers]
        leaves = [compute_boundary_leaf(*place, b, self.salts[b], root) for b, root in enumerate(roots)]
        self.delta = DELTAS.get(claim.fault, bytes(DELTA_LEAF_BYTES))
        carried = compute_carried_root(self.headers[-1])
        carried = make_word("none") if claim.fault is Fault.CARRIED else carried
        delta_root = hash_leaf(self.delta)
        leaves.append(compute_work_leaf(*place, claim.segments, delta_root, carried))
        self.levels = compute_levels(leaves)
        self.root = compute_claim_root(leaves)
        self.work = WorkProof(delta_root, carried, tuple(compute_path(self.levels, len(leaves) - 1)))

    def open(self, boundary: int) -> BoundaryProof:
        """Returns a boundary with its path."""
        path = tuple(compute_path(self.levels, boundary))
        return BoundaryProof(self.headers[boundary], self.salts[boundary], path)


class MoneyTwin(Twin):
    """Encodes also the calls that tests/rounds leave out: answers, proofs, leaves, step roots."""

    trees: dict[bytes, tuple[Tree, Claim]]
    answered: set[int]

    def do(self, call: GameCall, sender: str) -> str | None:
        """Sends a call to both. A right claim that is disputed shows its step roots at once."""
        number = self.state.next_number
        refused = super().do(call, sender)
        if refused is None and isinstance(call, calls.DisputeStatement):
            self._show_roots(call.statement, number)
        return refused

    def check(self) -> None:
        """Compares the contracts' storage with the machine after every sixteenth call; logs are compared
        after each."""
        if self.count % CHECKED == 0 or self.state.is_closed:
            super().check()

    def _show_roots(self, ref: StatementRef, number: int) -> None:
        found = self.state.rounds[ref.round].claims[ref.slot]
        tree, claim = self.trees[found.claim_root]
        if (claim.spoiled and not claim.is_untraced) or number not in self.ids:
            return
        ends = [compute_state_root(tree.headers[b]) for b in (0, 1)]
        roots = [ends[0], *(make_word("step", i) for i in range(1, STEPS)), ends[1]]
        account = self.state.seats[found.seat].account
        arguments = (self.task, self.ids[number], roots, tree.open(0), tree.open(1))
        data = encode_call(find_function(self.chain.entries["Disputes"], "postClaimRoots"), arguments)
        self._must(self.chain.send_data(account, "Disputes", data))
        self.answered.add(number)

    def prepare(self, call: GameCall, block: int, sender: str) -> GameCall:
        """Returns the call with its facts. A dispute of a claim that has shown its roots ends cleared."""
        if isinstance(call, calls.EndDispute) and call.dispute in self.ids:
            is_cleared = call.dispute in self.answered
            return replace(call, outcome=GameOutcome.CLEARED if is_cleared else GameOutcome.CONVICTED)
        return super().prepare(call, block, sender)

    def _send(self, call: GameCall, party: Party) -> Sent | None:
        writers = {
            calls.AnswerQuery: ("Queries", self._write_answer),
            calls.ConvictSeat: ("Evidence", self._write_proof),
            calls.BringLeaf: ("Contests", self._write_leaf),
        }
        if isinstance(call, calls.CommitProof):
            return self.chain.send(party.address, "Evidence", "commitProof", call.digest)
        if type(call) not in writers:
            return super()._send(call, party)
        contract, write = writers[type(call)]
        made = write(call)  # type: ignore[operator]
        function = find_function(self.chain.entries[contract], made[0])
        return self.chain.send_data(party.address, contract, encode_call(function, made[1:]))

    # Votes and asks
    def _vote(self, ref: StatementRef, word: VoteWord, leaf: int = 0) -> tuple[Any, Any, Member]:
        """Returns a vote whose ends are real states. A REJECT of a pseudo-gradient names a leaf that does not
        exist."""
        vote, shown, auditor = super()._vote(ref, word, NO_LEAF if word == VoteWord.REJECT_DELTA else leaf)
        tree, _ = self.trees[vote.claim_root]
        if vote.seal == bytes(32):
            return vote, shown, auditor
        end = compute_state_root(tree.headers[vote.segment + 1])
        own = compute_state_root(self._own_end(vote.claim_root, vote.segment, word))
        place = (vote.domain, vote.round, vote.slot, vote.draw, vote.rank)
        seal = compute_seal(*place, auditor.address, vote.start_leaf, own, shown[3])
        leaf_hash = tree.levels[0][vote.segment + 1]
        vote = replace(vote, seal=seal, end_leaf=leaf_hash)
        return vote, (end, tree.salts[vote.segment + 1], own, shown[3]), auditor

    def _own_end(self, root: bytes, segment: int, word: VoteWord) -> StateHeader:
        header = self.trees[root][0].headers[segment + 1]
        return header if word == VoteWord.ACCEPT else replace(header, weights_root=hash_leaf(OTHER))

    def _write_answer(self, call: calls.AnswerQuery) -> tuple[Any, ...]:
        query = self.state.queries[call.query]
        vote, shown, _ = self._vote(query.statement, query.word)
        header = self.trees[vote.claim_root][0].headers[vote.segment + 1]
        leaf = LeafProof(ZEROS, ())
        leaves = {"weights": leaf, "first_moment": leaf, "second_moment": leaf}
        solver = self.state.seats[self.state.rounds[vote.round].claims[vote.slot].seat].account
        answer = {
            "claimed_end": header, "own_end": self._own_end(vote.claim_root, vote.segment, query.word),
            "solver": solver, "boundary_salt": shown[1], "seal_salt": shown[3], "claimed": leaves,
            "own": leaves, "learning_rate_sum": 0, "schedule_path": [],
        }  # fmt: skip
        names = ("vote", "leaf", "seat", "asker")
        question = dict(zip(names, (vote, *self.questions[call.query][1:]), strict=True))
        return "answerQuery", self.task, question, answer

    # Proofs
    def _write_proof(self, call: calls.ConvictSeat) -> tuple[Any, ...]:
        ref, game_round = call.statement, self.state.rounds[call.statement.round]
        tree, said = self.trees[game_round.claims[ref.slot].claim_root]
        claim, base = {"round": ref.round, "slot": ref.slot}, self._open_base(game_round.base_root)
        nothing = WorkProof(bytes(32), bytes(32), ())
        start = {"first": tree.open(0), "base": base, "work": nothing}
        if call.proof == ProofKind.BOUNDARY_ZERO:
            return "proveStart", self.task, claim, start
        if call.proof == ProofKind.DELTA_LEAF and said.fault is not Fault.SCALE:
            leaves = {"global_leaf": LeafProof(ZEROS, ()), "final_leaf": LeafProof(ZEROS, ())}
            delta = {"work": tree.work, "base": base, "last": tree.open(len(tree.headers) - 1), **leaves}
            delta["delta_leaf"] = LeafProof(tree.delta, ())
            return "proveDelta", self.task, claim, 0, delta
        if call.proof == ProofKind.DELTA_LEAF:
            return "proveScale", self.task, claim, 0, tree.work, LeafProof(tree.delta, ())
        if call.proof == ProofKind.CARRIED_ROOT:
            return "proveCarried", self.task, claim, tree.work, tree.open(len(tree.headers) - 1)
        if call.proof == ProofKind.TWO_STATEMENTS:
            words = (VoteWord.ACCEPT, VoteWord.REJECT_STATE)
            return "proveTwoVotes", self.task, *(self._sign(ref, word) for word in words)
        word = game_round.votes[ref.slot, ref.draw or 0][ref.rank].word
        if word == VoteWord.REJECT_START:
            return "proveRightStart", self.task, self._sign(ref, word), start
        return "proveNoLeaf", self.task, self._sign(ref, word)

    def _open_base(self, root: bytes) -> OuterHeader:
        return OuterHeader(*self.behind.get(root, (ZERO_ROOT, ZERO_ROOT)))

    def _sign(self, ref: StatementRef, word: VoteWord) -> dict[str, Any]:
        vote, _, auditor = self._vote(ref, word)
        handed = hand_vote(vote, None, auditor, self.signing)
        return {"vote": vote, "r": handed[-2], "vs": handed[-1]}

    def make_digest(self, name: str, ref: StatementRef, kind: ProofKind) -> bytes:
        """Returns the digest of exactly the call that will be sent."""
        made = self._write_proof(calls.ConvictSeat(ref, kind, b""))
        data = encode_call(find_function(self.chain.entries["Evidence"], made[0]), made[1:])
        return bytes(self.chain.read("Evidence", "digestOf", self.parties[name].address, data))

    # Roots
    def _write_leaf(self, call: calls.BringLeaf) -> tuple[Any, ...]:
        """Returns the call that brings a contested leaf: weights and momentum of the base, then each merged
        claim's pseudo-gradient in shard order."""
        contest = self.state.contests[call.contest]
        game_round = self.state.rounds[contest.round]
        shards = assign_shards(game_round.beacon or bytes(32), len(game_round.pool.solvers))
        inputs = 2 * ZEROS
        for slot in sorted(game_round.merged, key=lambda slot: shards[slot]):
            tree, _ = self.trees[game_round.claims[slot].claim_root]
            inputs += tree.delta + tree.work.carried_root + b"".join(tree.work.path)
        return "bringLeaf", self.task, self.ids[call.contest], inputs


class ChainTable:
    """Plays as `Table`, on the contracts and in memory. `refused_early` are calls that only the machine
    accepts yet."""

    def __init__(self, chain: RoundChain, terms: GameTerms, agent: Agent, rounds: int) -> None:
        names = [*dict.fromkeys((*(name for _, name in name_parties(agent)), KEEPER, STRANGER, *EXTRAS))]
        terms = replace(terms, rounds=rounds, windows=WINDOWS)
        terms = replace(terms, domain=make_word("task", agent.name, chain.get_block()))
        with patch.object(twin, "make_word", _make_word):
            self.twin = MoneyTwin(chain, terms, tuple(names))
        self.twin.trees, self.twin.answered = {}, set()

    @property
    def state(self) -> GameState:
        """The state in memory, which equals the contracts'."""
        return self.twin.state

    @property
    def block(self) -> int:
        """The block that the next call is in."""
        return self.twin.get_block()

    def get_address(self, name: str) -> str:
        """Returns the account of a party."""
        return self.twin.parties[name].address

    def make_claim_root(self, index: int, claim: Claim) -> bytes:
        """Returns the root of a claim's real tree."""
        tree = Tree(self.state.terms, self.get_address(claim.owner), index, claim)
        self.twin.trees[tree.root] = (tree, claim)
        return tree.root

    def make_root(self, index: int, merged: tuple[int, ...], is_wrong: bool) -> bytes:
        """Returns the outer root of zeros, or a wrong one."""
        weights = make_word("wrong", index, merged) if is_wrong else ZERO_ROOT
        root = hash_words("touchstone.outer", weights, ZERO_ROOT)
        self.twin.behind[root] = (weights, ZERO_ROOT)
        return root

    def make_digest(self, name: str, ref: StatementRef, kind: ProofKind) -> bytes:
        """Returns the digest that a party commits to before it sends a proof."""
        return self.twin.make_digest(name, ref, kind)

    def send(self, call: GameCall, name: str) -> str | None:
        """Sends a call to both; returns the name of the refusal, None if it passed."""
        return self.twin.do(call, name)

    def go_to(self, block: int) -> None:
        """Mines blocks up to this one."""
        self.twin.chain.mine_to(block - 1)


def play_contracts(chain: RoundChain, agent: Agent, rounds: int) -> dict[str, int]:
    """Plays an agent's task on both. Raises Disagreement if they differ. In the result, `refused` counts the
    agent's refused calls."""
    if agent.changes:
        return _post_terms(chain, agent)
    with chain.undone():
        return _play_on(ChainTable(chain, make_terms(), agent, rounds), agent)


def _play_on(table: "ChainTable", agent: Agent) -> dict[str, int]:
    """Plays the task. If the agent is weighed by its chance of a random query, its first vote is queried."""
    play = play_task(agent, table, SpotChecks(only=1 if agent.is_spotted else None))
    if not table.state.is_closed:
        raise Disagreement(f"{agent.name}: the task does not close")
    return {"calls": table.twin.count, "refused": len(play.refused), "convicted": len(play.convicted)}


def _post_terms(chain: RoundChain, agent: Agent) -> dict[str, int]:
    """Posts the terms. The contract must refuse them by the same error as the machine."""
    terms = change_terms(make_terms(), {k: v for k, v in agent.changes if k != "reduction"})
    terms = replace(terms, domain=make_word("task", agent.name, chain.get_block()))
    flaw, refused = check_terms(terms, LIMITS), ""
    try:
        Twin(chain, terms, ())
    except Disagreement as refusal:
        refused = str(refusal)
    if (flaw.name if flaw else "") not in refused or bool(flaw) != bool(refused):
        raise Disagreement(f"{agent.name}: the machine says {flaw}, the contract {refused}")
    return {"calls": 1, "refused": int(bool(refused)), "convicted": 0}
