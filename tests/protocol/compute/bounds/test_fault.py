"""What a dispute is shown of a step: proofs open what the referee judges."""

import random
from collections.abc import Iterator
from functools import partial

import pytest
from torch import Tensor

from tests.protocol.compute.bounds.claimed_step import Claimant, make_claimant
from tests.protocol.compute.bounds.exact_trace import Step, change, fetch_nothing, record_step
from tests.protocol.compute.conftest import build_tiny_training
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds.exact_fault_finder import ExactFaultFinder, find_writer
from touchstone.protocol.compute.bounds.fault_proof import (
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
    prove_operation,
)
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.bounds.step_openings import (
    find_buffer,
    open_buffer,
    open_demanded,
    prove_node,
    prove_outputs,
)
from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.exact.exact_kernels import ExactKernels
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import hash_leaf, is_valid_path
from touchstone.protocol.spec.merkle_ranges import is_valid_range
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.program import (
    INDEX_ROLES,
    INTEGER_ROLES,
    SMALL_LEAVES,
    Program,
    Role,
    leaf_bytes,
)
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_codec import LEAVES_BEFORE_NODES, compute_program_root, encode_head
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec


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


# What a step run again opens
@pytest.fixture
def program(spec: TrainingSpec) -> Program:
    return get_program(spec).program


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


FORMAT = "exact15"


@pytest.fixture
def step(corpus: Corpus, state: TrainingState) -> Step:
    return record_step(build_tiny_training(numeric_format=FORMAT), corpus, state)


def change_one(buffer: int, element: int, tensors: dict[int, Tensor]) -> None:
    change(tensors[buffer], element)


def list_samples(program: Program) -> Iterator[tuple[int, int]]:
    """For each kind of operation some nodes, and an element of each."""
    chance = random.Random(2)
    for operation in Operation:
        numbers = [n for n, node in enumerate(program.nodes) if node.operation is operation]
        for number in chance.sample(numbers, min(1, len(numbers))):
            yield number, chance.randrange(program.nodes[number].elements)


def test_one_changed_bit_of_any_operation_is_proven_by_its_element(step: Step) -> None:
    program, kinds = step.built.program, set()
    for number, element in list_samples(program):
        node = program.nodes[number]
        at = locate(node.output, unravel(element, node.output_sizes))
        trace = step.claim(partial(change_one, node.output.buffer, at))
        found = step.find(trace)
        assert found == prove_operation(trace.tree, number, element), (number, node.operation.name)
        assert len(trace.shown) == 1
        kinds.add(node.operation)
    assert kinds == set(Operation) - {Operation.PRODUCT_SUM}


def test_the_first_wrong_node_is_proven_whatever_follows_from_it(step: Step) -> None:
    """A claimant that computes on from a wrong element differs in all that depends on it."""
    program = step.built.program
    number = len(program.nodes) // 3
    buffer = program.nodes[number].output.buffer
    last = compute_lifetimes(program)[buffer].written

    def lie(tensors: dict[int, Tensor]) -> None:
        change(tensors[buffer], 0)
        for later in range(last + 1, len(program.nodes)):
            change(tensors[program.nodes[later].output.buffer], 0)

    found = step.find(step.claim(lie))
    assert isinstance(found, OperationFault)
    assert program.nodes[found.node.number].output.buffer == buffer


@pytest.mark.parametrize(("buffer", "element"), [(3, 7), (4, 0), (5, 1)])
def test_data_that_are_not_the_tasks_are_proven_as_an_input(step: Step, buffer: int, element: int) -> None:
    trace = step.claim(lambda tensors: change(tensors[buffer], element))
    found = step.find(trace)
    assert isinstance(found, InputFault) and (found.buffer, found.element) == (buffer, element)
    assert found.opening.root == trace.tree.roots[buffer]


def test_the_own_trace_has_no_fault(step: Step) -> None:
    assert step.find(step.claim(lambda tensors: None)) is None


def test_a_search_shows_each_quantized_buffer_once(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them for each buffer took minutes for a million parameters, and days for a hundred."""
    shown: list[int] = []
    show = ExactKernels.show

    def count(kernels: ExactKernels, buffer: int, memory: Tensor) -> Tensor:
        shown.append(buffer)
        return show(kernels, buffer, memory)

    trace = step.claim(lambda tensors: None)
    monkeypatch.setattr(ExactKernels, "show", count)
    assert step.find(trace) is None
    quantized = [n for n, buffer in enumerate(step.built.program.buffers) if buffer.role in INTEGER_ROLES]
    assert set(quantized) <= set(shown) and len(shown) <= 2 * len(step.built.program.buffers)


def test_a_trace_of_another_state_or_program_is_refused(step: Step) -> None:
    with pytest.raises(InvalidInput, match="another state"):
        step.find(step.claim(lambda tensors: change(tensors[1], 3)))
    finder, roots = ExactFaultFinder(step.built, FORMAT), step.claim(lambda tensors: None).tree.roots
    with pytest.raises(InvalidInput, match="another program"):
        finder.find(step.vectors, step.batch, step.scalars, ClaimedTrace(roots[:-1], fetch_nothing))


def test_a_leaf_that_differs_in_its_padding_alone_is_refused(step: Step) -> None:
    program = step.built.program
    buffer = program.outputs.loss
    trace = step.claim(lambda tensors: change(tensors[buffer], 0))

    def pad(number: int, own: ByteTree) -> ClaimedLeaf:
        leaf, path = own.open_leaf(0)
        return ClaimedLeaf(0, leaf[:-1] + b"\1", path)

    finder = ExactFaultFinder(step.built, FORMAT)
    with pytest.raises(InvalidInput, match="padded"):
        finder.find(
            step.vectors,
            step.batch,
            step.scalars,
            ClaimedTrace(trace.tree.roots, fetch_nothing, find_leaf=pad),
        )


@pytest.mark.parametrize("numeric_format", ["exact8", "exact20"])
def test_no_node_reads_a_buffer_before_all_of_it_is_there(numeric_format: str) -> None:
    """A proof takes the operands of an element from the own trace: they have roots before it is computed."""
    program = get_program(build_tiny_training(numeric_format=numeric_format)).program
    lifetimes = compute_lifetimes(program)
    for number, node in enumerate(program.nodes):
        for operand in node.operands:
            life = lifetimes.get(operand.buffer)
            assert life is None or life.written < number


def test_each_element_has_its_writer(step: Step) -> None:
    program, chance = step.built.program, random.Random(3)
    for number, node in enumerate(program.nodes):
        if program.buffers[node.output.buffer].role in INDEX_ROLES:
            continue
        element = chance.randrange(node.elements)
        at = locate(node.output, unravel(element, node.output_sizes))
        assert find_writer(program, node.output.buffer, at) == (number, element)
