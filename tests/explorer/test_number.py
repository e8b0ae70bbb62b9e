"""The number by which a cheat falls: planted, proven, read from its proof, judged again."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.task_models import draw_first
from tests.task_plans import respecify_plan
from touchstone.demo.planted import find_node, make_planting_compute
from touchstone.demo.watch import show_number
from touchstone.explorer.convicted_number import (
    ConvictedNumber,
    count_siblings,
    decode_node,
    find_number,
    read_number,
)
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.chain.abi import find_function, load_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.compute.bounds.fault_proof import OperationFault, prove_operation
from touchstone.protocol.compute.bounds.retrace import ignore
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.float32 import bits_to_float, float_to_bits
from touchstone.protocol.spec.merkle import compute_levels
from touchstone.protocol.spec.merkle_ranges import compute_range_path
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.referee import Judgement
from touchstone.protocol.spec.task_spec import TrainingSpec

SUBMITTER = "0x" + "11" * 20


def make_training(numeric_format: str = "float32") -> TrainingSpec:
    plan = respecify_plan(TINY_PLAN, numeric_format=numeric_format)
    _, training = build_task(plan, make_dataset(), SUBMITTER, bytes(32))
    return training


def prove_planted(operation: Operation, training: TrainingSpec, before: int = 0) -> OperationFault:
    """The proof of a planted error; before: of an element so many places before it."""
    state = begin_round(draw_first(training), 0)
    rows, length = training.sequences_per_step, training.sequence_tokens
    tokens = torch.arange(rows * (length + 1)).reshape(rows, length + 1) % 200
    batch = Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    compute = make_planting_compute(operation)
    tree = compute.retrace(state, training, lambda step: batch, 0, ignore).tree
    program = get_program(training).program
    number = find_node(get_program(training), operation)
    element = program.nodes[number].elements - 1 - before
    return prove_operation(tree, number, element)


def read_planted(operation: Operation, training: TrainingSpec, before: int = 0) -> ConvictedNumber | None:
    """What such a proof shows."""
    proof = prove_planted(operation, training, before)
    shown = decode_node(proof.node.number, proof.node.data)
    return read_number(shown, proof.element, proof.openings, training.numeric_format)


@pytest.mark.parametrize("operation", [Operation.PRODUCT_SUM, Operation.SUBTRACT, Operation.SQUARE_ROOT])
def test_a_planted_number_is_read_from_its_proof_and_judged(operation: Operation) -> None:
    found = read_planted(operation, make_training())
    assert found is not None and found.operation is operation
    judgement = found.judgement
    assert judgement.is_fault and judgement.exact is not None
    claimed = bits_to_float(found.claimed)
    # As `plant` spoils it: half as much again, and a quarter.
    assert claimed == pytest.approx(float(judgement.exact) * 1.5 + 0.25, rel=1e-4)
    lines = "\n".join(show_number(found))
    assert operation.name in lines and "outside: a fault" in lines and f"{claimed:.9g}" in lines
    assert found.to_json()["is_fault"] and len(found.to_json()["operands"]) == len(found.terms)


@pytest.mark.parametrize(
    "operation", [Operation.SCALE_OF, Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM]
)
def test_a_number_of_an_exact_task_is_judged_by_its_bits(operation: Operation) -> None:
    """How many bits quantized values have stands in the node."""
    training = make_training("exact15")
    found = read_planted(operation, training)
    assert found is not None and found.judgement.exact is not None
    # Of quantized values the first one is spoiled, of others the last one; the last one is read here.
    assert found.judgement.is_fault == (operation is not Operation.QUANTIZE)


def test_the_number_beside_a_planted_one_is_right() -> None:
    found = read_planted(Operation.SUBTRACT, make_training(), before=1)
    assert found is not None and not found.judgement.is_fault
    assert "inside" in show_number(found)[-1]


DISPUTES = "0x" + "22" * 20


async def find(target: str, data: bytes) -> ConvictedNumber | None:
    """What a transaction shows that calls `target` with `data`."""

    async def sent_call(name: bytes) -> tuple[str, bytes]:
        return target, data

    event = Event("Seats", "SeatConvicted", {}, 1, 0, bytes(32), bytes(32))
    connection = cast(Connection, SimpleNamespace(sent_call=sent_call))
    return await find_number(connection, DISPUTES, event, "float32")


async def test_a_convictions_call_alone_shows_the_number() -> None:
    """Neither the program nor a tensor is needed. Where another contract passed the call on, its data prove
    nothing; where they are cut short, or are no node's, nothing is shown."""
    proof = prove_planted(Operation.SUBTRACT, make_training())
    entry = find_function(load_abi("Steps"), "proveOperation")
    empty = [
        tuple(bytes(32) if part.kind == "bytes32" else 0 for part in one.items) for one in entry.inputs[2:4]
    ]
    values = [bytes(32), bytes(32), *empty, proof.node, proof.element, proof.openings]
    data = encode_call(entry, values)
    found = await find(DISPUTES, data)
    assert found == read_planted(Operation.SUBTRACT, make_training()) and found is not None
    assert found.judgement.is_fault
    assert await find("0x" + "33" * 20, data) is None
    assert await find(DISPUTES, b"\0" * 4 + data[4:]) is None
    assert await find(DISPUTES, data[:-64]) is None
    for node in (proof.node.data[:-1], proof.node.data + b"\0", b"\xff" * len(proof.node.data), b""):
        values[4] = replace(proof.node, data=node)
        assert await find(DISPUTES, encode_call(entry, values)) is None
    values[4:] = [proof.node, proof.element, proof.openings[:40]]
    assert await find(DISPUTES, encode_call(entry, values)) is None


def test_no_number_is_read_where_operands_hang_on_an_index() -> None:
    assert read_planted(Operation.GATHER, make_training()) is None


@pytest.mark.parametrize("count", [1, 2, 5, 8, 13])
def test_siblings_of_a_run_of_leaves(count: int) -> None:
    levels = compute_levels([bytes([i + 1]) * 32 for i in range(count)])
    for first in range(count):
        for last in range(first, count):
            assert count_siblings(count, first, last) == len(compute_range_path(levels, first, last))


@pytest.mark.parametrize(
    ("operation", "written"),
    [
        (Operation.SUM, "1 + 2 + 3 + ... (4 terms)"),
        (Operation.MAXIMUM_OF, "the largest of 1, 2, 3, ... (4 terms)"),
        (Operation.SCALE_OF, "the scale of 1, 2, 3, ... (4 terms)"),
    ],
)
def test_a_reduction_is_written_as_what_it_is(operation: Operation, written: str) -> None:
    terms = tuple((float_to_bits(float(n)),) for n in range(1, 5))
    judgement = Judgement(True, Fraction(0), Fraction(0), None, "")
    assert ConvictedNumber(1, operation, 0, terms, 0, judgement).formula == written
