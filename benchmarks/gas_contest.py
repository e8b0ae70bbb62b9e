"""A contest at the bounds: answers, the contester's moves, the leaf, right and wrong, and the fall.

The claims are as those of `ContestsGas.t.sol`: scales far apart, sums that round at every claim.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from benchmarks.gas_bounds import DEPTH, LEAF, SEGMENTS, BoundPlay, require_event
from benchmarks.gas_play import AMOUNTS, SOLVER, Case
from benchmarks.gas_trees import grow, make_noise
from protocol.spec.drawing import deal_shards
from protocol.spec.hashing import hash_words
from protocol.spec.merkle import compute_root, hash_leaf
from protocol.spec.outer import compute_outer_leaf
from protocol.spec.params import DELTA_BLOCK_BYTES, DELTA_LEAF_BYTES
from protocol.spec.statements import compute_work_leaf, name_claim
from tests.rounds.chain import RoundChain
from tests.rounds.members import make_word

FANOUT_LEVELS = 4
CLAIM_DEPTH = 17
RATE_BITS = 0x3F000000
NAMES = ("W", "M")


def make_base(name: str) -> bytes:
    """A leaf of finite numbers."""
    noise = bytearray(make_noise(1024, "base", name))
    noise[3::4] = bytes(byte & 0xBF for byte in noise[3::4])
    return bytes(noise)


def make_delta(slot: int) -> bytes:
    """A leaf of a pseudo-gradient. From claim to claim scales rise by three bits, so nearly every sum rounds:
    in whichever order they come."""
    delta = bytearray(make_noise(DELTA_LEAF_BYTES, "delta", slot))
    delta[::DELTA_BLOCK_BYTES] = bytes([3 * slot]) * 4
    return bytes(delta)


class ContestPlay(BoundPlay):
    """A round whose merged root is right or wrong in one leaf."""

    is_right = True
    bases = tuple(grow(hash_leaf(make_base(name)), LEAF, DEPTH, name) for name in NAMES)
    roots = (bases[0][0], bases[1][0])

    # --- Claims ---------------------------------------------------------------------------------------------
    def make_claim(self, number: int, slot: int) -> bytes:
        """Its work leaf alone is known, and of that the delta's leaf."""
        delta_root, _ = grow(hash_leaf(make_delta(slot)), LEAF, DEPTH, "delta", slot)
        solver = self.seats[SOLVER][slot].address
        leaf = compute_work_leaf(self.domain, 0, solver, SEGMENTS, delta_root, make_word("carried", slot))
        return name_claim(grow(leaf, SEGMENTS + 1, CLAIM_DEPTH, "claim", slot)[0], SEGMENTS)

    def list_order(self) -> list[int]:
        """Slots in the order of the sum."""
        shards = deal_shards(self.rounds[0].beacon, self.case.solvers)
        return sorted(range(self.case.solvers), key=lambda slot: shards[slot])

    @property
    def inputs(self) -> bytes:
        """What proves the leaf: as `bringLeaf` takes it."""
        parts = [make_base(name) + b"".join(path) for name, (_, path) in zip(NAMES, self.bases, strict=True)]
        for slot in self.list_order():
            _, delta_path = grow(b"", LEAF, DEPTH, "delta", slot)
            _, claim_path = grow(b"", SEGMENTS + 1, CLAIM_DEPTH, "claim", slot)
            parts += [make_delta(slot), *delta_path, make_word("carried", slot), *claim_path]
        return b"".join(parts)

    # --- The root -------------------------------------------------------------------------------------------
    @cached_property
    def leaf(self) -> bytes:
        """The new W's, as its hash."""
        deltas = [make_delta(slot) for slot in self.list_order()]
        weights, momentum = (make_base(name) for name in NAMES)
        return hash_leaf(compute_outer_leaf(weights, momentum, deltas, RATE_BITS, RATE_BITS)[0])

    def list_groups(self) -> list[tuple[list[bytes], int]]:
        """Nodes of each answer from the root down, and which of them leads to the leaf."""
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
        """From the leaves upwards: the lowest group is of what is left over."""
        yield DEPTH % FANOUT_LEVELS or FANOUT_LEVELS
        yield from [FANOUT_LEVELS] * ((DEPTH - 1) // FANOUT_LEVELS)

    def make_root(self, number: int) -> bytes:
        """Of the nodes that answers show."""
        return hash_words("touchstone.outer", *self.list_groups()[0][0])


# --- Measuring ----------------------------------------------------------------------------------------------
def measure_contests(chain: RoundChain, solvers: int) -> dict[str, Any]:
    """Contests of a right root and of a wrong one, each down to its leaf."""
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
        answers.append(play.do(play.submitter, "Contests", "answer", play.task, contest, nodes).gas)
        sent = play.do(challenger, "Contests", "nameChild", play.task, contest, child, nodes)
        names.append(sent.gas)
    if play.is_right:
        last = play.do(play.submitter, "Contests", "bringLeaf", play.task, contest, play.inputs)
    else:
        play.chain.mine_to(require_event(sent, "ChildNamed")["clock_block"])
        last = play.do(challenger, "Contests", "endContest", play.task, contest)
    require_event(last, "ContestEnded", outcome=4 if play.is_right else 5)
    return {"contest": opened.gas, "answers": answers, "names": names, "last": last.gas}
