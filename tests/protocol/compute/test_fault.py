"""A false step is found, whatever it is, with little fetched; and the proof opens what the referee judges."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from protocol.compute.data import Corpus, get_batch
from protocol.compute.fault import (
    ClaimedTrace,
    FaultFinder,
    InputFault,
    OperationFault,
    Vectors,
    iterate_runs,
    prove_operation,
)
from protocol.compute.interpreter import Interpreter
from protocol.compute.program import BuiltProgram, build_program, describe_program
from protocol.compute.step import Batch, TrainingState, compute_scalars
from protocol.compute.trace import TraceTree, build_trace_tree
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import unpack_bits
from protocol.spec.merkle import (
    compute_data_root,
    compute_levels,
    compute_range_path,
    hash_leaf,
    is_valid_set,
    verify_path,
    verify_range,
)
from protocol.spec.program import INDEX_ROLES, Operation, Role, leaf_bytes
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, compute_program_root
from protocol.spec.referee import judge_element

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
        verify_proof(claimant.built, tree, fault)


def verify_proof(built: BuiltProgram, tree: TraceTree, fault: OperationFault) -> None:
    """Everything that the proof opens has its place, and the referee convicts on nothing else."""
    program, node = built.program, built.program.nodes[fault.node.number]
    leaves = LEAVES_BEFORE_NODES + len(program.nodes)
    leaf = hash_leaf(fault.node.data)
    number = LEAVES_BEFORE_NODES + fault.node.number
    verify_path(compute_program_root(program), leaf, number, leaves, fault.node.path)
    place = node.output.buffer, *locate_output(built, fault), 1
    opened = read_openings(tree, [place, *iterate_runs(node, fault.element, tree.get)], fault.openings)
    claimed = opened[(node.output.buffer, place[1])]
    judgement = judge_element(node, fault.element, lambda buffer, element: opened[(buffer, element)], claimed)
    assert judgement.is_fault, node.operation


def locate_output(built: BuiltProgram, fault: OperationFault) -> tuple[int]:
    node = built.program.nodes[fault.node.number]
    assert fault.element == node.elements - 1
    pairs = zip(node.output_sizes, node.output.strides, strict=True)
    return (node.output.offset + sum((size - 1) * stride for size, stride in pairs),)


def read_openings(
    tree: TraceTree, runs: Sequence[tuple[int, int, int]], openings: bytes
) -> dict[tuple[int, int], int]:
    """The bits of proven runs, by buffer and element; every byte is needed."""
    found: dict[tuple[int, int], int] = {}
    traced: dict[int, bytes] = {}
    reader = io.BytesIO(openings)
    for buffer, first, count in runs:
        size, start, end, total = describe_run(tree, buffer, first, count)
        # As many siblings as a tree of any leaves has there.
        shape = compute_range_path(compute_levels([b"\1" * 32] * total), start, end - 1)
        leaves, path = reader.read((end - start) * size), [reader.read(32) for _ in shape]
        found |= read_run(tree, buffer, first, count, leaves, path)
        if tree.program.buffers[buffer].role in (Role.TENSOR, Role.SCALARS, *INDEX_ROLES):
            traced[buffer] = tree.roots[buffer]
    rest = reader.read()
    siblings = [rest[i : i + 32] for i in range(0, len(rest), 32)]
    assert is_valid_set(tree.root, traced, len(tree.roots), siblings)
    return found


def describe_run(tree: TraceTree, buffer: int, first: int, count: int) -> tuple[int, int, int, int]:
    """Bytes of a leaf, the leaves from .. to that hold the run, and all of the buffer."""
    size, elements = leaf_bytes(tree.program, buffer), tree.program.buffers[buffer].size
    return size, 4 * first // size, -(-4 * (first + count) // size), -(-4 * elements // size)


def read_run(
    tree: TraceTree, buffer: int, first: int, count: int, leaves: bytes, path: Sequence[bytes]
) -> dict[tuple[int, int], int]:
    """The bits of a run whose leaves are proven under the buffer's root."""
    size, start, end, total = describe_run(tree, buffer, first, count)
    hashes = [hash_leaf(leaves[i : i + size]) for i in range(0, len(leaves), size)]
    assert len(hashes) == end - start
    verify_range(tree.roots[buffer], hashes, start, total, path)
    bits = unpack_bits(leaves)
    return {(buffer, first + i): bits[first + i - start * size // 4] for i in range(count)}


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
    opening = fault.opening
    assert read_run(tree, buffer, element, 1, opening.leaves, opening.path)
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
