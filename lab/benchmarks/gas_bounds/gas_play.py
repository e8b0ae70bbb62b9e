"""Plays rounds of one task on the contracts, all parties active, for the gas benchmarks."""

from collections import Counter
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from tests.kit.members import (
    Draw,
    Member,
    hand_vote,
    make_member,
    make_vote,
    make_word,
    sign_merge,
)
from tests.rounds.chain import RoundChain, Sent
from touchstone.node.records.handed_votes import HandedVote
from touchstone.protocol.spec.audit_draws import (
    VERIFIER_POOL,
    WHISTLEBLOWER_POOL,
    compute_permutation,
    count_places,
    draw_circle_segments,
    draw_late,
    get_auditor_places,
)
from touchstone.protocol.spec.commitments import (
    compute_boundary_leaf,
    compute_schedule_leaf,
    compute_state_root,
)
from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows
from touchstone.protocol.spec.game.upkeep import SETTLE_SEATS
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.merkle import compute_levels, compute_path, fold_path, hash_leaf
from touchstone.protocol.spec.round_seeds import compute_round_beacon, compute_round_seed
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import (
    MergeSignature,
    Vote,
    VoteWord,
    compute_merged_hash,
    compute_seal,
)
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.network.devnet import CHAIN_ID

SOLVER, VERIFIER, WHISTLEBLOWER = 1, 2, 3
SEGMENTS, SEGMENT_STEPS, DRAWS, LATE_CHANCE = 16, 10, 2, 1 << 15
EPOCH_ROUNDS = 16
WINDOWS = GameWindows(
    delay=1,
    draw_grid=2,
    train_min=120,
    train_max=400,
    audit_max=90,
    post=6,
    respond=4,
    dispute=640,
    query=2976,
)
AMOUNTS = GameAmounts(
    solver_stake=10**21, auditor_stake=10**20, solver_pay=10**18, audit_pay=10**16, late_pay=10**16,
    dropped_fee=10**17, unserved_fee=10**17, contest_bond=10**18, query_bond=10**18, dispute_bond=10**18,
    finder_cap=10**18,
)  # fmt: skip
PAUSE_BLOCKS = 32
"""Blocks before the last commitment of a round, so that seats can settle before the ring reuses its
entries."""
WEALTH = 10**24
TASK_ROUNDS, LEAVES, LEARNING_RATE_SUM = 1_000, 40, 1 << 60
SCHEDULE = compute_levels(
    [compute_schedule_leaf(index, LEARNING_RATE_SUM) for index in range(TASK_ROUNDS * SEGMENTS)]
)
"""The tree over the learning rates of the whole task."""


@dataclass(frozen=True)
class Case:
    """The size of a play. With `is_refusing` a third of the primaries REJECT, and both reserves accept."""

    solvers: int
    auditors: int
    is_refusing: bool = False


@dataclass
class Round:
    """What every party knows of a round."""

    base: bytes
    beacon: bytes = b""
    seed: bytes = b""
    claims: list[bytes] = field(default_factory=list)
    late_seed: bytes = b""


class Play:
    """Rounds of one task in which all parties are active. `roots` belong to the first W and its momentum,
    `segments` and `draws` to a claim."""

    roots = (make_word("W"), make_word("zero"))
    segments, draws = SEGMENTS, DRAWS

    def __init__(self, chain: RoundChain, case: Case) -> None:
        self.chain, self.case = chain, case
        counts = {SOLVER: case.solvers, VERIFIER: case.auditors, WHISTLEBLOWER: case.auditors}
        self.seats = {role: [make_member(f"{role} {i}") for i in range(n)] for role, n in counts.items()}
        self.members = {one.address: one for some in self.seats.values() for one in some}
        self.submitter = make_member(f"submitter {case}")
        for role, some in self.seats.items():
            for member in some:
                self.fund(member, self._get_stake(role))
        # A task whose rounds do not start in time is over, and each call takes a block.
        self.task = self._post()
        self.domain = hash_words("touchstone.domain", CHAIN_ID, chain.addresses["Game"], self.task)
        self.signing = SigningDomain(CHAIN_ID, chain.addresses["Game"])
        for role, some in self.seats.items():
            for member in some:
                self.do(member, "Seats", "join", self.task, role, self._get_stake(role))
        self.rounds: dict[int, Round] = {}
        self.owed: Counter[str] = Counter()
        self.settled = 0
        self.signed: list[tuple[Vote, Member]] = []

    # Setting up
    @staticmethod
    def _get_stake(role: int) -> int:
        return AMOUNTS.solver_stake if role == SOLVER else AMOUNTS.auditor_stake

    def do(self, sender: Member, contract: str, function: str, *arguments: Any) -> Sent:
        """Sends a call that must pass."""
        sent = self.chain.send(sender.address, contract, function, *arguments)
        if sent.error is not None:
            raise RuntimeError(f"expected {contract}.{function} to pass, refused: {sent.error}")
        return sent

    def fund(self, member: Member, wei: int) -> None:
        """Gives a member this much credit, out of new tokens."""
        self.chain.ask(("anvil_setBalance", [member.address, hex(WEALTH)]))
        self.do(member, "DevToken", "mint", member.address, wei)
        self.do(member, "DevToken", "approve", self.chain.addresses["Vault"], wei)
        self.do(member, "Vault", "deposit", wei)

    def make_terms(self) -> tuple[Any, ...]:
        """Returns the terms as `postTask` takes them."""
        return (
            self.submitter.address, make_word("salt", self.case), *self.roots, SCHEDULE[-1][0],
            make_word("step"), 0, 0, 0, 0, LEAVES * 256, TASK_ROUNDS, self.segments * SEGMENT_STEPS,
            SEGMENT_STEPS, self.case.solvers, self.draws, LATE_CHANCE, 1, 3 * self.draws, 3, 0, 0x3F000000,
            0x3F000000,
            tuple(asdict(WINDOWS).values()), tuple(asdict(AMOUNTS).values()), (1,) * 6,
        )  # fmt: skip

    def make_claim(self, number: int, slot: int) -> bytes:
        """Returns the root of a claim's tree."""
        return make_word("claim", number, slot)

    def make_root(self, number: int) -> bytes:
        """Returns the root that a round is merged into."""
        return make_word("root", number)

    def _post(self) -> bytes:
        terms = self.make_terms()
        escrow = self.chain.read("Tasks", "escrowFor", terms)
        self.fund(self.submitter, escrow)
        sent = self.do(self.submitter, "Tasks", "postTask", terms, b"text")
        return next(bytes(v["task"]) for _, name, v in sent.events if name == "TaskPosted")

    def start(self) -> None:
        """Plays up to the first open round."""
        self.do(self.submitter, "Rounds", "start", self.task)
        block = self._find_start()
        self.chain.mine_to(block)
        header, value = self.chain.get_header(block)
        self.do(self.submitter, "Rounds", "drawStart", self.task, header)
        base = hash_words("touchstone.outer", *self.roots)
        self.rounds[0] = Round(base, compute_round_beacon(self.domain, 0, value))
        self.rounds[1] = Round(b"", compute_round_beacon(self.domain, 1, value))

    def _find_start(self) -> int:
        return int(self.chain.read("Rounds", "lineOf", self.task)[0][5])

    # Rounds
    def play(self, number: int) -> dict[str, list[Sent]]:
        """Plays one round; returns the transactions by kind."""
        sent = {"commit": [self.commit(number, slot) for slot in range(self.case.solvers - 1)]}
        self.chain.mine_to(self.chain.get_block() + PAUSE_BLOCKS)
        sent["commit"].append(self.commit(number, self.case.solvers - 1))
        sent["seal"] = [self.seal(number)]
        late = self.cast(number - 1, True) if number else []
        votes = self.cast(number, False)
        sent["together"] = [self.post(number, votes, late)]
        sent["settle"] = self.settle_due(number)
        return sent

    def commit(self, number: int, slot: int) -> Sent:
        """Commits one solver's claim."""
        known, root = self.rounds[number], self.make_claim(number, slot)
        known.claims.append(root)
        solver = self.seats[SOLVER][slot]
        return self.do(
            solver, "Rounds", "commit", self.task, number, known.base, known.beacon, root, self.segments
        )

    def seal(self, number: int) -> Sent:
        """Records the randomness of the audits. The last commitment is in the latest block and closes the
        round."""
        closed = self.chain.get_block()
        block = -(-(closed + WINDOWS.delay) // WINDOWS.draw_grid) * WINDOWS.draw_grid
        self.chain.mine_to(block)
        header, value = self.chain.get_header(block)
        known = self.rounds[number]
        known.seed = compute_round_seed(self.domain, number, value)
        beacon = compute_round_beacon(self.domain, number + 2, value)
        self.rounds[number + 2] = Round(b"", beacon)
        if number:
            self.rounds[number - 1].late_seed = known.seed
        return self.do(self.submitter, "Rounds", "drawAudits", self.task, number, header)

    def cast(self, number: int, is_late: bool) -> list[HandedVote]:
        """Returns votes with openings in the order of slot, draw and rank; `signed` keeps them as they were
        signed."""
        self.signed = []
        known, slots = self.rounds[number], self.case.solvers
        role, tag = (WHISTLEBLOWER, WHISTLEBLOWER_POOL) if is_late else (VERIFIER, VERIFIER_POOL)
        seed, draws = (known.late_seed, 1) if is_late else (known.seed, self.draws)
        size = self.case.auditors
        order = compute_permutation(seed, tag, size, count_places(size, draws * slots))
        handed = []
        for slot in range(slots):
            segments = draw_circle_segments(known.seed, slot, self.draws, self.segments)
            late = (
                draw_late(seed, slot, LATE_CHANCE, segments, self.segments, size, slots) if is_late else None
            )
            for draw, segment in (
                enumerate(segments) if not is_late else ([(self.draws, late.segment)] if late else [])
            ):
                places = get_auditor_places(size, slot, 0 if is_late else draw, draws, slots)
                for rank, word in enumerate(self.list_words(slot, draw, is_late)):
                    auditor = self.seats[role][order[places[rank]]]
                    about = Draw(
                        self.domain, number, known.base, seed, slot, known.claims[slot], draw, rank, segment,
                        self.seats[SOLVER][slot].address,
                    )  # fmt: skip
                    vote, opening = make_vote(
                        about, auditor, word, int(word == VoteWord.REJECT_STATE), word == VoteWord.ACCEPT
                    )
                    self.signed.append((vote, auditor))
                    shown = None if word == VoteWord.ABSTAIN else opening
                    handed.append(hand_vote(vote, shown, auditor, self.signing))
                    self.owed[auditor.address] += AMOUNTS.late_pay if is_late else AMOUNTS.audit_pay
        return handed

    def list_words(self, slot: int, draw: int, is_late: bool) -> list[VoteWord]:
        """Returns the verdicts of a draw's ranks, as many as are needed. A late draw is decided by its
        primary."""
        if not is_late and self.case.is_refusing and (self.draws * slot + draw) % 3 == 0:
            return [VoteWord.REJECT_STATE, VoteWord.ACCEPT, VoteWord.ACCEPT]
        return [VoteWord.ACCEPT]

    def post(self, number: int, votes: list[HandedVote], late: list[HandedVote]) -> Sent:
        """Posts the root, signed by the smallest majority."""
        known, many = self.rounds[number], self.case.solvers
        shards = assign_shards(known.beacon, many)
        merged = sorted(range(many), key=lambda slot: shards[slot])
        root = self.make_root(number)
        merged_hash = compute_merged_hash([known.claims[slot] for slot in merged])
        merge = MergeSignature(self.domain, number, known.base, (1 << many) - 1, merged_hash, root)
        signers = self.seats[SOLVER][: many // 2 + 1]
        signatures = b"".join(sign_merge(one, merge, self.signing) for one in signers)
        self.rounds[number + 1].base = root
        for slot in merged:
            self.owed[self.seats[SOLVER][slot].address] += AMOUNTS.solver_pay
        bits = sum(1 << slot for slot in merged)
        rest = (bits, root, (1 << len(signers)) - 1, signatures)
        return self.do(self.submitter, "Votes", "judgeAndPost", self.task, number, votes, late, *rest)

    # Settling
    def settle_due(self, newest: int) -> list[Sent]:
        """Settles all seats up to the last round of each epoch that can be settled, and frees the epoch's
        storage. A call settles as many seats as one of a node."""
        sent = []
        while (last := self.settled + EPOCH_ROUNDS - 1) < newest:
            (facts,) = self.chain.read("Rounds", "factsOf", self.task, last, last)
            if self.chain.get_block() <= facts[7]:
                break
            seats = [role << 16 | i for role, some in self.seats.items() for i in range(len(some))]
            for first in range(0, len(seats), SETTLE_SEATS):
                some = seats[first : first + SETTLE_SEATS]
                sent.append(self.do(self.submitter, "Settlement", "settle", self.task, some, last))
            sent.append(self.do(self.submitter, "Rounds", "freeEpoch", self.task))
            self.settled = last + 1
        return sent

    # Questions
    def measure_questions(self, number: int) -> dict[str, list[Sent]]:
        """Measures queries about votes of a round, each answered with a whole leaf of both ends, and disputes
        of votes and of claims."""
        asker = make_member("asker")
        self.fund(asker, 100 * AMOUNTS.query_bond)
        sent: dict[str, list[Sent]] = {"query": [], "answer": [], "dispute_vote": [], "dispute_claim": []}
        for leaf in range(3):
            signed, answer = self._make_question(number, leaf)
            ask = self.do(asker, "Queries", "queryVote", self.task, signed, leaf, AMOUNTS.query_bond)
            asked = (signed[0], leaf, VERIFIER << 16 | leaf, asker.address)
            sent["query"].append(ask)
            sent["answer"].append(self.do(asker, "Queries", "answerQuery", self.task, asked, answer))
            bond, salt = AMOUNTS.dispute_bond, make_word("dispute", leaf)
            rest = (number, leaf, 0, bond, make_word(salt))
            sent["dispute_vote"].append(
                self.do(asker, "Disputes", "disputeVote", self.task, signed, bond, salt)
            )
            sent["dispute_claim"].append(self.do(asker, "Disputes", "disputeClaim", self.task, *rest))
        return sent

    def _make_question(self, number: int, leaf: int) -> tuple[Any, Any]:
        """Returns a signed vote between two states that differ elsewhere, and the answer to a query about a
        leaf."""
        known, segment, auditor = self.rounds[number], 3, self.seats[VERIFIER][leaf]
        solver, salts = self.seats[SOLVER][0].address, (make_word("boundary"), make_word("seal"))
        (claimed, claimed_leaves), (own, own_leaves) = (
            self._make_end(number, segment, leaf, name) for name in ("claimed", "own")
        )
        place = (self.domain, number, 0, 0, 0)
        start = make_word("start")
        seal = compute_seal(*place, auditor.address, start, compute_state_root(own), salts[1])
        end = compute_boundary_leaf(
            self.domain, number, solver, segment + 1, salts[0], compute_state_root(claimed)
        )
        vote = Vote(
            self.domain, number, known.base, known.seed, 0, known.claims[0], 0, 0, segment, start, seal, end,
            VoteWord.ACCEPT, 0,
        )  # fmt: skip
        signature = hand_vote(vote, None, auditor, self.signing)[-2:]
        path = compute_path(SCHEDULE, number * SEGMENTS + segment)
        answer = (
            astuple(claimed), astuple(own), solver, *salts, claimed_leaves, own_leaves,
            LEARNING_RATE_SUM, path,
        )  # fmt: skip
        return (astuple(vote), *signature), answer

    def _make_end(self, number: int, segment: int, leaf: int, name: str) -> tuple[StateHeader, Any]:
        """Returns a state of which one leaf is known, equal for all names, and that leaf of its three
        tensors."""
        data, steps = b"\0\0\0\x3f" * 256, (segment + 1) * SEGMENT_STEPS
        paths = [[make_word(name, tensor, i) for i in range(6)] for tensor in range(3)]
        weights, first, second = (fold_path(hash_leaf(data), leaf, path) for path in paths)
        state = StateHeader(weights, first, second, steps, number * SEGMENTS * SEGMENT_STEPS + steps)
        return state, tuple((data, path) for path in paths)

    def check_pay(self) -> None:
        """Raises RuntimeError unless every credit is what the account's work earned."""
        for account, wei in self.owed.items():
            held = self.chain.read("Vault", "creditOf", account)
            if held != wei:
                raise RuntimeError(f"{account}: expected {wei} wei of pay, got {held}")
