"""The program of a task, made once from the PyTorch step, and the step facts that a referee is told.

The program has the same bytes on every machine. `writer.py` notes what `reference_step.plain_step` does, and
`lowering.py` turns that into nodes. Nodes that no output needs are dropped, terms of sums are copied into
runs (`layout.py`), and buffers are numbered as they appear.

Every node of the network rebuilds the facts of a task's training steps that a referee is told.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from protocol.compute.model.position_tables import Tables
from protocol.compute.model.reference_model import build_tables, parameter_count
from protocol.compute.model.reference_step import plain_step
from protocol.compute.program.built_program import BuiltProgram
from protocol.spec.codec import compute_step_root
from protocol.spec.containers import ModelConfig, OptimizerConfig, StepFacts, TaskSpec, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.params import FORMAT_NUMBERS, PRODUCT_BITS
from protocol.spec.program_codec import compute_program_root
from protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from touchstone.step.programs import write_program
from touchstone.step.recorder import record


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


@lru_cache(maxsize=8)
def build_program(config: ProgramConfig) -> BuiltProgram:
    """The program of a step; some seconds, then cached. Raises InvalidInput where the model uses what
    programs do not have."""
    count = parameter_count(config.model)
    vector, batch = ((count,), torch.float32), ((config.sequences, config.tokens), torch.int64)
    inputs = [vector, vector, vector, batch, batch, ((3,), torch.float32)]
    return write_program(record(_choose_step(config), inputs), config.chunk_terms, config.product_bits)


def _get_tables(config: ProgramConfig) -> tuple[Tensor, Tensor, Tensor]:
    tables = build_tables(config.model, config.tokens)
    return tables.cos_TN, tables.sin_TN, tables.mask_TS


def list_tables(config: ProgramConfig) -> list[Tensor]:
    """The tables that a program has as constants, in order: those with elements."""
    return [table for table in _get_tables(config) if table.numel()]


def _choose_step(config: ProgramConfig) -> Callable[..., tuple[Tensor, ...]]:
    tables = Tables(*_get_tables(config))

    def step(*inputs: Tensor) -> tuple[Tensor, ...]:
        """The reference step, as it is recorded."""
        weights, first, second, tokens, labels, scalars = inputs
        return plain_step(
            weights, first, second, tokens, labels, scalars, tables, config.model, config.optimizer
        )

    return step


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
