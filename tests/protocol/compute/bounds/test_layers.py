"""Layers cover a program; each can be computed from its cuts, and they are few bytes of the trace."""

import pytest

from protocol.compute.bounds.layers import ROUNDED_FREELY, Layer, list_layers
from protocol.compute.program.contiguous import find_foldable
from protocol.compute.program.task_program import ProgramConfig, build_program
from protocol.compute.program.tensor_allocator import compute_lifetimes
from protocol.spec.containers import ModelConfig, OptimizerConfig
from protocol.spec.program import COMPUTED_ROLES, Program

LLAMA = ModelConfig(256, 64, 192, 3, 4, 4, 128)
MODELS = {
    "llama": LLAMA,
    "qwen3": ModelConfig(256, 64, 192, 3, 4, 2, 128, architecture="qwen3", head_size=16),
    "gpt2": ModelConfig(256, 64, 256, 3, 4, 4, 128, architecture="gpt2", tied=1),
}
"""0.2 million parameters each."""


@pytest.fixture(params=sorted(MODELS))
def program(request: pytest.FixtureRequest) -> Program:
    return build_program(ProgramConfig(MODELS[request.param], OptimizerConfig(), 8, 128, 512)).program


def list_cuts(program: Program, layers: list[Layer]) -> set[int]:
    return {program.nodes[layer.target].output.buffer for layer in layers if layer.is_cut}


def test_every_node_is_in_a_layer(program: Program) -> None:
    layers = list_layers(program)
    assert frozenset[int]().union(*(one.nodes for one in layers)) == frozenset(range(len(program.nodes)))
    assert all(one.target == max(one.nodes) for one in layers)
    assert [one.target for one in layers] == sorted(one.target for one in layers)


def test_a_layer_needs_its_cuts_and_nothing_else(program: Program) -> None:
    """What its nodes read is a cut, comes with the step, or is written by earlier nodes of the layer; a cut
    is whole before it is read, and its own layer comes first."""
    lifetimes, layers = compute_lifetimes(program), list_layers(program)
    cuts = list_cuts(program, layers)
    for layer in layers:
        written = set[int]()
        for number in sorted(layer.nodes):
            for buffer in {one.buffer for one in program.nodes[number].operands}:
                if program.buffers[buffer].role in COMPUTED_ROLES and buffer not in layer.cuts:
                    assert buffer in written
                assert buffer not in layer.cuts or lifetimes[buffer].written < number
            written.add(program.nodes[number].output.buffer)
        assert layer.cuts <= cuts
        assert not layer.cuts & written


def test_every_writer_of_a_cut_is_a_target_and_no_cut_is_a_copy(program: Program) -> None:
    """A kernel reads what was copied, not the copy."""
    layers = list_layers(program)
    cuts = list_cuts(program, layers)
    writers = {number for number, node in enumerate(program.nodes) if node.output.buffer in cuts}
    assert writers == {one.target for one in layers if one.is_cut}
    assert not cuts & find_foldable(program).keys()


def test_the_price_of_a_layer_is_what_its_nodes_round_freely(program: Program) -> None:
    for layer in list_layers(program):
        nodes = (program.nodes[number] for number in layer.nodes)
        assert layer.price == 4 * sum(one.elements for one in nodes if one.operation in ROUNDED_FREELY)


def test_all_cuts_and_the_dearest_layer_are_a_tenth_of_the_trace(program: Program) -> None:
    layers, sizes = list_layers(program), [one.size for one in program.buffers]
    cuts = list_cuts(program, layers)
    assert len(cuts) > 2 * LLAMA.layer_count
    assert 4 * sum(sizes[cut] for cut in cuts) + max(one.price for one in layers) < 0.1 * 4 * sum(sizes)
