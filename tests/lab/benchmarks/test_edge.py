"""Bent traces: at the edge of every bound, outside of none, and worth more than chance."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from lab.benchmarks.bending.adjoint import Adjoints, Tape
from lab.benchmarks.bending.edge import ROOMY, Edge, Gains, push
from protocol.compute.bounds.check import TraceChecker
from protocol.compute.determinism import pin_kernels
from protocol.compute.model.reference_model import init_parameters
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.task_program import ProgramConfig, build_program
from protocol.spec import referee
from protocol.spec.containers import ModelConfig, OptimizerConfig
from protocol.spec.program import INDEX_ROLES, Operation, locate, unravel

MODEL = ModelConfig(256, 16, 44, 1, 2, 1, 128)


@dataclass(frozen=True)
class Bent:
    """An honest step and the same one bent along a direction in the new weights."""

    tape: Tape
    adjoints: Adjoints
    direction: Tensor
    honest: Tensor
    gains: Gains

    def measure(self) -> float:
        """How far the tape's new weights stand in the direction."""
        change = self.tape.read_results().weights.double() - self.honest
        return float(change @ self.direction.double())


@pytest.fixture(scope="module", params=[128, 512])
def bent(request: pytest.FixtureRequest) -> Bent:
    pin_kernels(1)
    torch.manual_seed(0)
    built = build_program(ProgramConfig(MODEL, OptimizerConfig(), 3, 128, request.param))
    weights = init_parameters(MODEL, 0)
    state = (weights, torch.randn(weights.shape) * 1e-3, torch.rand(weights.shape) * 1e-6)
    tokens, labels = (torch.randint(0, 256, (3, 128)) for _ in range(2))
    scalars = torch.tensor([0.1, 0.1, 0.05])
    tape = Tape(built)
    tape.load(state, tokens, labels, scalars)
    tape.run()
    results = tape.read_results()
    for ours, theirs in zip(
        results, Interpreter(built.program, built.constants).run(state, tokens, labels, scalars), strict=True
    ):
        assert torch.equal(ours, theirs)
    adjoints, direction = Adjoints(tape), torch.randn(weights.shape)
    adjoints.compute({built.program.outputs.weights: direction})
    gains = Edge(tape).run(adjoints.values)
    return Bent(tape, adjoints, direction, results.weights.double(), gains)


def bend_again(bent: Bent) -> None:
    Edge(bent.tape).run(bent.adjoints.values)


def test_no_element_of_a_bent_trace_is_outside(bent: Bent) -> None:
    bend_again(bent)
    report = TraceChecker(bent.tape.program).check(bent.tape.buffers.__getitem__)
    assert not report.faults
    for kind in ROOMY - {Operation.LOGARITHM}:  # which moves only the loss
        assert 0.9 < report.kinds[kind].worst_ratio <= 1, kind


def test_the_referee_agrees_that_bent_elements_are_inside(bent: Bent) -> None:
    bend_again(bent)
    generator = torch.Generator().manual_seed(0)
    for number, node in enumerate(bent.tape.program.nodes):
        if node.operation in ROOMY and node.terms <= 128:
            element = int(torch.randint(node.elements, (1,), generator=generator))
            judgement = judge(bent.tape, number, element)
            assert not judgement.is_fault, (number, judgement)


def judge(tape: Tape, number: int, element: int) -> referee.Judgement:
    node = tape.program.nodes[number]

    def fetch(buffer: int, place: int) -> int:
        values = tape.buffers[buffer]
        is_index = tape.program.buffers[buffer].role in INDEX_ROLES
        return int(values[place]) if is_index else int(values[place].view(torch.int32)) & 0xFFFFFFFF

    place = locate(node.output, unravel(element, node.output_sizes))
    return referee.judge_element(node, element, fetch, fetch(node.output.buffer, place))


def test_the_weights_move_as_far_as_the_bounds_promise(bent: Bent) -> None:
    bend_again(bent)
    assert bent.measure() == pytest.approx(sum(bent.gains.values()), rel=0.03)


def test_derivatives_gain_more_than_chance_does(bent: Bent) -> None:
    bend_again(bent)
    wished, largest = bent.measure(), 0.0
    for seed in range(3):
        torch.manual_seed(seed)
        Edge(bent.tape).run({b: torch.randn_like(values) for b, values in bent.adjoints.values.items()})
        largest = max(largest, abs(bent.measure()))
    assert largest < wished / 5


def test_no_wish_leaves_a_step_as_it_is_but_for_rounding(bent: Bent) -> None:
    bend_again(bent)
    wished = bent.measure()
    Edge(bent.tape).run({b: torch.zeros_like(values) for b, values in bent.adjoints.values.items()})
    assert abs(bent.measure()) < wished / 20


def test_push_stays_inside_whatever_the_room() -> None:
    torch.manual_seed(0)
    exact = torch.randn(100_000, dtype=torch.float64)
    spacing = (torch.nextafter(exact.float(), torch.tensor(9.0)) - exact.float()).abs().double()
    for room in (0.51, 1.0, 1.7, 30.0):
        for sign in (1.0, -1.0, 0.0):
            claimed = push(exact, spacing * room, torch.full_like(exact, sign), 0.999)
            distance = (claimed.double() - exact) / (spacing * room)
            assert bool((distance.abs() <= 1).all())
            if sign and room > 1:
                assert float((distance * sign).mean()) > 0.5
