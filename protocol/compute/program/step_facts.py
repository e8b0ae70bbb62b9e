"""Computes the facts about a task's training steps that the referee contract gets."""

from dataclasses import replace
from functools import lru_cache

from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.spec.commitments import compute_step_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import FORMAT_NUMBERS
from touchstone.protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from touchstone.protocol.spec.task_spec import StepFacts, TaskSpec


@lru_cache(maxsize=8)
def compute_step_facts(spec: TaskSpec) -> StepFacts:
    """Returns the facts of a task's steps. Computing their scalars takes seconds the first time. Raises
    InvalidInput for a numeric format for which the referee has no bounds."""
    training, program = spec.training, get_program(spec.training).program
    if training.numeric_format not in FORMAT_NUMBERS:
        raise InvalidInput(
            what="an unknown numeric format",
            expected=" or ".join(FORMAT_NUMBERS),
            actual=training.numeric_format,
            remedy="Do not stake on this task.",
        )
    leaves = compute_scalar_leaves(spec)
    return StepFacts(
        program_root=training.program_root,
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
        vocabulary_size=training.vocabulary_size,
    )


def with_step_root(spec: TaskSpec) -> TaskSpec:
    """Returns the task with the root of its steps' facts."""
    root = compute_step_root(compute_step_facts(spec))
    return replace(spec, terms=replace(spec.terms, step_root=root))


def require_step_root(spec: TaskSpec) -> None:
    """Raises InvalidInput unless the task's step root is the root of the facts that this node computes."""
    expected = compute_step_root(compute_step_facts(spec))
    if spec.terms.step_root != expected:
        raise InvalidInput(
            what="the task's step root is not that of its program, data and schedule",
            expected=expected.hex(),
            actual=spec.terms.step_root.hex(),
            where="step_root",
            remedy="Do not stake on this task; tell its submitter.",
        )
