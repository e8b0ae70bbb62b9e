"""Parsers of what a task's submitter hands to nodes: the bytes of a program and of a layout."""

from collections.abc import Iterator

import torch

from lab.benchmarks.parsing.mutating import Parser
from lab.benchmarks.recipes_run.plain_decoder import PlainDecoder
from touchstone.protocol.compute.program.program_form import require_form
from touchstone.protocol.spec.program_codec import decode_program, encode_program
from touchstone.protocol.spec.program_rules import require_step
from touchstone.protocol.spec.weights_layout import decode_layout, encode_layout
from touchstone.step.optimizers import SGD
from touchstone.step.record_step import RecordedStep, Shape, record_step


def record(numeric_format: str, layers: int = 0) -> RecordedStep:
    """Records a step of few nodes."""
    torch.manual_seed(0)
    shape = Shape(1, 2, numeric_format, 128)
    return record_step(PlainDecoder(5, 4, layers, 1, 2), shape, optimizer=SGD())


def read_program(data: bytes) -> None:
    """Reads a program as a node does before it fetches a constant."""
    program = decode_program(data)
    require_step(program)
    require_form(program)


def list_parsers() -> Iterator[Parser]:
    """Yields a parser for each."""
    steps = [record("float32"), record("exact15"), record("float32", layers=1)]
    programs = tuple(encode_program(step.built.program) for step in steps)
    yield Parser("programs", programs, read_program)
    yield Parser("layouts", tuple(encode_layout(step.layout) for step in steps), decode_layout)
