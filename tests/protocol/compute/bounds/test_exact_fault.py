"""Faults of exact programs: found by hashes alone, with the proof that a whole trace would give."""

import random
from collections.abc import Iterator
from functools import partial

import pytest
from torch import Tensor

from protocol.compute.bounds.exact_fault import ClaimedLeaf, ClaimedRoots, ExactFaultFinder, find_writer
from protocol.compute.bounds.fault import InputFault, OperationFault, prove_operation
from protocol.compute.digest import ByteTree
from protocol.compute.model.batches import Corpus
from protocol.compute.program.exact_kernels import ExactKernels
from protocol.compute.program.step import TrainingState
from protocol.compute.program.task_program import build_program, describe_program
from protocol.compute.program.tensor_allocator import compute_lifetimes
from protocol.spec.errors import InvalidInput
from protocol.spec.program import INDEX_ROLES, INTEGER_ROLES, Operation, Program, locate, unravel
from tests.protocol.compute.bounds.exact_trace import Step, change, record_step
from tests.protocol.compute.conftest import build_tiny_training

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
        finder.find(step.vectors, step.batch, step.scalars, ClaimedRoots(roots[:-1], lambda *_: None))  # type: ignore[arg-type]


def test_a_leaf_that_differs_in_its_padding_alone_is_refused(step: Step) -> None:
    program = step.built.program
    buffer = program.outputs.loss
    trace = step.claim(lambda tensors: change(tensors[buffer], 0))

    def pad(number: int, own: ByteTree) -> ClaimedLeaf:
        leaf, path = own.open_leaf(0)
        return ClaimedLeaf(0, leaf[:-1] + b"\1", path)

    finder = ExactFaultFinder(step.built, FORMAT)
    with pytest.raises(InvalidInput, match="padded"):
        finder.find(step.vectors, step.batch, step.scalars, ClaimedRoots(trace.tree.roots, pad))


@pytest.mark.parametrize("numeric_format", ["exact8", "exact20"])
def test_no_node_reads_a_buffer_before_all_of_it_is_there(numeric_format: str) -> None:
    """A proof takes the operands of an element from the own trace: they have roots before it is computed."""
    program = build_program(describe_program(build_tiny_training(numeric_format=numeric_format))).program
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
