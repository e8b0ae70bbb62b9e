"""The program of a task, made once from the PyTorch step, and the step facts that a referee is told.

The program has the same bytes on every machine. `writer.py` notes what `reference_step.plain_step` does, and
`lowering.py` turns that into nodes. Nodes that no output needs are dropped, terms of sums are copied into
runs (`layout.py`), and buffers are numbered as they appear.

Every node of the network rebuilds the facts of a task's training steps that a referee is told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import build_tables, parameter_count
from protocol.compute.model.reference_step import plain_step
from protocol.compute.program.builder import Builder, quantize_products
from protocol.compute.program.layout import View, make_contiguous, straighten
from protocol.compute.program.lowering import Lowering
from protocol.compute.program.tensor_allocator import return_freed
from protocol.compute.program.writer import Record, record
from protocol.spec.codec import compute_program_root, compute_step_root
from protocol.spec.containers import ModelConfig, OptimizerConfig, StepFacts, TaskSpec, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_data_root
from protocol.spec.params import FORMAT_NUMBERS, PRODUCT_BITS
from protocol.spec.program import (
    INDEX_ROLES,
    INPUTS,
    Access,
    Buffer,
    Node,
    Outputs,
    Program,
    Role,
    require_valid,
)
from protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from protocol.spec.task_rules import count_activations

MOST_RECORDED = 1 << 24
"""Parameters of a model, and elements of a tensor of its step, that is recorded with values."""


@dataclass(frozen=True)
class ProgramConfig:
    """Everything that a program depends on; sequences by tokens is the shape of a batch."""

    model: ModelConfig
    optimizer: OptimizerConfig
    sequences: int
    tokens: int
    chunk_terms: int
    product_bits: int = 0
    """Of quantized products, in exact programs; 0 in all others."""


def describe_program(spec: TrainingSpec) -> ProgramConfig:
    """What a task's program depends on."""
    return ProgramConfig(
        spec.model,
        spec.optimizer,
        spec.sequences_per_step,
        spec.sequence_tokens,
        spec.chunk_terms,
        PRODUCT_BITS.get(spec.numeric_format, 0),
    )


def with_program(spec: TrainingSpec) -> TrainingSpec:
    """The spec with the root of its program."""
    return replace(spec, program_root=compute_program_root(build_program(describe_program(spec)).program))


def require_program(spec: TrainingSpec) -> None:
    """Raises InvalidInput unless the spec's program root is the one that this node builds."""
    expected = with_program(spec).program_root
    if spec.program_root != expected:
        raise InvalidInput(
            what="the task's program is not the one that its model gives",
            expected=expected.hex(),
            actual=spec.program_root.hex(),
            where="program_root",
            remedy="Do not stake on this task; tell its submitter.",
        )


@dataclass(frozen=True)
class BuiltProgram:
    """A program and the values of its constants: flat float32 tensors by buffer."""

    program: Program
    constants: Mapping[int, Tensor]


@lru_cache(maxsize=8)
def build_program(config: ProgramConfig) -> BuiltProgram:
    """The program of a step; some seconds, then cached. Raises InvalidInput where the model uses what
    programs do not have."""
    builder = Builder(config.chunk_terms, config.product_bits)
    count = parameter_count(config.model)
    batch = (config.sequences, config.tokens)
    shapes: list[tuple[int, ...]] = [(count,), (count,), (count,), batch, batch, (3,)]
    constants: dict[int, Tensor] = {}
    views = [_add_input(builder, role, shape) for role, shape in zip(INPUTS, shapes, strict=True)]
    for table in list_tables(config):
        views.append(_add_input(builder, Role.CONSTANT, tuple(table.shape)))
        constants[views[-1].buffer] = table.reshape(-1)
    weights, first, second, loss = Lowering(builder).run(_record_step(config, shapes), views)
    constants[builder.numbers_buffer] = torch.tensor(builder.numbers, dtype=torch.float32)
    for number, values in constants.items():
        root = compute_data_root(values.numpy().tobytes())
        builder.buffers[number] = Buffer(Role.CONSTANT, values.numel(), root)
    outputs = Outputs(loss.buffer, weights.buffer, first.buffer, second.buffer)
    lowered = Program(config.chunk_terms, tuple(builder.buffers), tuple(builder.nodes), outputs)
    needed = drop_unneeded(lowered)
    if config.product_bits:
        needed = quantize_products(needed, config.product_bits)
    program, numbers = number_buffers(straighten(needed))
    require_valid(program)
    return BuiltProgram(program, {numbers[old]: t for old, t in constants.items() if old in numbers})


def _get_tables(config: ProgramConfig) -> tuple[Tensor, Tensor, Tensor]:
    tables = build_tables(config.model, config.tokens)
    return tables.cos_TN, tables.sin_TN, tables.mask_TS


def list_tables(config: ProgramConfig) -> list[Tensor]:
    """The tables that a program has as constants, in order: those with elements."""
    return [table for table in _get_tables(config) if table.numel()]


def _add_input(builder: Builder, role: Role, shape: tuple[int, ...]) -> View:
    return make_contiguous(builder.add_buffer(role, prod(shape)), 0, shape)


def _record_step(config: ProgramConfig, shapes: Sequence[tuple[int, ...]]) -> Record:
    """The aten operations of one step. What is done does not depend on values, so a large step is recorded
    without them: PyTorch takes three seconds to load what that needs, but no gigabytes."""
    largest = count_activations(config.model, config.sequences, config.tokens)
    device = "meta" if max(largest, parameter_count(config.model)) > MOST_RECORDED else "cpu"
    inputs = [
        torch.zeros(shape, dtype=torch.int64 if role in INDEX_ROLES else torch.float32, device=device)
        for role, shape in zip(INPUTS, shapes, strict=True)
    ]
    inputs += [table.to(device) for table in list_tables(config)]
    empty = [not table.numel() for table in _get_tables(config)]

    def step(*tensors: Tensor) -> tuple[Tensor, ...]:
        """The reference step over a list of tensors, as it is recorded."""
        weights, first, second, tokens, labels, scalars, *rest = tensors
        given = iter(rest)
        tables = Tables(*(scalars[:0] if absent else next(given) for absent in empty))
        return plain_step(
            weights, first, second, tokens, labels, scalars, tables, config.model, config.optimizer
        )

    recorded = record(step, inputs)
    return_freed()
    return recorded


def drop_unneeded(program: Program) -> Program:
    """Without nodes that no output needs."""
    outputs = program.outputs
    needed = {outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment}
    kept: list[Node] = []
    for node in reversed(program.nodes):
        if node.output.buffer in needed:
            kept.append(node)
            needed.update(operand.buffer for operand in node.operands)
    return replace(program, nodes=tuple(reversed(kept)))


def number_buffers(program: Program) -> tuple[Program, dict[int, int]]:
    """The inputs first, in order, the others as nodes come to them, without those that no node touches; and
    the new numbers by the old ones."""
    inputs = [n for role in INPUTS for n, buffer in enumerate(program.buffers) if buffer.role is role]
    numbers = {old: new for new, old in enumerate(inputs)}
    for node in program.nodes:
        for access in (*node.operands, node.output):
            numbers.setdefault(access.buffer, len(numbers))
    outputs = program.outputs
    results = (outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment)
    renumbered = Program(
        program.chunk_terms,
        tuple(program.buffers[old] for old in numbers),
        tuple(_renumber(node, numbers) for node in program.nodes),
        Outputs(*(numbers[buffer] for buffer in results)),
    )
    return renumbered, numbers


def _renumber(node: Node, numbers: Mapping[int, int]) -> Node:
    def move(access: Access) -> Access:
        """The access with its buffer's new number."""
        return replace(access, buffer=numbers[access.buffer])

    return replace(node, output=move(node.output), operands=tuple(map(move, node.operands)))


@lru_cache(maxsize=8)
def compute_step_facts(spec: TaskSpec) -> StepFacts:
    """The facts of a task's steps: program and scalars built anew (seconds, then cached).
    Raises InvalidInput for a numeric format that the referee has no bounds for."""
    training, program = spec.training, build_program(describe_program(spec.training)).program
    if training.numeric_format not in FORMAT_NUMBERS:
        raise InvalidInput(
            what="an unknown numeric format",
            expected=" or ".join(FORMAT_NUMBERS),
            actual=training.numeric_format,
            remedy="Do not stake on this task.",
        )
    leaves = compute_scalar_leaves(spec)
    return StepFacts(
        program_root=compute_program_root(program),
        dataset_root=training.dataset_root,
        scalars_root=compute_scalar_levels(leaves)[-1][0],
        program_nodes=len(program.nodes),
        program_buffers=len(program.buffers),
        numeric_format=FORMAT_NUMBERS[training.numeric_format],
        sequences_per_step=training.sequences_per_step,
        sequence_tokens=training.sequence_tokens,
        token_bytes=training.token_bytes,
        token_count=training.token_count,
        dataset_bytes=(training.token_count + training.heldout_tokens) * training.token_bytes,
        scalar_count=len(leaves),
        vocabulary_size=training.model.vocabulary_size,
    )


def with_step_root(spec: TaskSpec) -> TaskSpec:
    """The task with the root of its steps' facts."""
    root = compute_step_root(compute_step_facts(spec))
    return replace(spec, terms=replace(spec.terms, step_root=root))


def require_step_root(spec: TaskSpec) -> None:
    """Raises InvalidInput unless the task's step root is that of the facts which this node finds."""
    expected = compute_step_root(compute_step_facts(spec))
    if spec.terms.step_root != expected:
        raise InvalidInput(
            what="the task's step root is not that of its program, data and schedule",
            expected=expected.hex(),
            actual=spec.terms.step_root.hex(),
            where="step_root",
            remedy="Do not stake on this task; tell its submitter.",
        )
