"""Costs of a program: told without computing, and what computing it takes."""

from dataclasses import replace

import pytest

from tests.protocol.compute.decoders import DECODERS
from tests.protocol.compute.program.hand_written import HandWritten, M, V, W
from tests.protocol.compute.program.test_decoder_programs import configure
from tests.protocol.spec.test_program import PROGRAM
from tests.task_models import build_program
from touchstone.protocol.compute.program.costs import count_proof_bytes, measure_costs
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.program import Access, Buffer, Node, Program, Role
from touchstone.protocol.spec.program_operations import Operation

PRODUCTS = (Operation.PRODUCT_SUM, Operation.QUANTIZED_PRODUCT_SUM)


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_costs_are_those_of_a_step(numeric_format: str) -> None:
    built = build_program(configure(DECODERS["grouped"], numeric_format))
    program, costs = built.program, measure_costs(built.program)
    assert (costs.parameters, costs.nodes) == (program.buffers[0].size, len(program.nodes))
    assert costs.constants == len(built.constants)
    assert costs.constant_bytes == sum(4 * values.numel() for values in built.constants.values())
    traced = Interpreter(
        built.program, built.constants, is_traced=True, numeric_format=numeric_format, keeps_all=True
    )
    held = sum(tensor.numel() * tensor.element_size() for tensor in traced.memory.values())
    assert costs.step_bytes < held and costs.trace_bytes > 4 * 6 * costs.parameters
    products = [
        node
        for node in program.nodes
        if node.operation in (Operation.PRODUCT_SUM, Operation.QUANTIZED_PRODUCT_SUM)
    ]
    assert costs.operations > sum(node.elements * node.terms for node in products) > 0
    assert costs.proof_gas == 130_000 + 40 * costs.proof_bytes


def test_a_proof_opens_the_leaves_that_terms_may_lie_in() -> None:
    """Leaves of 512 bytes, of 1,024 of what is a state or a constant; two siblings a level."""
    assert count_proof_bytes(PROGRAM, PROGRAM.nodes[3]) == 512 + 1024 + 1024 + 3 * 4 * 64
    long = len(PROGRAM.buffers)
    buffers = (*PROGRAM.buffers, Buffer(Role.TENSOR, 1024), Buffer(Role.TENSOR, 8))
    total = Node(Operation.SUM, (8, 128), 1, Access(long + 1, 0, (1,)), (Access(long, 0, (128, 1)),))
    program = replace(PROGRAM, buffers=buffers, nodes=(*PROGRAM.nodes, total))
    assert count_proof_bytes(program, total) == 512 + 4 * 64 + 2 * 512 + (3 + 4) * 64
    assert measure_costs(build_program(configure(DECODERS["grouped"])).program).proof_bytes > 2048


def test_a_program_of_many_short_runs_costs_what_one_of_few_does() -> None:
    """Each run is looked at by itself: whoever went through all tensors for each would need an hour."""
    few, many = (measure_costs(write_runs(count)) for count in (2, 15_000))
    assert (few.step_bytes, many.nodes - few.nodes) == (many.step_bytes, 2 * 14_998)


def write_runs(count: int) -> Program:
    """Runs of two nodes each, longer than a tile, whose tensors nobody reads."""
    written = HandWritten(70_000)
    for number in range(count):
        size = 70_000 - number % 2
        for _ in range(2):
            written.node(Operation.SQUARE_ROOT, (size,), (written.tensor(size), 0, (1,)), (W, 0, (1,)))
    return written.finish(*written.copies(W, M, V))
