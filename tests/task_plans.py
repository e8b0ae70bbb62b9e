"""Plans of tasks that train the plain decoder, for tests and benchmarks that post them."""

from dataclasses import fields, replace
from typing import Any

from tests.task_models import DecoderStep, describe_program, record_decoder
from touchstone.node.submit import RoundPlan
from touchstone.protocol.spec.program import DEFAULT_CHUNK_TERMS
from touchstone.protocol.spec.program_codec import compute_program_root
from touchstone.step.optimizers import AdamW, Optimizer
from touchstone.step.plain_decoder import DecoderConfig


def make_plan(
    model: DecoderConfig,
    optimizer: Optimizer | None = None,
    chunk_terms: int = DEFAULT_CHUNK_TERMS,
    **values: Any,
) -> RoundPlan:
    """A plan with these values whose step is that of a decoder."""
    batch = (values["sequences_per_step"], values["sequence_tokens"])
    named = values.get("numeric_format", "float32")
    config = DecoderStep(model, optimizer or AdamW(), *batch, chunk_terms, named)
    return RoundPlan(step=record_decoder(config), **values)


def respecify_plan(plan: RoundPlan, **changes: Any) -> RoundPlan:
    """The plan with other values, or another `model`, `optimizer` or `chunk_terms`: its step is recorded
    anew."""
    own = {one.name for one in fields(RoundPlan)}
    changed = replace(plan, **{name: value for name, value in changes.items() if name in own})
    config = replace(
        describe_plan(plan),
        sequences=changed.sequences_per_step,
        tokens=changed.sequence_tokens,
        numeric_format=changed.numeric_format,
        **{name: value for name, value in changes.items() if name not in own},
    )
    return replace(changed, step=record_decoder(config))


def describe_plan(plan: RoundPlan) -> DecoderStep:
    """What the step of a plan was made of in this process."""
    return describe_program(compute_program_root(plan.step.built.program))
