"""The optimizer's update in compiled loops: found in every format, with the bits of separate passes."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.program.test_interpreter import make_inputs
from tests.protocol.compute.programs import Bench
from tests.task_models import DecoderStep, build_program
from touchstone.protocol.compute.program import interpreter as running
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.kernels.fused_update import (
    PIECE_ELEMENTS,
    find_successors,
    match_update,
)
from touchstone.protocol.compute.program.planning.flat_runs import TILE_ELEMENTS, FlatRun, find_flat_runs
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.views import View

MODEL = DecoderConfig(256, 64, 192, 1, 4, 4, 16)
FORMATS = ("float32", "exact15")


def configure(numeric_format: str) -> DecoderStep:
    return DecoderStep(MODEL, AdamW(), 2, 16, 512, numeric_format)


@cache
def get_step() -> Program:
    """The program of a step, recorded once."""
    return build_program(configure("float32")).program


def find_update() -> FlatRun:
    program = build_program(configure("float32")).program
    (update,) = [run for _, run in find_flat_runs(program) if match_update(program, run)]
    return update


def run_step(numeric_format: str, rate: float) -> tuple[Tensor, ...]:
    config = configure(numeric_format)
    built = build_program(config)
    vectors, tokens, labels, _ = make_inputs(config)
    scalars = torch.tensor([rate, 0.1, 0.05])
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    return interpreter.run(vectors, tokens, labels, scalars)


@pytest.mark.parametrize("numeric_format", FORMATS)
def test_every_program_has_one_update(numeric_format: str) -> None:
    program = build_program(configure(numeric_format)).program
    matched = [run for _, run in find_flat_runs(program) if match_update(program, run)]
    assert len(matched) == 1 and matched[0].size > 3 * PIECE_ELEMENTS // 2


@pytest.mark.parametrize("numeric_format", FORMATS)
@pytest.mark.parametrize("rate", [1e-3, 0.5])
def test_its_bits_are_those_of_separate_passes(
    monkeypatch: pytest.MonkeyPatch, numeric_format: str, rate: float
) -> None:
    fused = run_step(numeric_format, rate)
    monkeypatch.setattr(running, "match_update", lambda *_: None)
    apart = run_step(numeric_format, rate)
    assert all(torch.equal(a, b) for a, b in zip(fused, apart, strict=True))


@pytest.mark.parametrize("place", range(18))
def test_another_run_is_no_update(place: int) -> None:
    """Another operation, a number for a tensor or a tensor for a number, one operand more."""
    run = find_update()
    node = run.nodes[place]
    other = Operation.MAXIMUM if node.operation is not Operation.FINITE_SELECT else Operation.FLUSH
    first = node.operands[-1]
    strange = replace(first, strides=(1 - first.strides[0],))
    for changed in (
        replace(node, operation=other),
        replace(node, operands=(*node.operands[:-1], strange)),
        replace(node, operands=(*node.operands, first)),
        replace(node, output=replace(node.output, strides=(0,))),
    ):
        nodes = (*run.nodes[:place], changed, *run.nodes[place + 1 :])
        assert match_update(get_step(), replace(run, nodes=nodes)) is None


def test_a_run_of_another_length_or_with_a_seen_inner_tensor_is_no_update() -> None:
    run = find_update()
    assert match_update(get_step(), replace(run, nodes=run.nodes[:-1])) is None
    for buffer in run.hidden:
        assert match_update(get_step(), replace(run, hidden=run.hidden - {buffer})) is None


def test_old_vectors_that_a_later_node_reads_are_not_written_over() -> None:
    program = build_program(configure("float32")).program
    [(first, run)] = [(n, run) for n, run in find_flat_runs(program) if match_update(program, run)]
    found = match_update(program, run)
    assert found is not None
    new, old = (found["new_w"].buffer, found["new_m"].buffer, found["new_v"].buffer), (0, 1, 2)
    assert find_successors(program, first, run, found) == dict(zip(new, old, strict=True))
    reader = replace(run.nodes[0], output=replace(run.nodes[0].output, buffer=9_999))
    assert old[1] in {operand.buffer for operand in reader.operands}
    longer = replace(program, nodes=(*program.nodes, reader))
    assert find_successors(longer, first, run, found) == {}


SIZE = 2 * TILE_ELEMENTS


def build_chain(size: int, reads_single: bool = False) -> Program:
    """y = x + x; z = y * x, or times one number of y; z is all that is left."""
    bench = Bench()
    x = bench.add(torch.linspace(-1, 1, size))
    doubled = bench.builder.map(Operation.ADD, x, x)
    factor = View(doubled.buffer, size - 1, ()) if reads_single else doubled
    program, _ = bench.finish([bench.builder.map(Operation.MULTIPLY, x, factor)])
    return program


def test_elementwise_nodes_over_the_same_elements_are_a_run() -> None:
    program = build_chain(SIZE)
    [(first, run)] = list(find_flat_runs(program))
    operations = [node.operation for node in run.nodes]
    start = operations.index(Operation.ADD)
    assert operations[start : start + 2] == [Operation.ADD, Operation.MULTIPLY] and run.size == SIZE
    assert program.nodes[first : first + len(run.nodes)] == run.nodes
    doubled = run.nodes[start].output.buffer
    assert doubled in run.hidden, "nobody else reads it"
    assert program.outputs.weights not in run.hidden


def test_a_run_of_one_tile_or_less_is_none() -> None:
    assert not list(find_flat_runs(build_chain(TILE_ELEMENTS)))


def test_a_number_that_the_run_itself_writes_ends_it() -> None:
    """It may lie in a tile that is still to come."""
    runs = [run for _, run in find_flat_runs(build_chain(SIZE, reads_single=True))]
    assert all(Operation.MULTIPLY not in {node.operation for node in run.nodes[1:]} for run in runs)
