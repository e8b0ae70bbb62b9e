"""A step run again: the bits of training, the trace of a run that keeps everything, and what it opens."""

import pytest
import torch

from lab.benchmarks.setting import build_trace_tree
from protocol.compute.bounds.fault import find_buffer, open_buffer, open_demanded, prove_node, prove_outputs
from protocol.compute.bounds.trace import Retraced, retrace
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.step import Batch, TrainingState, advance, compute_scalars
from protocol.compute.program.task_program import build_program, describe_program
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import hash_leaf, is_valid_path, is_valid_range
from protocol.spec.params import ZERO_WORD
from protocol.spec.program import SMALL_LEAVES, Program, Role, leaf_bytes
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, compute_program_root, encode_head

BEACON = b"\5" * 32


@pytest.fixture
def batch(spec: TrainingSpec, corpus: Corpus) -> Batch:
    return get_batch(corpus, spec, BEACON, 0, 3)


@pytest.fixture
def retraced(spec: TrainingSpec, state: TrainingState, batch: Batch) -> Retraced:
    return retrace(state, spec, lambda _: batch, 3)


@pytest.fixture
def program(spec: TrainingSpec) -> Program:
    return build_program(describe_program(spec)).program


def test_retrace_ends_in_the_bits_of_training(
    spec: TrainingSpec, state: TrainingState, batch: Batch, retraced: Retraced
) -> None:
    stepped, _ = advance(state, batch, spec)
    for name in ("weights", "first_moment", "second_moment"):
        assert torch.equal(getattr(retraced.end, name), getattr(stepped, name))
    assert (retraced.end.local_step, retraced.end.global_step) == (stepped.local_step, stepped.global_step)


def test_retrace_hashes_what_an_interpreter_that_keeps_all_has(
    spec: TrainingSpec, state: TrainingState, batch: Batch, retraced: Retraced
) -> None:
    built = build_program(describe_program(spec))
    interpreter = Interpreter(built.program, built.constants, keeps_all=True)
    vectors = (state.weights, state.first_moment, state.second_moment)
    interpreter.run(vectors, *batch, compute_scalars(spec, state.local_step, state.global_step))
    expected = build_trace_tree(built.program, lambda buffer: interpreter.tensors[buffer].reshape(-1))
    assert retraced.tree.roots == expected.roots
    number = len(built.program.buffers) - 1
    for buffer in (0, 3, 5, number):
        assert retraced.tree.open_run(buffer, 0, 1) == expected.open_run(buffer, 0, 1)


def test_prove_outputs_leads_from_the_trace_to_the_new_state(program: Program, retraced: Retraced) -> None:
    tree, proof = retraced.tree, prove_outputs(retraced.tree)
    count = LEAVES_BEFORE_NODES + len(program.nodes)
    assert proof.head == encode_head(program)
    assert is_valid_path(compute_program_root(program), hash_leaf(proof.head), 0, count, proof.head_path)
    outputs = program.outputs
    places = (
        (outputs.weights, proof.weights_path),
        (outputs.first_moment, proof.first_moment_path),
        (outputs.second_moment, proof.second_moment_path),
    )
    for buffer, path in places:
        assert is_valid_path(tree.root, tree.roots[buffer], buffer, len(program.buffers), path)


def test_prove_node_is_under_the_program_s_root(program: Program) -> None:
    count = LEAVES_BEFORE_NODES + len(program.nodes)
    for number in (0, len(program.nodes) - 1):
        node = prove_node(program, number)
        index = LEAVES_BEFORE_NODES + number
        assert node.number == number
        assert is_valid_path(compute_program_root(program), hash_leaf(node.data), index, count, node.path)


@pytest.mark.parametrize("role", Role)
def test_open_buffer_shows_whole_leaves_under_the_trace(
    program: Program, retraced: Retraced, role: Role
) -> None:
    tree = retraced.tree
    buffer = next(n for n, one in enumerate(program.buffers) if one.role is role)
    size, length = program.buffers[buffer].size, leaf_bytes(program, buffer)
    opening = open_buffer(tree, buffer, 0, size)
    pieces = [opening.leaves[i : i + length] for i in range(0, len(opening.leaves), length)]
    assert len(pieces) == -(-4 * size // length) and len(pieces[-1]) == length
    leaves = [*map(hash_leaf, pieces)]
    assert is_valid_range(tree.roots[buffer], leaves, 0, len(pieces), opening.path)
    if role in SMALL_LEAVES:
        assert (opening.root, opening.root_path) == (ZERO_WORD, ())
    else:
        assert opening.root == tree.roots[buffer]
        assert is_valid_path(tree.root, opening.root, buffer, len(program.buffers), opening.root_path)


def test_open_demanded_cuts_the_last_leaf_of_a_buffer(program: Program, retraced: Retraced) -> None:
    buffer = find_buffer(program, 0, 0)
    last = (4 * program.buffers[buffer].size - 1) // leaf_bytes(program, buffer)
    opening = open_demanded(retraced.tree, 0, 0, last)
    assert len(opening.leaves) == leaf_bytes(program, buffer)
    assert is_valid_path(opening.root, hash_leaf(opening.leaves), last, last + 1, opening.path)
    with pytest.raises(InvalidInput, match="no such run"):
        open_demanded(retraced.tree, 0, 0, last + 1)


def test_find_buffer_knows_outputs_and_operands_only(program: Program) -> None:
    node = program.nodes[7]
    assert find_buffer(program, 7, 0) == node.output.buffer
    assert find_buffer(program, 7, len(node.operands)) == node.operands[-1].buffer
    with pytest.raises(InvalidInput, match="no such operand"):
        find_buffer(program, 7, len(node.operands) + 1)
