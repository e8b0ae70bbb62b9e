"""Roots that the contracts can compute a leaf of, and the nodes and inputs that a contest of one shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from tests.kit.played_claims import ZEROS, Model, PlayedClaim, open_leaf
from touchstone.protocol.compute.outer.nesterov_step import begin_outer, merge
from touchstone.protocol.spec.contest_tree import compute_nodes_below
from touchstone.protocol.spec.data_trees import split_leaves
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.merkle import Levels, compute_levels, hash_leaf

LEARNING_RATE = MOMENTUM = 0x3F000000
"""Bits of the outer step's two numbers."""
TensorLeaf = tuple[int, int]
"""0 weights or 1 momentum, and a leaf."""


@dataclass(frozen=True)
class OuterTrees:
    """The trees of weights and momentum behind a root."""

    levels: tuple[Levels, Levels]

    @property
    def roots(self) -> tuple[bytes, bytes]:
        """Roots of both."""
        return self.levels[0][-1][0], self.levels[1][-1][0]

    @property
    def root(self) -> bytes:
        """What is posted."""
        return hash_words("touchstone.outer", *self.roots)

    def list_nodes(self, children: Sequence[int]) -> tuple[bytes, ...]:
        """Returns the nodes that an answer shows once these children were named."""
        if not children:
            return self.roots
        levels, level, index = self.levels[children[0]], 0, 0
        for child in children[1:]:
            index = index * len(compute_nodes_below(levels, level, index)) + child
            level = min(level + 4, len(levels) - 1)
        return tuple(compute_nodes_below(levels, level, index))


def make_trees(claims: Sequence[PlayedClaim], wrong: TensorLeaf | None = None) -> OuterTrees:
    """Returns the right trees over claims in the order of their shards. wrong: a leaf that is another, or one
    behind the last, where no leaf is."""
    hashes = _hash_leaves(claims[0].model, tuple(claim.deltas for claim in claims))
    made = [list(leaves) for leaves in hashes]
    if wrong is not None:
        tensor, leaf = wrong
        made[tensor][leaf : leaf + 1] = [hash_leaf(b"another leaf")]
    return OuterTrees((compute_levels(made[0]), compute_levels(made[1])))


@cache
def _hash_leaves(model: Model, deltas: tuple[tuple[bytes, ...], ...]) -> tuple[list[bytes], list[bytes]]:
    weights = torch.frombuffer(bytearray(b"".join(model.weights)), dtype=torch.float32)
    state = begin_outer(weights[: model.parameters])
    merged = merge(state, [b"".join(leaves) for leaves in deltas], LEARNING_RATE, MOMENTUM)
    tensors = (merged.weights, merged.momentum)
    made = [[hash_leaf(leaf) for leaf in split_leaves(tensor.numpy().tobytes())] for tensor in tensors]
    return made[0], made[1]


def write_inputs(model: Model, claims: Sequence[PlayedClaim], index: int) -> bytes:
    """Returns what a leaf is computed from: weights and momentum of the base, then a leaf of each claim."""
    base = (open_leaf(model.weights, index), open_leaf((ZEROS,) * model.leaves, index))
    inputs = b"".join(one.data + b"".join(one.path) for one in base)
    return inputs + b"".join(write_claim(claim, index) for claim in claims)


def write_claim(claim: PlayedClaim, index: int) -> bytes:
    """Returns what is shown of a claim: a leaf of its pseudo-gradient, and its work leaf."""
    leaf, work = open_leaf(claim.deltas, index), claim.work
    return leaf.data + b"".join(leaf.path) + work.carried_root + b"".join(work.path)
