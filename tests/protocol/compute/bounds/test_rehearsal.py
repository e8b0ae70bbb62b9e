"""A step is checked whole before anything is at stake, and what is taken from it shows right and wrong."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.python_referee import judge_shown
from touchstone.demo.planted import plant
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds import rehearsal, rehearsal_trace
from touchstone.protocol.compute.bounds.rehearsal import Rehearsal, rehearse
from touchstone.protocol.compute.bounds.rehearsal_samples import draw_samples
from touchstone.protocol.compute.bounds.trace_check import TraceChecker, TraceReport
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_codec import compute_program_root
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation
from touchstone.protocol.spec.task_spec import StepContext, StepFacts, TrainingSpec

SEED = bytes(range(32))


@pytest.fixture
def program(spec: TrainingSpec) -> Program:
    return get_program(spec).program


@pytest.fixture
def batch(corpus: Corpus, spec: TrainingSpec) -> Batch:
    return get_batch(corpus, spec, SEED, 0, 0)


def describe_facts(program: Program) -> StepFacts:
    """What a referee reads of them."""
    root, nodes, buffers = compute_program_root(program), len(program.nodes), len(program.buffers)
    return StepFacts(root, bytes(32), bytes(32), nodes, buffers, 0, 1, 1, 1, 1, 1, 1, 1)


def list_verdicts(found: Rehearsal, program: Program) -> Iterator[tuple[Operation, bool, bool]]:
    """Of each exhibit: its kind, what Python says to what is shown, and what it should say."""
    facts = describe_facts(program)
    for operation, trace_root, proof, is_fault in found.exhibits:
        context = StepContext(facts, found.start, trace_root)
        shown = judge_shown(program, context, proof.node, proof.element, proof.openings)
        yield operation, shown, is_fault


def plant_in(patch: pytest.MonkeyPatch, number: int, is_whole: bool = False) -> None:
    """Kernels that err in node `number`: in its last element, or in all of it."""

    class Erring(Interpreter):
        def iterate(self, *given: object) -> Iterator[int]:
            for done in super().iterate(*given):  # type: ignore[arg-type]
                if done == number:
                    self.err()
                yield done

        def err(self) -> None:
            node = self.program.nodes[number]
            if is_whole:
                output: Tensor = self.tensors[node.output.buffer]
                output.mul_(1.5).add_(0.25)
            else:
                plant(node, self.tensors)

    for module in (rehearsal, rehearsal_trace):
        patch.setattr(module, "Interpreter", Erring)


def test_draw_samples_takes_a_node_of_each_kind_and_others_by_another_seed(program: Program) -> None:
    drawn = draw_samples(program, SEED)
    kinds = {node.operation for node in program.nodes}
    assert [program.nodes[sample.node].operation for sample in drawn] == sorted(kinds)
    assert all(0 <= e < program.nodes[sample.node].elements for sample in drawn for e in sample.elements)
    assert drawn == draw_samples(program, SEED) != draw_samples(program, bytes(32))


def test_draw_samples_takes_no_node_that_reads_what_it_writes(program: Program) -> None:
    number = next(n for n, node in enumerate(program.nodes) if node.operation is Operation.MINIMUM)
    node = program.nodes[number]
    itself = replace(node, operands=(node.output, *node.operands[1:]))
    nodes = (*program.nodes[:number], itself, *program.nodes[number + 1 :])
    drawn = draw_samples(replace(program, nodes=nodes), SEED)
    others = [n.operation for n in program.nodes].count(Operation.MINIMUM) - 1
    assert number not in [sample.node for sample in drawn]
    assert len(drawn) == len(BOUNDED_OPERATIONS) - (others == 0)


@pytest.mark.parametrize("first", range(4))
def test_rehearse_shows_of_each_kind_one_right_and_one_wrong_element(
    state: TrainingState, spec: TrainingSpec, batch: Batch, program: Program, first: int
) -> None:
    found = rehearse(state, spec, batch, bytes([first]) + SEED[1:])
    verdicts = list(list_verdicts(found, program))
    assert all(shown == is_fault for _, shown, is_fault in verdicts)
    kinds = {node.operation for node in program.nodes}
    assert Counter((kind, is_fault) for kind, _, is_fault in verdicts) == Counter(
        (kind, is_fault) for kind in kinds for is_fault in (False, True)
    )


def test_rehearse_refuses_kernels_that_err_in_any_kind(
    state: TrainingState,
    spec: TrainingSpec,
    batch: Batch,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = {node.operation: number for number, node in enumerate(program.nodes)}
    assert len(last) == len(BOUNDED_OPERATIONS)
    for kind, number in last.items():
        plant_in(monkeypatch, number)
        with pytest.raises(EnvironmentFault, match=rf"could be convicted.* node {number} \({kind.name}\)"):
            rehearse(state, spec, batch, SEED)


def test_rehearse_refuses_what_only_the_exact_referee_convicts(
    state: TrainingState,
    spec: TrainingSpec,
    batch: Batch,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = draw_samples(program, SEED)[0].node
    plant_in(monkeypatch, number, is_whole=True)
    monkeypatch.setattr(TraceChecker, "check", lambda *given: TraceReport({}, ()))
    with pytest.raises(EnvironmentFault, match=f"node {number} "):
        rehearse(state, spec, batch, SEED)


def test_rehearse_refuses_a_step_of_which_nothing_can_be_judged(
    state: TrainingState, spec: TrainingSpec, batch: Batch
) -> None:
    overflowing = replace(state, weights=state.weights * 1e30)
    with pytest.raises(InvalidInput, match="finite operands"):
        rehearse(overflowing, spec, batch, SEED)


# Exact programs
@pytest.mark.parametrize("operation", [Operation.QUANTIZED_PRODUCT_SUM, Operation.SUM, Operation.QUANTIZE])
def test_rehearse_refuses_exact_kernels_that_err_in_one_element(
    state: TrainingState, corpus: Corpus, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bit of the last element, which no draw has to hit."""
    spec = build_tiny_training(numeric_format="exact15")
    batch = get_batch(corpus, spec, SEED, 0, 0)
    assert rehearse(state, spec, batch, SEED).exhibits
    nodes = get_program(spec).program.nodes
    number = max(n for n, node in enumerate(nodes) if node.operation is operation)

    class Erring(Interpreter):
        def iterate(self, *given: object) -> Iterator[int]:
            for done in super().iterate(*given):  # type: ignore[arg-type]
                if done == number and not self._by_tensors:
                    self.memory[nodes[number].output.buffer].view(torch.uint8)[-1] ^= 1
                yield done

    for module in (rehearsal, rehearsal_trace):
        monkeypatch.setattr(module, "Interpreter", Erring)
    place = rf"node {number} \({operation.name}\)"
    with pytest.raises(EnvironmentFault, match=f"bits of an exact task, and could be convicted.* {place}"):
        rehearse(state, spec, batch, SEED)


def test_a_step_of_a_single_token_is_rehearsed(state: TrainingState, corpus: Corpus) -> None:
    """Its loss is a sum of one term, over no loops at all."""
    spec = build_tiny_training(numeric_format="exact15", sequences_per_step=1, sequence_tokens=1)
    assert rehearse(state, spec, get_batch(corpus, spec, SEED, 0, 0), SEED).exhibits
