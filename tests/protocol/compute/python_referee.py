"""The contract's part played by Python: what is shown has its place, and the referee judges nothing else."""

from dataclasses import dataclass, field
from typing import Any

from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.float32 import unpack_bits
from touchstone.protocol.spec.merkle import compute_depth, hash_leaf, verify_path
from touchstone.protocol.spec.merkle_ranges import fold_range
from touchstone.protocol.spec.merkle_sets import is_valid_set
from touchstone.protocol.spec.openings import NodeProof
from touchstone.protocol.spec.params import FORMAT_NUMBERS
from touchstone.protocol.spec.program import Program, Role, leaf_bytes
from touchstone.protocol.spec.program_addressing import iterate_runs, locate, unravel
from touchstone.protocol.spec.program_codec import LEAVES_BEFORE_NODES, encode_node
from touchstone.protocol.spec.referee import judge_element
from touchstone.protocol.spec.task_spec import StepContext

Run = tuple[int, int, int]
WORD_BYTES = 32


def judge_shown(
    program: Program, context: StepContext, shown: NodeProof, element: int, openings: bytes
) -> bool:
    """`Referee.judge`. Raises ProtocolFault where a proof does not hold."""
    node, facts = program.nodes[shown.number], context.facts
    number, leaves = LEAVES_BEFORE_NODES + shown.number, LEAVES_BEFORE_NODES + facts.program_nodes
    verify_path(facts.program_root, hash_leaf(shown.data), number, leaves, shown.path)
    assert shown.data == encode_node(program, node)
    reader = Reader(program, context, openings)
    run = (node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1)
    values = reader.read(run)
    claimed = values[run[:2]]

    def get_index(buffer: int) -> Any:
        indices = (*unravel(element, node.output_sizes), *(0 for _ in node.reduced_sizes))
        place = locate(node.operands[0], indices)
        ahead = Reader(program, context, openings, reader.place)
        return {place: ahead.read((buffer, place, 1))[buffer, place]}

    for run in iterate_runs(node, element, get_index):
        values |= reader.read(run)
    reader.finish()
    assert facts.numeric_format == FORMAT_NUMBERS["float32"]
    return judge_element(node, element, lambda *place: values[place], claimed).is_fault


@dataclass
class Reader:
    """What is shown of an element, run by run."""

    program: Program
    context: StepContext
    openings: bytes
    place: int = 0
    traced: dict[int, bytes] = field(default_factory=dict)

    def read(self, run: Run) -> dict[tuple[int, int], int]:
        """The bits of a run, by buffer and element."""
        buffer, first, count = run
        size = leaf_bytes(self.program, buffer)
        start, stop = 4 * first // size, -(-4 * (first + count) // size)
        depth = compute_depth(-(-4 * self.program.buffers[buffer].size // size))
        leaves = [self._take(size) for _ in range(start, stop)]
        path = [self._take(WORD_BYTES) for _ in range(count_siblings(start, stop - 1, depth))]
        root = fold_range([*map(hash_leaf, leaves)], start, depth, path)
        assert root is not None
        self._place_root(buffer, root)
        bits = unpack_bits(b"".join(leaves))
        return {(buffer, first + i): bits[first + i - start * size // 4] for i in range(count)}

    def finish(self) -> None:
        """All roots stand in the trace, and nothing else is shown."""
        rest = self.openings[self.place :]
        path = [rest[i : i + WORD_BYTES] for i in range(0, len(rest), WORD_BYTES)]
        count = len(self.program.buffers)
        if self.traced:
            require(is_valid_set(self.context.trace_root, self.traced, count, path), "the trace's")
        else:
            require(not path, "no more than the runs")

    def _take(self, size: int) -> bytes:
        self.place += size
        require(self.place <= len(self.openings), "as long as the node says")
        return self.openings[self.place - size : self.place]

    def _place_root(self, buffer: int, root: bytes) -> None:
        role, start = self.program.buffers[buffer].role, self.context.start
        known = {
            Role.WEIGHTS: start.weights_root,
            Role.FIRST_MOMENT: start.first_moment_root,
            Role.SECOND_MOMENT: start.second_moment_root,
            Role.CONSTANT: self.program.buffers[buffer].constant_root,
        }
        if role in known:
            require(root == known[role], "the state's or the program's")
        else:
            require(self.traced.setdefault(buffer, root) == root, "one root for each buffer")


def count_siblings(first: int, last: int, depth: int) -> int:
    """As many as `merkle_ranges.compute_range_path` gives."""
    count = 0
    for _ in range(depth):
        count += (first & 1) + (not last & 1)
        first, last = first >> 1, last >> 1
    return count


def require(holds: bool, expected: str) -> None:
    """Raises ProtocolFault unless it holds."""
    if not holds:
        raise ProtocolFault(what="a proof does not hold", expected=expected, actual="other", remedy="Refuse.")
