"""Whole traces: honest ones pass, and one lie anywhere is found at the node that tells it."""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

import pytest
import torch
from torch import Tensor

from tests.task_models import DecoderStep, build_program, init_parameters
from touchstone.protocol.compute.bounds.trace_check import TraceChecker, compute_last_uses
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel
from touchstone.protocol.spec import referee
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import INDEX_ROLES, Access, Node, Program, Role
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig

Buffers = dict[int, Tensor]
KINDS = list(BOUNDED_OPERATIONS)
SHORT = DecoderStep(DecoderConfig(256, 16, 44, 1, 2, 1, 8), AdamW(), 2, 8, 128)
LONG = DecoderStep(DecoderConfig(256, 16, 44, 1, 2, 1, 128), AdamW(), 2, 128, 128)
"""With sums of more terms than a chunk has."""


@dataclass(frozen=True)
class Trace:
    """A step as its claimant would show it: every buffer of the program."""

    program: Program
    buffers: Buffers

    def checker(self) -> TraceChecker:
        return TraceChecker(self.program)


def record(config: DecoderStep) -> Trace:
    """One honest step."""
    pin_kernels(1)
    torch.manual_seed(0)
    built, shape = build_program(config), (config.sequences, config.tokens)
    weights = init_parameters(config.model, 0)
    tokens, labels = (torch.randint(0, config.model.vocabulary_size, shape) for _ in range(2))
    state = (weights, torch.randn(weights.shape) * 1e-3, torch.rand(weights.shape) * 1e-6)
    scalars = torch.tensor([1e-3, 0.1, 0.05])
    buffers = dict(built.constants)
    with torch.no_grad():
        Interpreter(built.program, built.constants, is_traced=True).run(
            state, tokens, labels, scalars, keep=lambda b, values: buffers.update({b: values.clone()})
        )
    inputs = {
        Role.WEIGHTS: state[0], Role.FIRST_MOMENT: state[1], Role.SECOND_MOMENT: state[2],
        Role.TOKENS: tokens, Role.LABELS: labels, Role.SCALARS: scalars,
    }  # fmt: skip
    for number, buffer in enumerate(built.program.buffers):
        if buffer.role in inputs:
            buffers[number] = inputs[buffer.role].reshape(-1)
    return Trace(built.program, buffers)


@pytest.fixture(scope="module")
def short() -> Trace:
    return record(SHORT)


@pytest.fixture(scope="module")
def long() -> Trace:
    return record(LONG)


def nodes_of(program: Program, kind: Operation) -> list[int]:
    return [n for n, node in enumerate(program.nodes) if node.operation is kind]


def plant(trace: Trace, buffer: int, place: int, value: float) -> Buffers:
    """The trace with one other element."""
    changed = trace.buffers[buffer].clone()
    changed[place] = value
    return {**trace.buffers, buffer: changed}


def judge(trace: Trace, number: int, element: int) -> referee.Judgement:
    node = trace.program.nodes[number]

    def bits(tensor: Tensor, place: int) -> int:
        return int(tensor[place].view(torch.int32)) & 0xFFFFFFFF

    def fetch(buffer: int, place: int) -> int:
        tensor = trace.buffers[buffer]
        is_index = trace.program.buffers[buffer].role in INDEX_ROLES
        return int(tensor[place]) if is_index else bits(tensor, place)

    place = locate(node.output, unravel(element, node.output_sizes))
    return referee.judge_element(node, element, fetch, bits(trace.buffers[node.output.buffer], place))


# Honest
@pytest.mark.parametrize("name", ["short", "long"])
def test_check_finds_nothing_in_an_honest_trace(name: str, request: pytest.FixtureRequest) -> None:
    trace: Trace = request.getfixturevalue(name)
    report = trace.checker().check(trace.buffers.__getitem__)
    assert not report.faults and report.worst is None
    assert sum(kind.elements for kind in report.kinds.values()) == sum(
        n.elements for n in trace.program.nodes
    )
    assert all(kind.worst_ratio <= 1 and not kind.outside for kind in report.kinds.values())
    assert set(report.kinds) == {node.operation for node in trace.program.nodes} == set(KINDS)


def test_a_step_in_fewer_bits_is_outside(short: Trace) -> None:
    number = nodes_of(short.program, Operation.PRODUCT_SUM)[1]
    node = short.program.nodes[number]
    cut = {b: t if t.dtype == torch.int64 else t.bfloat16().float() for b, t in short.buffers.items()}
    claimed = {**short.buffers, node.output.buffer: run_node(short, node, cut)}
    only = range(number, number + 1)
    assert short.checker().check(claimed.__getitem__, only).faults


# Lies
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["short", "long"])
def test_check_finds_one_wrong_element_at_its_node(
    kind: Operation, name: str, request: pytest.FixtureRequest
) -> None:
    """Twice the bound off, or one step where the bound is zero."""
    trace: Trace = request.getfixturevalue(name)
    numbers = nodes_of(trace.program, kind)
    for number in {numbers[0], numbers[len(numbers) // 2], numbers[-1]}:
        node = trace.program.nodes[number]
        element = node.elements * 5 // 7
        place = locate(node.output, unravel(element, node.output_sizes))
        buffers = plant(trace, node.output.buffer, place, wrong_value(trace, number, element))
        report = trace.checker().check(buffers.__getitem__)
        assert report.faults[0][:3] == (number, kind, element)
        only = trace.checker().check(buffers.__getitem__, range(number, number + 1))
        assert only.kinds[kind].outside == 1 and only.worst == report.faults[0]


def wrong_value(trace: Trace, number: int, element: int) -> float:
    judgement = judge(trace, number, element)
    assert judgement.exact is not None and not judgement.is_fault
    value = torch.tensor(nearest(judgement.exact + 2 * judgement.bound))
    return float(value if judgement.bound else torch.nextafter(value, torch.tensor(inf)))


@pytest.mark.parametrize("kind", KINDS)
def test_check_finds_a_node_that_reads_a_neighbour(kind: Operation, short: Trace) -> None:
    number, wrong = next(miswire(short, kind))
    output = short.program.nodes[number].output
    report = short.checker().check({**short.buffers, output.buffer: wrong}.__getitem__)
    assert report.faults[0].node == number


def miswire(trace: Trace, kind: Operation) -> Iterator[tuple[int, Tensor]]:
    """(node, its output's buffer) with one operand read one element off, where that makes a difference."""
    for number in nodes_of(trace.program, kind):
        node = trace.program.nodes[number]
        for operand, by in product(node.operands, (1, -1)):
            shifted = {**trace.buffers, operand.buffer: trace.buffers[operand.buffer].roll(by)}
            wrong = run_node(trace, node, shifted)
            if not torch.equal(wrong, trace.buffers[node.output.buffer]):
                yield number, wrong


def run_node(trace: Trace, node: Node, buffers: Buffers) -> Tensor:
    """The buffer that the node writes to, with its part of it computed anew."""
    written = trace.buffers[node.output.buffer].clone()

    def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        flat = written if access.buffer == node.output.buffer else buffers[access.buffer]
        if sizes and sizes[0] == -1:
            reach = sum((n - 1) * s for n, s in zip(sizes[1:], strides[1:], strict=True))
            sizes = ((flat.numel() - 1 - access.offset - reach) // strides[0] + 1, *sizes[1:])
        return flat.as_strided(tuple(sizes), tuple(strides), access.offset)

    make_kernel(node, view)()
    return written


def test_a_claim_that_is_not_finite_is_a_fault_where_nothing_overflows(short: Trace) -> None:
    for kind in KINDS:
        number = nodes_of(short.program, kind)[-1]
        node = short.program.nodes[number]
        for value in (inf, float("nan")):
            buffers = plant(short, node.output.buffer, node.output.offset, value)
            report = short.checker().check(buffers.__getitem__, range(number, number + 1))
            assert report.faults == ((number, kind, 0, inf),)


# Streaming
def test_check_asks_for_each_buffer_once_and_says_when_it_is_done(short: Trace) -> None:
    log: list[tuple[str, int]] = []

    def get(buffer: int) -> Tensor:
        log.append(("get", buffer))
        return short.buffers[buffer]

    short.checker().check(get, release=lambda buffer: log.append(("release", buffer)))
    asked = [buffer for what, buffer in log if what == "get"]
    assert sorted(asked) == sorted(buffer for what, buffer in log if what == "release")
    assert sorted(asked) == list(range(len(short.program.buffers)))
    assert all(log.index(("get", buffer)) < log.index(("release", buffer)) for buffer in asked)
    held = [sum(1 if what == "get" else -1 for what, _ in log[:n]) for n in range(len(log))]
    assert max(held) < len(asked) // 2


def test_check_holds_no_buffer_that_it_has_released(short: Trace) -> None:
    held: dict[int, weakref.ref[Tensor]] = {}

    def get(buffer: int) -> Tensor:
        fetched = short.buffers[buffer].clone()
        held[buffer] = weakref.ref(fetched)
        return fetched

    gone: list[bool] = []
    short.checker().check(get, release=lambda buffer: gone.append(held[buffer]() is None))
    assert len(gone) == len(short.program.buffers) and all(gone)


def test_compute_last_uses_counts_only_the_nodes_asked_for(short: Trace) -> None:
    nodes = short.program.nodes
    uses = compute_last_uses(short.program, range(3))
    assert sorted(b for buffers in uses.values() for b in buffers) == sorted(
        {access.buffer for node in nodes[:3] for access in (*node.operands, node.output)}
    )
    assert max(uses) == 2


def test_check_of_a_part_sees_only_its_lies(short: Trace) -> None:
    number = nodes_of(short.program, Operation.EXPONENTIAL)[0]
    buffers = plant(short, short.program.nodes[number].output.buffer, 3, 5.0)
    check = short.checker().check
    assert not check(buffers.__getitem__, range(number)).faults
    assert check(buffers.__getitem__, range(number, number + 1)).faults
    assert not check(buffers.__getitem__, range(number + 20, len(short.program.nodes))).faults


def test_check_reads_buffers_that_lie_inside_others(short: Trace) -> None:
    shifted = {b: torch.cat([t[:1], t])[1:] for b, t in short.buffers.items()}
    assert not short.checker().check(shifted.__getitem__).faults


def test_check_refuses_what_is_not_the_program_s(short: Trace) -> None:
    with pytest.raises(InvalidInput, match="not the program's"):
        short.checker().check(lambda buffer: short.buffers[buffer][1:])
    with pytest.raises(InvalidInput, match="not the program's"):
        short.checker().check(lambda buffer: short.buffers[buffer].double())


def test_an_exact_program_is_refused() -> None:
    exact = build_program(replace(SHORT, numeric_format="exact15")).program
    with pytest.raises(InvalidInput, match="an exact program has no bounds"):
        TraceChecker(exact)


def test_check_refuses_a_token_outside_the_vocabulary(short: Trace) -> None:
    tokens = next(n for n, b in enumerate(short.program.buffers) if b.role is Role.TOKENS)
    for value in (-1, 1 << 40):
        with pytest.raises(InvalidInput, match="table"):
            short.checker().check(plant(short, tokens, 0, value).__getitem__)
