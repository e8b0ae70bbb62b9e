"""Product sums of exact programs, and what they read."""

from dataclasses import replace

import pytest
import torch

from protocol.compute.program.quantizing import DOT_BITS, quantize_products
from protocol.compute.program.task_program import build_program, describe_program
from protocol.spec.program import INTEGER_ROLES, Node, Operation, Program, Role, require_valid
from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.programs import Bench, require_single_writers


def build_product(*shapes: tuple[int, ...]) -> Program:
    """A product of two matrices of these shapes."""
    bench = Bench()
    inputs = [torch.zeros(shape) for shape in shapes]
    bench.lower(lambda a, b: (a @ b,), *inputs)
    return bench.finish()[0]


def list_operations(program: Program) -> list[Operation]:
    return [node.operation for node in program.nodes]


def find_one(program: Program, operation: Operation) -> Node:
    (node,) = (node for node in program.nodes if node.operation is operation)
    return node


@pytest.mark.parametrize("bits", [8, 15, 20])
def test_a_matrix_product_reads_both_operands_quantized_to_the_bits_of_the_task(bits: int) -> None:
    program = quantize_products(build_product((3, 4), (4, 5)), bits)
    product = find_one(program, Operation.QUANTIZED_PRODUCT_SUM)
    roles = [program.buffers[operand.buffer].role for operand in product.operands]
    assert set(roles[:2]) <= INTEGER_ROLES and roles[2:] == [Role.TENSOR, Role.TENSOR]
    quantized = [node for node in program.nodes if node.operation is Operation.QUANTIZE]
    assert [node.selected for node in quantized] == [bits, bits]
    assert [program.buffers[node.output.buffer].size for node in quantized] == [12, 20]
    scales = [node for node in program.nodes if node.operation is Operation.SCALE_OF]
    assert [node.elements for node in scales] == [3, 5]


def test_a_product_that_is_no_matrix_product_has_more_bits() -> None:
    bench = Bench()
    bench.lower(lambda a, b: ((a * b).sum(1),), torch.zeros(3, 4), torch.zeros(3, 4))
    program = quantize_products(bench.finish()[0], 8)
    assert {n.selected for n in program.nodes if n.operation is Operation.QUANTIZE} == {DOT_BITS}


def test_an_operand_that_two_products_read_in_the_same_rows_is_quantized_once() -> None:
    bench = Bench()
    bench.lower(lambda a, b, c: (a @ b, a @ c), torch.zeros(3, 4), torch.zeros(4, 5), torch.zeros(4, 6))
    operations = list_operations(quantize_products(bench.finish()[0], 15))
    assert operations.count(Operation.QUANTIZE) == operations.count(Operation.SCALE_OF) == 3


@pytest.mark.parametrize("numeric_format", ["exact8", "exact15", "exact20"])
def test_the_step_of_a_task_is_a_valid_program_without_other_product_sums(numeric_format: str) -> None:
    spec = build_tiny_training(numeric_format=numeric_format)
    program = build_program(describe_program(spec)).program
    require_valid(program)
    require_single_writers(program)
    assert Operation.PRODUCT_SUM not in list_operations(program)


def test_formats_have_programs_of_their_own() -> None:
    roots = {
        build_tiny_training(numeric_format=name).program_root for name in ("float32", "exact8", "exact15")
    }
    assert len(roots) == 3


@pytest.mark.parametrize(("numeric_format", "is_long"), [("exact15", True), ("exact20", False)])
def test_sums_of_wide_integers_are_shorter(numeric_format: str, is_long: bool) -> None:
    """Norms of any task, and all products of 20 bits: a proof of 4,096 terms would cost 1.4 million gas."""
    wide = build_tiny_training(numeric_format=numeric_format, chunk_terms=4096)
    spec = replace(wide, model=replace(wide.model, vocabulary_size=3000))
    program = build_program(describe_program(spec)).program
    terms = {Role.INTEGER16: {0}, Role.INTEGER32: {0}}
    for node in program.nodes:
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            terms[program.buffers[node.operands[0].buffer].role].add(node.terms)
    assert 1024 < max(terms[Role.INTEGER32]) <= 2048
    assert (max(terms[Role.INTEGER16]) > 2048) == is_long
