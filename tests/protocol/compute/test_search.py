"""Halving finds a gross lie and accuses nobody else."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from protocol.compute.data import Corpus, get_batch
from protocol.compute.determinism import pin_kernels
from protocol.compute.interpreter import Interpreter
from protocol.compute.kernels import make_kernel
from protocol.compute.program import BuiltProgram, build_program, describe_program
from protocol.compute.search import NOISE, TraceSearch, is_beyond_noise
from protocol.compute.step import TrainingState, compute_scalars
from protocol.compute.views import look
from protocol.spec.containers import TrainingSpec
from protocol.spec.program import Access, Operation

Trace = dict[int, Tensor]
Lie = Callable[[Tensor], object]


@pytest.fixture
def built(spec: TrainingSpec) -> BuiltProgram:
    return build_program(describe_program(spec))


def make_trace(
    built: BuiltProgram, state: TrainingState, corpus: Corpus, spec: TrainingSpec, target: int, lie: Lie
) -> Trace:
    """A step whose node `target` lies, and which goes on from the lie as if it were true."""
    interpreter = Interpreter(built.program, built.constants, keeps_all=True)
    vectors = (state.weights, state.first_moment, state.second_moment)
    batch = get_batch(corpus, spec, bytes(32), 0, 0)
    for number in interpreter.iterate(vectors, *batch, compute_scalars(spec, 0, 0)):
        if number == target:
            output = built.program.nodes[number].output
            tensor = interpreter.tensors[output.buffer]
            sizes = built.program.nodes[number].output_sizes
            lie(tensor.as_strided(sizes, output.strides, tensor.storage_offset() + output.offset))
    return {buffer: tensor.clone() for buffer, tensor in interpreter.tensors.items()}


def choose_nodes(built: BuiltProgram, operation: Operation) -> list[int]:
    nodes = [n for n, node in enumerate(built.program.nodes) if node.operation is operation]
    return nodes[:: max(1, len(nodes) // 3)]


def test_an_honest_trace_is_found_honest_on_other_kernels(
    built: BuiltProgram, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    trace = make_trace(built, state, corpus, spec, -1, lambda _: None)
    pin_kernels(2, onednn=False)
    assert not TraceSearch(built.program, built.constants).search(trace.__getitem__).faults


@pytest.mark.parametrize("operation", [Operation.PRODUCT_SUM, Operation.EXPONENTIAL, Operation.SIGMOID])
def test_a_gross_lie_is_found_where_it_was_told(
    operation: Operation, built: BuiltProgram, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    search = TraceSearch(built.program, built.constants)
    for target in choose_nodes(built, operation):
        trace = make_trace(built, state, corpus, spec, target, stretch)
        watched = Watched(trace)
        report = search.search(watched.get)
        assert target in [fault.node for fault in report.faults]
        assert len(watched.asked) < len(trace)


def test_a_false_copy_that_its_readers_follow_is_found(
    built: BuiltProgram, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    """As a machine may run it that reads the copies."""
    honest = make_trace(built, state, corpus, spec, -1, lambda _: None)
    search = TraceSearch(built.program, built.constants)
    for target in choose_nodes(built, Operation.COPY):
        trace = {buffer: tensor.clone() for buffer, tensor in honest.items()}

        def view(
            access: Access, sizes: Sequence[int], strides: Sequence[int], trace: Trace = trace
        ) -> Tensor:
            return look(trace[access.buffer], access.offset, sizes, strides)

        for number, node in enumerate(built.program.nodes[target:], target):
            make_kernel(node, view)()
            if number == target:
                stretch(trace[node.output.buffer])
        assert target in [fault.node for fault in search.search(trace.__getitem__).faults]


def stretch(output: Tensor) -> None:
    """Half too large, every other element: with all of them a softmax would take it back."""
    part = output[..., ::2] if output.dim() else output
    part.mul_(1.5)


class Watched:
    """A trace that notes what was asked for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.asked: set[int] = set()

    def get(self, buffer: int) -> Tensor:
        self.asked.add(buffer)
        return self.trace[buffer]


def test_one_element_among_many_is_beyond_noise() -> None:
    claimed = torch.linspace(1.0, 2.0, 100_000)
    own = claimed.clone()
    own[77] *= 1 + 4 * NOISE
    assert is_beyond_noise(own, claimed)
    assert not is_beyond_noise(claimed * (1 + NOISE / 2), claimed)
    own[77] = float("nan")
    assert is_beyond_noise(own, claimed)


def test_tensors_may_lie_anywhere_in_memory(
    built: BuiltProgram, state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    trace = make_trace(built, state, corpus, spec, 30, stretch)
    shifted = {n: torch.cat((tensor[:1], tensor))[1:] for n, tensor in trace.items()}
    search = TraceSearch(built.program, built.constants)
    assert 30 in [fault.node for fault in search.search(shifted.__getitem__).faults]
