"""The contract's part played by Python: what is shown has its place, and the referee judges nothing else."""

from collections.abc import Sequence
from typing import Any

from protocol.compute.fault import iterate_runs
from protocol.spec.containers import BufferOpening, NodeProof, StepContext
from protocol.spec.float32 import unpack_bits
from protocol.spec.merkle import hash_leaf, verify_path, verify_range
from protocol.spec.program import Program, Role, leaf_bytes, locate, unravel
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, encode_node
from protocol.spec.referee import FORMATS, judge_element

Run = tuple[int, int, int]


def judge_shown(
    program: Program,
    context: StepContext,
    shown: NodeProof,
    element: int,
    output: BufferOpening,
    operands: Sequence[BufferOpening],
) -> bool:
    """`Referee.judge`. Raises ProtocolFault where a proof does not hold."""
    node, facts = program.nodes[shown.number], context.facts
    number, leaves = LEAVES_BEFORE_NODES + shown.number, LEAVES_BEFORE_NODES + facts.program_nodes
    verify_path(facts.program_root, hash_leaf(shown.data), number, leaves, shown.path)
    assert shown.data == encode_node(program, node)
    run = (node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1)
    values = read_run(program, context, run, output)
    claimed = values[run[:2]]

    def get_index(buffer: int) -> Any:
        indices = (*unravel(element, node.output_sizes), *(0 for _ in node.reduced_sizes))
        place = locate(node.operands[0], indices)
        return {place: read_run(program, context, (buffer, place, 1), operands[0])[buffer, place]}

    for run, opening in zip(iterate_runs(node, element, get_index), operands, strict=True):
        values |= read_run(program, context, run, opening)
    numeric_format = list(FORMATS)[facts.numeric_format]
    return judge_element(node, element, lambda *place: values[place], claimed, numeric_format).is_fault


def read_run(
    program: Program, context: StepContext, run: Run, opening: BufferOpening
) -> dict[tuple[int, int], int]:
    """The proven bits of a run, by buffer and element."""
    buffer, first, count = run
    size, entry = leaf_bytes(program, buffer), program.buffers[buffer]
    leaves = [opening.leaves[i : i + size] for i in range(0, len(opening.leaves), size)]
    start, total = 4 * first // size, -(-4 * entry.size // size)
    root = find_root(program, context, buffer, opening)
    verify_range(root, list(map(hash_leaf, leaves)), start, total, opening.path)
    bits = unpack_bits(opening.leaves)
    return {(buffer, first + i): bits[first + i - start * size // 4] for i in range(count)}


def find_root(program: Program, context: StepContext, buffer: int, opening: BufferOpening) -> bytes:
    """Where the contract takes it from."""
    role, start = program.buffers[buffer].role, context.start
    states = {
        Role.WEIGHTS: start.weights_root,
        Role.FIRST_MOMENT: start.first_moment_root,
        Role.SECOND_MOMENT: start.second_moment_root,
        Role.CONSTANT: program.buffers[buffer].constant_root,
    }
    if role not in states:
        verify_path(context.trace_root, opening.root, buffer, len(program.buffers), opening.root_path)
    return states.get(role, opening.root)
