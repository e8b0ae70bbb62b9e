"""The training step of the tiny world: a program of five nodes, its data, the trace of a made-up step, and
whatever can be opened of it.

Only buffer SCALED is what its node computes; W, m and v around the step are whatever the world says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from protocol.spec.containers import (
    BufferOpening,
    LeafProof,
    NodeProof,
    StateHeader,
    StepFacts,
    TraceProof,
)
from protocol.spec.draw import draw_sample_start
from protocol.spec.float32 import bits_to_float, float_to_bits, pack_bits
from protocol.spec.merkle import (
    Levels,
    compute_data_levels,
    compute_levels,
    compute_path,
    compute_set_path,
    hash_leaf,
    split_leaves,
)
from protocol.spec.params import LEAF_BYTES, ZERO_WORD
from protocol.spec.program import Access, Buffer, Node, Operation, Outputs, Program, Role, leaf_bytes, locate
from protocol.spec.program_codec import (
    LEAVES_BEFORE_NODES,
    compute_program_root,
    encode_head,
    open_program_leaf,
)
from protocol.spec.round import RoundState, get_shard

PARAMETERS = 512
ROWS, ROW_TOKENS = 2, 32
TOKEN_COUNT = 3_000
DATASET = bytes((i * i + i // 7) % 251 for i in range(4_000))
STEPS = 8
"""of the whole task: two rounds of four."""
LEARNING_RATE = 2.0**-7
CONSTANT_DATA = pack_bits([float_to_bits(number) for number in (0.0, 1.0, 2.0, 3.0)])
WEIGHTS, FIRST_MOMENT, SECOND_MOMENT, TOKENS, LABELS, SCALARS, CONSTANT, LOSS = range(8)
NEW_WEIGHTS, NEW_FIRST, NEW_SECOND, SCALED = range(8, 12)
SCALED_SIZE = 200


def _make_program() -> Program:
    roles = [role for role in Role if role < Role.CONSTANT]
    sizes = [PARAMETERS] * 3 + [ROWS * ROW_TOKENS] * 2 + [3]
    buffers = [Buffer(role, size) for role, size in zip(roles, sizes, strict=True)]
    buffers.append(Buffer(Role.CONSTANT, 4, compute_data_levels(CONSTANT_DATA)[-1][0]))
    buffers += [Buffer(Role.TENSOR, size) for size in (1, PARAMETERS, PARAMETERS, PARAMETERS, SCALED_SIZE)]

    def node(operation: Operation, size: int, output: int, *operands: Access) -> Node:
        return Node(operation, (size,), 0, Access(output, 0, (1,)), operands)

    def whole(buffer: int) -> Access:
        return Access(buffer, 0, (1,))

    nodes = (
        node(Operation.MULTIPLY, SCALED_SIZE, SCALED, whole(WEIGHTS), Access(SCALARS, 0, (0,))),
        node(Operation.ADD, PARAMETERS, NEW_WEIGHTS, whole(WEIGHTS), whole(FIRST_MOMENT)),
        node(Operation.ADD, PARAMETERS, NEW_FIRST, Access(CONSTANT, 0, (0,)), whole(FIRST_MOMENT)),
        node(Operation.COPY, PARAMETERS, NEW_SECOND, whole(SECOND_MOMENT)),
        node(Operation.COPY, 1, LOSS, whole(SCALED)),
    )
    return Program(128, tuple(buffers), nodes, Outputs(LOSS, NEW_WEIGHTS, NEW_FIRST, NEW_SECOND))


PROGRAM = _make_program()


@cache
def list_scalars() -> tuple[bytes, ...]:
    """Learning rate and bias corrections of every step of the task."""
    return tuple(
        pack_bits([float_to_bits(number) for number in (LEARNING_RATE, 1 - 2.0**-step, 1 - 4.0**-step)])
        for step in range(1, STEPS + 1)
    )


def make_facts() -> StepFacts:
    """The facts of the tiny world's steps."""
    return StepFacts(
        program_root=compute_program_root(PROGRAM),
        dataset_root=compute_data_levels(DATASET)[-1][0],
        scalars_root=compute_levels([*map(hash_leaf, list_scalars())])[-1][0],
        program_nodes=len(PROGRAM.nodes),
        program_buffers=len(PROGRAM.buffers),
        numeric_format=0,
        sequences_per_step=ROWS,
        sequence_tokens=ROW_TOKENS,
        token_bytes=1,
        token_count=TOKEN_COUNT,
        dataset_bytes=len(DATASET),
        scalar_count=STEPS,
    )


def prove_node(number: int) -> NodeProof:
    """A node with its path."""
    data, path = open_program_leaf(PROGRAM, LEAVES_BEFORE_NODES + number)
    return NodeProof(number, data, tuple(path))


def prove_scalars(step: int) -> LeafProof:
    """The scalars of a step of the task."""
    levels = compute_levels([*map(hash_leaf, list_scalars())])
    return LeafProof(list_scalars()[step], tuple(compute_path(levels, step)))


@dataclass(frozen=True)
class DealtData:
    """What the beacon dealt to a slot for one inner step of the round."""

    state: RoundState
    inner_step: int
    slot: int = 0

    def find_token(self, position: int, is_label: bool) -> int:
        """Where in the dataset the token (or label) of a position of the batch lies."""
        row, column = divmod(position, ROW_TOKENS)
        beacon = self.state.beacon
        assert beacon is not None
        place = (get_shard(self.state, self.slot), self.inner_step, row, TOKEN_COUNT, ROW_TOKENS)
        return draw_sample_start(beacon, *place) + column + is_label

    def prove_token(self, position: int, is_label: bool) -> LeafProof:
        """The leaf of the dataset that has it."""
        leaf = self.find_token(position, is_label) // LEAF_BYTES
        return LeafProof(split_leaves(DATASET)[leaf], tuple(compute_path(compute_data_levels(DATASET), leaf)))


@dataclass(frozen=True)
class StepTrace:
    """The trace of one step. tensors: leaves of W, m, v before and after the step, as they lie in the trace
    (buffers 0 to 2 and 8 to 10); lies: elements that are not what they should be, by buffer."""

    data: DealtData
    start: StateHeader
    end: StateHeader
    tensors: dict[int, list[bytes]]
    lies: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    @cached_property
    def leaves(self) -> list[list[bytes]]:
        """The leaves of every buffer."""
        return [self._cut(number) for number in range(len(PROGRAM.buffers))]

    def _cut(self, number: int) -> list[bytes]:
        if number in self.tensors:
            return self.tensors[number]
        bits = [self._make_element(number, i) for i in range(PROGRAM.buffers[number].size)]
        raw, size = pack_bits(bits), leaf_bytes(PROGRAM, number)
        return [raw[start : start + size].ljust(size, b"\0") for start in range(0, len(raw), size)]

    def _make_element(self, buffer: int, i: int) -> int:
        lie = (buffer, i) in self.lies
        if buffer in (TOKENS, LABELS):
            return DATASET[self.data.find_token(i, buffer == LABELS)] + lie
        if buffer == SCALARS:
            return int.from_bytes(list_scalars()[self.start.local_step][4 * i : 4 * i + 4], "little") + lie
        if buffer == CONSTANT:
            return int.from_bytes(CONSTANT_DATA[4 * i : 4 * i + 4], "little")
        weight = int.from_bytes(self.tensors[WEIGHTS][i // 256][4 * (i % 256) :][:4], "little")
        # A power of two: the product is exact.
        return float_to_bits(bits_to_float(weight) * LEARNING_RATE) + (lie << 20)

    @cached_property
    def levels(self) -> Levels:
        """The tree over the roots of all buffers."""
        return compute_levels([self._grow(number)[-1][0] for number in range(len(self.leaves))])

    @property
    def root(self) -> bytes:
        """The trace's root."""
        return self.levels[-1][0]

    def _grow(self, buffer: int) -> Levels:
        return compute_levels([*map(hash_leaf, self.leaves[buffer])])

    def prove_outputs(self) -> TraceProof:
        """That the trace ends in the state after the step."""
        _, path = open_program_leaf(PROGRAM, 0)
        paths = (tuple(compute_path(self.levels, n)) for n in (NEW_WEIGHTS, NEW_FIRST, NEW_SECOND))
        return TraceProof(encode_head(PROGRAM), tuple(path), *paths)

    def open_leaf(self, buffer: int, leaf: int) -> BufferOpening:
        """One leaf of a buffer; W, m, v of the start and constants need no root."""
        data, path = self.leaves[buffer][leaf], tuple(compute_path(self._grow(buffer), leaf))
        if buffer in (WEIGHTS, FIRST_MOMENT, SECOND_MOMENT, CONSTANT):
            return BufferOpening(ZERO_WORD, (), data, path)
        return BufferOpening(self.levels[0][buffer], tuple(compute_path(self.levels, buffer)), data, path)

    def open_place(self, node: int, place: int, leaf: int) -> BufferOpening:
        """One leaf of the buffer at a place of a node: 0 its output, 1 and up its operands."""
        return self.open_leaf(list_accesses(node)[place].buffer, leaf)

    def open_element(self, node: int, element: int) -> bytes:
        """The leaves of the output and the operands of one element with their siblings, and those that the
        roots of these buffers need in the trace."""
        shown, traced = b"", set()
        for access in list_accesses(node):
            leaf = 4 * locate(access, (element,)) // leaf_bytes(PROGRAM, access.buffer)
            opening = self.open_leaf(access.buffer, leaf)
            shown += b"".join((opening.leaves, *opening.path))
            if opening.root != ZERO_WORD:
                traced.add(access.buffer)
        return shown + b"".join(compute_set_path(self.levels, sorted(traced)))


def list_accesses(node: int) -> Sequence[Access]:
    """Output and operands of a node."""
    return (PROGRAM.nodes[node].output, *PROGRAM.nodes[node].operands)
