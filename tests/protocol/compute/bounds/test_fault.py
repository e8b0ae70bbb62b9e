"""A false step is found, whatever it is, with little fetched; and the proof opens what the referee judges."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from protocol.compute.bounds.fault import (
    ClaimedTrace,
    FaultFinder,
    InputFault,
    OperationFault,
    Vectors,
    find_buffer,
    open_buffer,
    open_demanded,
    prove_node,
    prove_operation,
    prove_outputs,
)
from protocol.compute.bounds.trace import TraceTree, retrace
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.step import Batch, TrainingState, compute_scalars
from protocol.compute.program.task_program import BuiltProgram, build_program, describe_program
from protocol.spec.containers import StateHeader, StepContext, StepFacts, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_data_root, hash_leaf, is_valid_path, is_valid_range, verify_path
from protocol.spec.params import ZERO_WORD
from protocol.spec.program import INTEGER_ROLES, SMALL_LEAVES, Operation, Program, Role, leaf_bytes
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, compute_program_root, encode_head
from tests.protocol.compute.python_referee import judge_shown
from tests.training_setting import build_trace_tree

Change = Callable[[int, dict[int, Tensor]], None]
"""Told of each node when it has been computed, with all tensors: may change its output."""


@dataclass
class Claimant:
    """Runs a step, with a change on the way, and serves its trace."""

    built: BuiltProgram
    vectors: Vectors
    batch: Batch
    scalars: Tensor
    fetched: list[int] = field(default_factory=list)

    def claim(self, change: Change = lambda number, tensors: None) -> tuple[ClaimedTrace, TraceTree]:
        """The claimed trace, and its tree."""
        interpreter = Interpreter(self.built.program, self.built.constants, keeps_all=True)
        for number in interpreter.iterate(self.vectors, *self.batch, self.scalars):
            change(number, dict(interpreter.tensors))
        tensors = {number: values.clone() for number, values in interpreter.tensors.items()}
        tree = build_trace_tree(self.built.program, tensors.__getitem__)

        def fetch(buffer: int) -> Tensor:
            self.fetched.append(buffer)
            return tensors[buffer]

        return ClaimedTrace(tree.roots, fetch), tree


@pytest.fixture
def claimant(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> Claimant:
    built = build_program(describe_program(spec))
    vectors = (state.weights, state.first_moment, state.second_moment)
    return Claimant(built, vectors, get_batch(corpus, spec, bytes(32), 0, 0), compute_scalars(spec, 0, 0))


def find(claimant: Claimant, claimed: ClaimedTrace) -> OperationFault | InputFault | None:
    finder = FaultFinder(claimant.built)
    return finder.find(claimant.vectors, claimant.batch, claimant.scalars, claimed)


def spoil(built: BuiltProgram, number: int) -> Change:
    """Node `number` errs in its last element, by far."""
    node = built.program.nodes[number]

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        if done == number:
            output = tensors[node.output.buffer]
            place = node.output.offset + sum(
                (size - 1) * stride
                for size, stride in zip(node.output_sizes, node.output.strides, strict=True)
            )
            output[place] = output[place] * 1.5 + 0.25

    return change


def list_node_of_each_kind(built: BuiltProgram) -> Iterator[int]:
    """The last node of each kind of operation: most of the step lies before it."""
    yield from {node.operation: number for number, node in enumerate(built.program.nodes)}.values()


def test_find_of_an_honest_step_finds_nothing_and_fetches_nothing(claimant: Claimant) -> None:
    claimed, _ = claimant.claim()
    assert find(claimant, claimed) is None
    assert not claimant.fetched


def test_find_names_the_element_of_any_kind_and_fetches_little(claimant: Claimant) -> None:
    program = claimant.built.program
    for number in list_node_of_each_kind(claimant.built):
        claimant.fetched.clear()
        claimed, tree = claimant.claim(spoil(claimant.built, number))
        fault, node = find(claimant, claimed), program.nodes[number]
        assert isinstance(fault, OperationFault), node.operation
        assert (fault.node.number, fault.element) == (number, node.elements - 1), node.operation
        # A tensor that later nodes go on writing may be another already.
        assert claimant.fetched[-1] == node.output.buffer and len(claimant.fetched) <= 3, node.operation
        assert is_convicted(claimant.built, tree, fault), node.operation


def is_convicted(built: BuiltProgram, tree: TraceTree, fault: OperationFault) -> bool:
    """What the contract says of the proof. Raises ProtocolFault where something of it has no place."""
    program = built.program
    facts = StepFacts(
        program_root=compute_program_root(program), dataset_root=bytes(32), scalars_root=bytes(32),
        program_nodes=len(program.nodes), program_buffers=len(program.buffers), numeric_format=0,
        sequences_per_step=0, sequence_tokens=0, token_bytes=0, token_count=0, dataset_bytes=0,
        scalar_count=0, vocabulary_size=0,
    )  # fmt: skip
    weights, first, second = tree.roots[:3]
    context = StepContext(facts, StateHeader(weights, first, second, 0, 0), tree.root)
    return judge_shown(program, context, fault.node, fault.element, fault.openings)


def test_find_names_the_first_of_two_faults(claimant: Claimant) -> None:
    first, second = sorted(list_node_of_each_kind(claimant.built))[:2]
    changes = [spoil(claimant.built, number) for number in (first, second)]

    def change(number: int, tensors: dict[int, Tensor]) -> None:
        for one in changes:
            one(number, tensors)

    claimed, _ = claimant.claim(change)
    fault = find(claimant, claimed)
    assert isinstance(fault, OperationFault) and fault.node.number == first


def test_find_of_other_kernels_judges_and_acquits(claimant: Claimant) -> None:
    # A noise that honest machines have: nothing of it is a fault, and all that differs is looked at.
    program = claimant.built.program
    number = next(n for n, node in enumerate(program.nodes) if node.operation is Operation.PRODUCT_SUM)
    node = program.nodes[number]

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        if done == number:
            output = tensors[node.output.buffer]
            output.copy_(torch.nextafter(output, torch.full_like(output, torch.inf)))

    claimed, _ = claimant.claim(change)
    assert find(claimant, claimed) is None
    assert node.output.buffer in claimant.fetched


@pytest.mark.parametrize(("buffer", "element"), [(3, 5), (4, 0), (5, 2)])
def test_find_names_an_input_that_the_task_does_not_give(
    claimant: Claimant, buffer: int, element: int
) -> None:
    tokens, labels, scalars = (values.clone() for values in (*claimant.batch, claimant.scalars))
    values = (tokens, labels, scalars)[buffer - 3].view(-1)
    values[element] = (values[element] + 1) % 5 if buffer < 5 else values[element] * 2
    cheat = Claimant(claimant.built, claimant.vectors, Batch(tokens, labels), scalars)
    claimed, tree = cheat.claim()
    fault = find(claimant, claimed)
    assert isinstance(fault, InputFault)
    assert (fault.buffer, fault.element) == (buffer, element)
    opening, size = fault.opening, leaf_bytes(tree.program, buffer)
    leaves = -(-4 * tree.program.buffers[buffer].size // size)
    verify_path(opening.root, hash_leaf(opening.leaves), 4 * element // size, leaves, opening.path)
    assert opening.root == tree.roots[buffer]
    verify_path(tree.root, opening.root, buffer, len(tree.roots), opening.root_path)
    assert cheat.fetched == [buffer]


def test_find_of_another_state_raises(claimant: Claimant) -> None:
    weights, first, second = claimant.vectors
    other = Claimant(claimant.built, (weights + 1, first, second), claimant.batch, claimant.scalars)
    with pytest.raises(InvalidInput, match="another state"):
        find(claimant, other.claim()[0])


def test_find_of_another_program_raises(claimant: Claimant) -> None:
    claimed, _ = claimant.claim()
    with pytest.raises(InvalidInput, match="another program"):
        find(claimant, ClaimedTrace(claimed.roots[:-1], claimed.fetch))


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
