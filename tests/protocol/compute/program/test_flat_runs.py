"""Which nodes go tile by tile together."""

import torch

from protocol.compute.program.flat_runs import TILE_ELEMENTS, find_flat_runs
from protocol.compute.program.layout import View
from protocol.spec.program import Operation, Program
from tests.protocol.compute.programs import Bench

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
