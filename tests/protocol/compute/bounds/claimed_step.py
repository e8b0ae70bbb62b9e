"""A claimed step, false in some nodes or computed by other kernels, and what the contract says of proofs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.protocol.compute.python_referee import judge_shown
from tests.training_setting import build_trace_tree
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds.fault_finder import FaultFinder
from touchstone.protocol.compute.bounds.fault_proof import (
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
    Vectors,
)
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.node_views import look
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.program_codec import compute_program_root
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import StepContext, StepFacts, TrainingSpec

LONG_TERMS = 8
"""Of a sum that may be a unit in the last place off, whatever a kernel has rounded before."""
Change = Callable[[int, dict[int, Tensor]], None]
"""Told of each node when it has been computed, with all tensors: may change its output."""


@dataclass
class Claimant:
    """Runs a step, with a change on the way, and serves its trace. shows_leaves: single leaves too."""

    built: BuiltProgram
    vectors: Vectors
    batch: Batch
    scalars: Tensor
    fetched: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    """Buffers of which one leaf was shown."""
    shows_leaves: bool = False

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

        def find_leaf(buffer: int, own: ByteTree) -> ClaimedLeaf:
            self.shown.append(buffer)
            claimed = build_buffer_tree(self.built.program, tensors.__getitem__, buffer)
            index = next(n for n, one in enumerate(claimed.levels[0]) if one != own.levels[0][n])
            return ClaimedLeaf(index, *claimed.open_leaf(index))

        return ClaimedTrace(tree.roots, fetch, try_leaf=find_leaf if self.shows_leaves else None), tree


def make_claimant(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> Claimant:
    """Of the first step of a task."""
    built = get_program(spec)
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


def add_noise(built: BuiltProgram, then: Change = lambda number, tensors: None) -> Change:
    """Every other result of each long sum and of each exponential is the next float32, which their bounds
    allow; then another change."""

    def change(number: int, tensors: dict[int, Tensor]) -> None:
        node = built.program.nodes[number]
        is_long = node.operation is Operation.PRODUCT_SUM and node.terms >= LONG_TERMS
        if is_long or node.operation is Operation.EXPONENTIAL:
            values = tensors[node.output.buffer]
            output = look(values, node.output.offset, node.output_sizes, node.output.strides)
            part = output[..., ::2] if output.dim() else output
            part.copy_(torch.nextafter(part, torch.full_like(part, torch.inf)))
        then(number, tensors)

    return change


def scale(built: BuiltProgram, number: int, factor: float = 1.05) -> Change:
    """All results of node `number` are so many times too large."""
    node = built.program.nodes[number]

    def change(done: int, tensors: dict[int, Tensor]) -> None:
        if done == number:
            values = tensors[node.output.buffer]
            look(values, node.output.offset, node.output_sizes, node.output.strides).mul_(factor)

    return change
