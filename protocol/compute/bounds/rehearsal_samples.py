"""Draws the nodes and elements of a program that a rehearsal shows to a referee."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from touchstone.protocol.compute.bounds.trace_check import Provider
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.program_addressing import iterate_runs, locate, unravel
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.uniform_draw import draw_uniform

CANDIDATES = 4
"""How many elements of a node are drawn. The first one that a referee would convict if it were wrong is
shown."""
Run = tuple[int, int, int]
"""(buffer, first element, count): what one opening shows."""


class Sample(NamedTuple):
    """A drawn node, and some of its elements."""

    node: int
    elements: tuple[int, ...]


def draw_samples(program: Program, seed: bytes) -> list[Sample]:
    """Returns one node for each kind of operation in the program, and some of its elements. The node must not
    read the buffer that it writes to, or a falsified element would be an operand."""
    kinds: dict[Operation, list[int]] = defaultdict(list)
    for number, node in enumerate(program.nodes):
        if node.output.buffer not in {operand.buffer for operand in node.operands}:
            kinds[node.operation].append(number)
    samples = []
    for kind, numbers in sorted(kinds.items()):
        counter = (1 + CANDIDATES) * kind
        number = numbers[draw_uniform(seed, counter, len(numbers))]
        count = program.nodes[number].elements
        draws = (draw_uniform(seed, counter + place, count) for place in range(1, 1 + CANDIDATES))
        samples.append(Sample(number, tuple(dict.fromkeys(draws))))
    return samples


def list_sample_runs(program: Program, sample: Sample, get: Provider) -> Iterator[Run]:
    """Yields the runs of all samples. `get` need only know the inputs, because all indices are among the
    inputs."""
    for element in sample.elements:
        yield find_output(program, sample.node, element)
        yield from iterate_runs(program.nodes[sample.node], element, get)


def find_output(program: Program, number: int, element: int) -> Run:
    """Returns the run that holds one element of a node's output."""
    node = program.nodes[number]
    return node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1
