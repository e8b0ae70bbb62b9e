"""What a dispute is shown of a step: proofs open what the referee judges."""

import pytest

from protocol.compute.bounds.fault import (
    find_buffer,
    open_buffer,
    open_demanded,
    prove_node,
    prove_operation,
    prove_outputs,
)
from protocol.compute.bounds.trace import TraceTree, retrace
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.program.step import TrainingState
from protocol.compute.program.task_program import build_program, describe_program
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_data_root, hash_leaf, is_valid_path, is_valid_range
from protocol.spec.params import ZERO_WORD
from protocol.spec.program import INTEGER_ROLES, SMALL_LEAVES, Program, Role, leaf_bytes
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, compute_program_root, encode_head
from tests.protocol.compute.bounds.claimed_step import Claimant, make_claimant


@pytest.fixture
def claimant(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> Claimant:
    return make_claimant(state, corpus, spec)


def test_prove_operation_of_no_element_raises(claimant: Claimant) -> None:
    _, tree = claimant.claim()
    with pytest.raises(InvalidInput, match="no such element"):
        prove_operation(tree, 0, claimant.built.program.nodes[0].elements)


def test_constants_have_their_own_roots(claimant: Claimant) -> None:
    _, tree = claimant.claim()
    for number, values in claimant.built.constants.items():
        assert tree.roots[number] == compute_data_root(values.numpy().tobytes())


# --- What a step run again opens ----------------------------------------------------------------------------
@pytest.fixture
def program(spec: TrainingSpec) -> Program:
    return build_program(describe_program(spec)).program


@pytest.fixture
def tree(spec: TrainingSpec, state: TrainingState, corpus: Corpus) -> TraceTree:
    """The trace of one honest step."""
    batch = get_batch(corpus, spec, b"\5" * 32, 0, 3)
    return retrace(state, spec, lambda _: batch, 3).tree


def test_prove_outputs_leads_from_the_trace_to_the_new_state(program: Program, tree: TraceTree) -> None:
    proof = prove_outputs(tree)
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


@pytest.mark.parametrize("role", sorted(set(Role) - INTEGER_ROLES))
def test_open_buffer_shows_whole_leaves_under_the_trace(
    program: Program, tree: TraceTree, role: Role
) -> None:
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


def test_open_demanded_cuts_the_last_leaf_of_a_buffer(program: Program, tree: TraceTree) -> None:
    buffer = find_buffer(program, 0, 0)
    last = (4 * program.buffers[buffer].size - 1) // leaf_bytes(program, buffer)
    opening = open_demanded(tree, 0, 0, last)
    assert len(opening.leaves) == leaf_bytes(program, buffer)
    assert is_valid_path(opening.root, hash_leaf(opening.leaves), last, last + 1, opening.path)
    with pytest.raises(InvalidInput, match="no such run"):
        open_demanded(tree, 0, 0, last + 1)


def test_find_buffer_knows_outputs_and_operands_only(program: Program) -> None:
    node = program.nodes[7]
    assert find_buffer(program, 7, 0) == node.output.buffer
    assert find_buffer(program, 7, len(node.operands)) == node.operands[-1].buffer
    with pytest.raises(InvalidInput, match="no such operand"):
        find_buffer(program, 7, len(node.operands) + 1)
