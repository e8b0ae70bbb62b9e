"""Measures the gas of answers, proofs and contests at the bounds that terms allow.

Tensors have 2^31 parameters, claims 65,535 segments of 20 steps, programs 65,536 nodes over as many buffers
of 2^40 elements, sums 4,096 terms, and trace leaves 4,096 bytes. Of each tree only what is opened is real;
random words stand for the rest. Hardly any byte is zero, because non-zero bytes cost more.

A contest has all answers, the contester's moves, a right and a wrong leaf, and the fall of the root. Claims
are as in `ContestsGas.t.sol`: their scales are far apart, so sums round at every claim.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from functools import cached_property
from typing import Any

from lab.benchmarks.gas_bounds.gas_play import (
    AMOUNTS,
    DRAWS,
    SOLVER,
    VERIFIER,
    WINDOWS,
    Case,
    Play,
)
from tests.kit.members import Member, hand_vote, make_member, make_word
from tests.rounds.chain import RoundChain, Sent
from touchstone.protocol.spec.claim_tree import compute_work_leaf, name_claim
from touchstone.protocol.spec.commitments import (
    compute_boundary_leaf,
    compute_schedule_leaf,
    compute_state_root,
)
from touchstone.protocol.spec.float32 import pack_bits
from touchstone.protocol.spec.game.terms import GameWindows
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.merkle import compute_root, fold_path, hash_leaf
from touchstone.protocol.spec.merkle_ranges import fold_range
from touchstone.protocol.spec.merkle_sets import fold_set
from touchstone.protocol.spec.outer_update import compute_outer_leaf
from touchstone.protocol.spec.params import (
    DELTA_BLOCK_BYTES,
    DELTA_LEAF_BYTES,
    LEAF_ELEMENTS,
    MAX_PARAMETERS,
    MAX_SEGMENT_STEPS,
)
from touchstone.protocol.spec.shard_draws import assign_shards
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote, VoteWord, compute_seal

Grown = tuple[bytes, list[bytes]]
"""A root, and the siblings that lead to it."""


def grow(leaf: bytes, index: int, depth: int, *name: object) -> Grown:
    """Returns a tree with this leaf hash in this place."""
    path = [make_word(*name, level) for level in range(depth)]
    return fold_path(leaf, index, path), path


def grow_run(leaves: Sequence[bytes], first: int, depth: int, *name: object) -> Grown:
    """Returns a tree with leaves of these bytes from place `first` on."""
    hashes = [hash_leaf(leaf) for leaf in leaves]
    return _find_length(lambda path: fold_range(hashes, first, depth, path), *name)


def grow_set(leaves: Mapping[int, bytes], depth: int, *name: object) -> Grown:
    """Returns a tree with these leaf hashes in these places."""
    return _find_length(lambda path: fold_set(leaves, depth, path), *name)


def _find_length(fold: Callable[[Sequence[bytes]], bytes | None], *name: object) -> Grown:
    """Returns the longest path of which every element is used."""
    path: list[bytes] = []
    root = fold(path)
    while (longer := fold([*path, make_word(*name, len(path))])) is not None:
        path.append(make_word(*name, len(path)))
        root = longer
    assert root is not None
    return root, path


def make_noise(count: int, *name: object) -> bytes:
    """Returns bytes that are hardly ever zero."""
    words = -(-count // 32)
    return b"".join(make_word(*name, i) for i in range(words))[:count]


SEGMENTS, STEPS = (1 << 16) - 1, MAX_SEGMENT_STEPS
DEPTH = (MAX_PARAMETERS // LEAF_ELEMENTS - 1).bit_length()
"""The depth of a tensor's tree: 23."""
LEAF = 0x2AAAAB
"""The leaf that all proofs are about; it has siblings on both sides."""
SEGMENT = SEGMENTS - 1
SCHEDULE_DEPTH = (SEGMENTS - 1).bit_length()
WIDEST = (1 << 64) - 1, (1 << 160) - 1, (1 << 64) - 1, (1 << 160) - 1, (1 << 64) - 1, (1 << 64) - 1
"""Limits within which any two numbers of one size lie, so that a whole leaf is compared."""
RATE = 1 << 63
BOUND_WINDOWS = GameWindows(**{**asdict(WINDOWS), "respond": 20})


class BoundPlay(Play):
    """A task of one round at the bounds. `step_root` is the root of its steps."""

    segments = SEGMENTS
    step_root = make_word("step")

    def make_terms(self) -> tuple[Any, ...]:
        """Returns terms of one round with as many segments as allowed."""
        schedule = grow(compute_schedule_leaf(SEGMENT, RATE), SEGMENT, SCHEDULE_DEPTH, "schedule")
        return (
            self.submitter.address, make_word("salt", self.case, type(self).__name__), *self.roots,
            schedule[0], self.step_root, 0, 0, 0, 0, MAX_PARAMETERS, 1, SEGMENTS * STEPS, STEPS,
            self.case.solvers, DRAWS, 0, 1, 3 * DRAWS, self.case.auditors, 0, 0x3F000000, 0x3F000000,
            tuple(asdict(BOUND_WINDOWS).values()), tuple(asdict(AMOUNTS).values()), WIDEST,
        )  # fmt: skip

    def make_challenger(self) -> Member:
        """Returns an account with credit."""
        challenger = make_member("challenger")
        self.fund(challenger, 100 * AMOUNTS.query_bond)
        return challenger


# Queries
def measure_answer(chain: RoundChain) -> dict[str, int]:
    """Measures the answer to a query about an honest vote. All numbers of both leaves differ, within the
    limits."""
    play = BoundPlay(chain, Case(1, 6))
    play.start()
    play.play(0)
    asker, signed_answer = play.make_challenger(), make_question(play)
    signed, answer = signed_answer
    asked = play.do(asker, "Queries", "queryVote", play.task, signed, LEAF, AMOUNTS.query_bond)
    question = (signed[0], LEAF, VERIFIER << 16, asker.address)
    answered = play.do(asker, "Queries", "answerQuery", play.task, question, answer)
    require_event(answered, "QueryEnded", ending=1)
    return {"query": asked.gas, "answer": answered.gas}


def make_question(play: Play) -> tuple[Any, Any]:
    """Returns a signed vote between two states that differ in all numbers of a leaf, and the answer to a
    query."""
    known, auditor = play.rounds[0], play.seats[VERIFIER][0]
    solver, salts = play.seats[SOLVER][0].address, (make_word("boundary"), make_word("seal"))
    (claimed, claimed_leaves), (own, own_leaves) = _make_end("claimed"), _make_end("own")
    start = make_word("start")
    seal = compute_seal(play.domain, 0, 0, 0, 0, auditor.address, start, compute_state_root(own), salts[1])
    end = compute_boundary_leaf(play.domain, 0, solver, SEGMENT + 1, salts[0], compute_state_root(claimed))
    vote = Vote(
        play.domain, 0, known.base, known.seed, 0, known.claims[0], 0, 0, SEGMENT, start, seal, end,
        VoteWord.ACCEPT, 0,
    )  # fmt: skip
    _, path = grow(compute_schedule_leaf(SEGMENT, RATE), SEGMENT, SCHEDULE_DEPTH, "schedule")
    answer = (astuple(claimed), astuple(own), solver, *salts, claimed_leaves, own_leaves, RATE, path)
    return (astuple(vote), *hand_vote(vote, None, auditor, play.signing)[-2:]), answer


def _make_end(name: str) -> tuple[StateHeader, Any]:
    """Returns a state, and a leaf of each of its three tensors with the paths."""
    leaves = [_make_numbers(name, tensor) for tensor in range(3)]
    grown = [grow(hash_leaf(leaf), LEAF, DEPTH, name, i) for i, leaf in enumerate(leaves)]
    steps = (SEGMENT + 1) * STEPS
    weights, first, second = (root for root, _ in grown)
    header = StateHeader(weights, first, second, steps, steps)
    return header, tuple((leaf, path) for leaf, (_, path) in zip(leaves, grown, strict=True))


def _make_numbers(*name: object) -> bytes:
    """Returns a leaf of numbers from 1/2 to 1."""
    noise = make_noise(4 * LEAF_ELEMENTS, *name)
    numbers = (int.from_bytes(noise[i : i + 4], "little") for i in range(0, len(noise), 4))
    return pack_bits([0x3F000000 | number & 0x7FFFFF for number in numbers])


def require_event(sent: Sent, event: str, **expected: Any) -> dict[str, Any]:
    """Returns the values of an event. Raises RuntimeError if the transaction has no such event."""
    for _, name, values in sent.events:
        if name == event and all(values[key] == value for key, value in expected.items()):
            return values
    raise RuntimeError(f"expected {event} {expected}, found {sent.events}")


# Votes
def measure_vote(chain: RoundChain, case: Case) -> int:
    """Measures a single vote with its opening: the first of its round, which writes new storage."""
    play = Play(chain, case)
    play.start()
    for slot in range(case.solvers):
        play.commit(0, slot)
    play.seal(0)
    return play.do(play.submitter, "Votes", "judge", play.task, 0, play.cast(0, False)[-1:]).gas


FANOUT_LEVELS = 4
CLAIM_DEPTH = 17
RATE_BITS = 0x3F000000
NAMES = ("W", "M")


def make_base(name: str) -> bytes:
    """Returns a leaf of finite numbers."""
    noise = bytearray(make_noise(1024, "base", name))
    noise[3::4] = bytes(byte & 0xBF for byte in noise[3::4])
    return bytes(noise)


def make_delta(slot: int) -> bytes:
    """Returns a leaf of a pseudo-gradient. Scales rise by three bits from claim to claim, so that nearly
    every sum rounds, in any order."""
    delta = bytearray(make_noise(DELTA_LEAF_BYTES, "delta", slot))
    delta[::DELTA_BLOCK_BYTES] = bytes([3 * slot]) * 4
    return bytes(delta)


class ContestPlay(BoundPlay):
    """A round whose merged root is right or wrong in one leaf."""

    is_right = True
    bases = tuple(grow(hash_leaf(make_base(name)), LEAF, DEPTH, name) for name in NAMES)
    roots = (bases[0][0], bases[1][0])

    # Claims
    def make_claim(self, number: int, slot: int) -> bytes:
        """Returns a claim of which only the work leaf is known, and the leaf of its pseudo-gradient."""
        delta_root, _ = grow(hash_leaf(make_delta(slot)), LEAF, DEPTH, "delta", slot)
        solver = self.seats[SOLVER][slot].address
        leaf = compute_work_leaf(self.domain, 0, solver, SEGMENTS, delta_root, make_word("carried", slot))
        return name_claim(grow(leaf, SEGMENTS + 1, CLAIM_DEPTH, "claim", slot)[0], SEGMENTS)

    def list_order(self) -> list[int]:
        """Returns the slots in the order in which claims are summed."""
        shards = assign_shards(self.rounds[0].beacon, self.case.solvers)
        return sorted(range(self.case.solvers), key=lambda slot: shards[slot])

    @property
    def inputs(self) -> bytes:
        """The bytes that prove the leaf, as `bringLeaf` takes them."""
        parts = [make_base(name) + b"".join(path) for name, (_, path) in zip(NAMES, self.bases, strict=True)]
        for slot in self.list_order():
            _, delta_path = grow(b"", LEAF, DEPTH, "delta", slot)
            _, claim_path = grow(b"", SEGMENTS + 1, CLAIM_DEPTH, "claim", slot)
            parts += [make_delta(slot), *delta_path, make_word("carried", slot), *claim_path]
        return b"".join(parts)

    # The root
    @cached_property
    def leaf(self) -> bytes:
        """The hash of the leaf of the new W."""
        deltas = [make_delta(slot) for slot in self.list_order()]
        weights, momentum = (make_base(name) for name in NAMES)
        return hash_leaf(compute_outer_leaf(weights, momentum, deltas, RATE_BITS, RATE_BITS)[0])

    def list_groups(self) -> list[tuple[list[bytes], int]]:
        """Returns the nodes of each answer from the root down, and which of them leads to the leaf."""
        groups: list[tuple[list[bytes], int]] = []
        node, index = self.leaf if self.is_right else make_word("wrong"), LEAF
        for levels in self._list_heights():
            nodes = [make_word("node", len(groups), i) for i in range(1 << levels)]
            child, index = index % len(nodes), index >> levels
            nodes[child] = node
            groups.append((nodes, child))
            node = compute_root(nodes)
        groups.append(([node, make_word("new momentum")], 0))
        return groups[::-1]

    def _list_heights(self) -> Iterator[int]:
        """Yields the levels of each group from the leaves upwards; the lowest group has the remainder."""
        yield DEPTH % FANOUT_LEVELS or FANOUT_LEVELS
        yield from [FANOUT_LEVELS] * ((DEPTH - 1) // FANOUT_LEVELS)

    def make_root(self, number: int) -> bytes:
        """Returns the root over the nodes that answers show."""
        return hash_words("touchstone.outer", *self.list_groups()[0][0])


# Measuring
def measure_contests(chain: RoundChain, solvers: int) -> dict[str, Any]:
    """Measures a contest of a right root and one of a wrong root, each down to its leaf."""
    play = ContestPlay(chain, Case(solvers, max(solvers, 6)))
    play.start()
    for slot in range(solvers):
        play.commit(0, slot)
    play.seal(0)
    votes, found = play.cast(0, False), {}
    for play.is_right in (True, False):
        with chain.undone():
            play.post(0, votes, [])
            found["right" if play.is_right else "wrong"] = _contest(play)
    return {"solvers": solvers, **found}


def _contest(play: ContestPlay) -> dict[str, Any]:
    challenger, bond = play.make_challenger(), AMOUNTS.contest_bond
    opened = play.do(challenger, "Contests", "contest", play.task, 0, bond, make_word("salt"))
    contest, answers, names = require_event(opened, "Contested")["id"], [], []
    for nodes, child in play.list_groups():
        answers.append(play.do(play.submitter, "Contests", "answerContest", play.task, contest, nodes).gas)
        sent = play.do(challenger, "Contests", "nameChild", play.task, contest, child, nodes)
        names.append(sent.gas)
    if play.is_right:
        last = play.do(play.submitter, "Contests", "bringLeaf", play.task, contest, play.inputs)
    else:
        play.chain.mine_to(require_event(sent, "ChildNamed")["clock_block"])
        last = play.do(challenger, "Contests", "endContest", play.task, contest)
    require_event(last, "ContestEnded", outcome=4 if play.is_right else 5)
    return {"contest": opened.gas, "answers": answers, "names": names, "last": last.gas}
