"""A program of training steps that the referee can judge, and one step of a claim with all that can be shown
of it.

12 buffers and 3 nodes. Node 0 doubles the first 300 weights: such numbers are exact, so any lie is beyond the
bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tests.kit.played_claims import STEPS, Model, PlayedClaim
from touchstone.protocol.compute.bounds.fault_proof import OperationFault, prove_operation
from touchstone.protocol.compute.bounds.step_openings import open_buffer, open_demanded, prove_outputs
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.spec.commitments import compute_step_root
from touchstone.protocol.spec.data_trees import compute_data_root, split_leaves
from touchstone.protocol.spec.merkle import compute_levels, compute_path, hash_leaf
from touchstone.protocol.spec.openings import BufferOpening, LeafProof, TraceProof
from touchstone.protocol.spec.program import Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_codec import compute_program_root
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.shard_draws import draw_sample_start, draw_shard
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import StepFacts

WEIGHTS, TOKENS, LABELS, SCALARS, CONSTANT, TENSOR = 0, 3, 4, 5, 6, 7
"""Buffers."""
STEP_MODEL = Model(512, is_filled=True)
ROW_TOKENS, ROWS, TOKEN_COUNT, DATASET_TOKENS, SCALAR_COUNT = 80, 2, 2_000, 2_500, 200
VOCABULARY = 40_000
"""Two fifths of the dataset's entries are none of it."""
DOUBLED = 300
TWO = np.array([2, 0, 0, 0], np.float32)
DATASET = np.array([(7919 * i + 13) % 65_521 for i in range(DATASET_TOKENS)], "<u2")
Lie = tuple[int, int, int]
"""Buffer, element, what is added to the element's bits."""


def _access(buffer: int, *strides: int) -> Access:
    return Access(buffer, 0, strides)


PROGRAM = Program(
    128,
    (
        Buffer(Role.WEIGHTS, 512), Buffer(Role.FIRST_MOMENT, 512), Buffer(Role.SECOND_MOMENT, 512),
        Buffer(Role.TOKENS, ROWS * ROW_TOKENS), Buffer(Role.LABELS, ROWS * ROW_TOKENS),
        Buffer(Role.SCALARS, 3), Buffer(Role.CONSTANT, 4, compute_data_root(TWO.tobytes())),
        Buffer(Role.TENSOR, DOUBLED), *(Buffer(Role.TENSOR, 512),) * 3, Buffer(Role.TENSOR, 1),
    ),
    (
        Node(Operation.MULTIPLY, (DOUBLED,), 0, _access(TENSOR, 1), (_access(0, 1), _access(CONSTANT, 0))),
        Node(Operation.GATHER, (160,), 0, _access(TENSOR, 1), (_access(TOKENS, 1), _access(WEIGHTS, 1))),
        Node(Operation.SUM, (DOUBLED,), 1, _access(11), (_access(2, 1),)),
    ),
    Outputs(11, 8, 9, 10),
)  # fmt: skip


def get_scalar(index: int, which: int) -> int:
    """Returns the bits of a scalar of a step."""
    return 0x3A000000 + 0x10000 * which + index


def _make_scalars() -> list[bytes]:
    rows = ([get_scalar(index, which) for which in range(3)] for index in range(SCALAR_COUNT))
    return [np.array(row, "<u4").tobytes() for row in rows]


SCALAR_LEAVES = _make_scalars()
FACTS = StepFacts(
    compute_program_root(PROGRAM), compute_data_root(DATASET.tobytes()),
    compute_levels([hash_leaf(leaf) for leaf in SCALAR_LEAVES])[-1][0], len(PROGRAM.nodes),
    len(PROGRAM.buffers), 0, ROWS, ROW_TOKENS, 2, TOKEN_COUNT, DATASET.nbytes, SCALAR_COUNT, VOCABULARY,
)  # fmt: skip
STEP_ROOT = compute_step_root(FACTS)


def _open(leaves: Sequence[bytes], index: int) -> LeafProof:
    levels = compute_levels([hash_leaf(leaf) for leaf in leaves])
    return LeafProof(leaves[index], tuple(compute_path(levels, index)))


def open_scalars(index: int) -> LeafProof:
    """Returns the scalars of a step with their path."""
    return _open(SCALAR_LEAVES, index)


def open_token(index: int) -> LeafProof:
    """Returns the dataset's leaf that has a token."""
    return _open(split_leaves(DATASET.tobytes()), 2 * index // 1024)


@dataclass(frozen=True)
class ToyStep:
    """A step of a segment. beacon: of the round; solvers: so many are in its pool; lie: in the trace."""

    claim: PlayedClaim
    beacon: bytes
    slot: int
    solvers: int
    segment: int
    step: int
    lie: Lie | None = None

    @property
    def local(self) -> int:
        """Steps of the round before this one."""
        return self.segment * STEPS + self.step

    @property
    def start(self) -> StateHeader:
        """The state before it."""
        return self.claim.make_state(self.local)

    @property
    def end(self) -> StateHeader:
        """The state after it."""
        return self.claim.make_state(self.local + 1)

    def find_token(self, buffer: int, position: int) -> int:
        """Returns where in the dataset an element of tokens or labels stands."""
        shard, (row, column) = draw_shard(self.beacon, self.slot, self.solvers), divmod(position, ROW_TOKENS)
        first = draw_sample_start(self.beacon, shard, self.local, row, TOKEN_COUNT, ROW_TOKENS)
        return first + column + (buffer == LABELS)

    def find_outside(self, buffer: int) -> tuple[int, int]:
        """Returns the first position whose entry is none of the vocabulary, and the entry."""
        entries = ((i, int(DATASET[self.find_token(buffer, i)])) for i in range(ROWS * ROW_TOKENS))
        return next((position, entry) for position, entry in entries if entry >= VOCABULARY)

    def get(self, buffer: int) -> torch.Tensor:
        """Returns a buffer of the trace, with the lie in it."""
        numbers = self._compute(buffer)
        if self.lie is not None and self.lie[0] == buffer:
            numbers = numbers.copy()
            numbers[self.lie[1]] += self.lie[2]
        if buffer in (TOKENS, LABELS):
            return torch.from_numpy(numbers.astype(np.int64))
        return torch.from_numpy(numbers.astype(np.uint32).view(np.float32))

    def _compute(self, buffer: int) -> np.ndarray:
        if buffer < TOKENS or 8 <= buffer < 11:
            step = self.local + (buffer >= 8)
            leaves = self.claim.list_leaves(buffer % 8, step)
            return np.frombuffer(b"".join(leaves), np.uint32)[:512]
        if buffer in (TOKENS, LABELS):
            places = [self.find_token(buffer, i) for i in range(ROWS * ROW_TOKENS)]
            entries = DATASET[places].astype(np.uint32)
            return np.where(entries < VOCABULARY, entries, 0)
        if buffer == SCALARS:
            clocks = (self.start.global_step, self.start.local_step, self.start.local_step)
            return np.array([get_scalar(clock, which) for which, clock in enumerate(clocks)], np.uint32)
        if buffer == CONSTANT:
            return TWO.view(np.uint32)
        if buffer == TENSOR:
            return self._compute(WEIGHTS)[:DOUBLED] + 0x800000
        return np.array([0x3B000000], np.uint32)

    @cached_property
    def tree(self) -> TraceTree:
        """The tree of its trace."""
        roots = [build_buffer_tree(PROGRAM, self.get, buffer).root for buffer in range(len(PROGRAM.buffers))]
        return TraceTree(PROGRAM, compute_levels(roots), self.get)

    @property
    def outputs(self) -> TraceProof:
        """Where its trace has the state after it."""
        return prove_outputs(self.tree)

    def open_demanded(self, node: int, place: int, leaf: int) -> BufferOpening:
        """Returns a leaf of the buffer at a place of a node."""
        return open_demanded(self.tree, node, place, leaf)

    def open_element(self, buffer: int, position: int) -> BufferOpening:
        """Returns the leaf that holds an element of a buffer."""
        return open_buffer(self.tree, buffer, position, 1)

    def prove(self, element: int) -> OperationFault:
        """Returns what the referee reads for an element of node 0."""
        return prove_operation(self.tree, 0, element)

    def open_datum(self, buffer: int, position: int) -> LeafProof:
        """Returns the datum that an element must be."""
        if buffer == SCALARS:
            return open_scalars(self.start.local_step if position else self.start.global_step)
        return open_token(self.find_token(buffer, position))
