"""Models of the tasks that tests and benchmarks train: the plain decoder, in sizes, and what tasks name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.known_steps import TaskStep, get_step, learn_step, name_step
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import DEFAULT_CHUNK_TERMS
from touchstone.protocol.spec.program_codec import compute_program_root
from touchstone.protocol.spec.task_spec import NamedBytes, TrainingSpec
from touchstone.step.borrowed_module import borrowed
from touchstone.step.first_weights import describe_weights
from touchstone.step.optimizers import AdamW, Optimizer, Parameter
from touchstone.step.plain_decoder import Decoder, DecoderConfig, describe_decoder
from touchstone.step.plain_step import PlainStep, lay_out
from touchstone.step.record_step import RecordedStep, Shape, next_token_loss, record_step

UNNAMED = NamedBytes(bytes(32), 1)


@dataclass(frozen=True)
class DecoderStep:
    """Everything that a step depends on; sequences by tokens is the shape of a batch."""

    model: DecoderConfig
    optimizer: Optimizer = field(default_factory=AdamW)
    sequences: int = 1
    tokens: int = 1
    chunk_terms: int = DEFAULT_CHUNK_TERMS
    numeric_format: str = "float32"


_described: dict[bytes, DecoderStep] = {}
"""By the root of the program."""


# A decoder
@lru_cache(maxsize=16)
def get_decoder(model: DecoderConfig) -> Decoder:
    """The module, with its first weights. Do not change it."""
    return Decoder(model)


@lru_cache(maxsize=64)
def parameter_layout(model: DecoderConfig) -> tuple[Parameter, ...]:
    """All parameters in the order of W."""
    return lay_out(get_decoder(model))


def parameter_count(model: DecoderConfig) -> int:
    """Elements of W."""
    return sum(one.size for one in parameter_layout(model))


def split_parameters(weights: Tensor, model: DecoderConfig) -> dict[str, Tensor]:
    """Views of W by name."""
    return {one.name: one.cut(weights) for one in parameter_layout(model)}


def compute_logits(params: Mapping[str, Tensor], tokens: Tensor, model: DecoderConfig) -> Tensor:
    """float32 [sequences, tokens, vocabulary]."""
    module = get_decoder(model)
    with borrowed(module, params):
        logits: Tensor = module(tokens)
    return logits


def compute_loss(
    params: Mapping[str, Tensor], tokens: Tensor, labels: Tensor, model: DecoderConfig
) -> Tensor:
    """Mean cross entropy in nats, a scalar."""
    logits = compute_logits(params, tokens, model)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def compute_gradient(
    weights: Tensor, tokens: Tensor, labels: Tensor, model: DecoderConfig
) -> tuple[Tensor, Tensor]:
    """The loss, and its gradient as one flat vector."""
    return make_plain_step(DecoderStep(model)).compute_gradient(weights, tokens, labels)


def make_plain_step(config: DecoderStep) -> PlainStep:
    """The step in plain PyTorch."""
    module = get_decoder(config.model)
    return PlainStep(module, parameter_layout(config.model), next_token_loss, config.optimizer)


@lru_cache(maxsize=64)
def _describe_weights(model: DecoderConfig) -> Any:
    return describe_weights(get_decoder(model), parameter_layout(model))


def init_parameters(model: DecoderConfig, seed: int) -> Tensor:
    """The first weights of a model."""
    return draw_weights(_describe_weights(model), seed)


# A step
@lru_cache(maxsize=32)
def record_decoder(config: DecoderStep) -> RecordedStep:
    """The step, recorded, and known to this process from then on."""
    shape = Shape(config.sequences, config.tokens, config.numeric_format, config.chunk_terms)
    recorded = record_step(
        get_decoder(config.model), shape, optimizer=config.optimizer, config=describe_decoder(config.model)
    )
    learn_step(TaskStep(recorded.built, recorded.layout))
    _described[compute_program_root(recorded.built.program)] = config
    return recorded


def make_step(model: DecoderConfig, sequences: int = 2, tokens: int = 16) -> TaskStep:
    """The step of a decoder on a small batch."""
    recorded = record_decoder(DecoderStep(model, sequences=sequences, tokens=tokens))
    return TaskStep(recorded.built, recorded.layout)


def build_program(config: DecoderStep) -> BuiltProgram:
    """The program of a step."""
    return record_decoder(config).built


def with_step(spec: TrainingSpec, config: DecoderStep) -> TrainingSpec:
    """The spec with the step, in the format and shape of the spec, and what a task names of it."""
    sequences, tokens = spec.sequences_per_step, spec.sequence_tokens
    config = replace(config, sequences=sequences, tokens=tokens, numeric_format=spec.numeric_format)
    recorded = record_decoder(config)
    names = name_step(TaskStep(recorded.built, recorded.layout))
    beta1, beta2 = map(nearest, config.optimizer.betas)
    return replace(
        spec,
        program_root=names.program_root,
        program=names.program,
        layout=names.layout,
        vocabulary_size=config.model.vocabulary_size,
        beta1=beta1,
        beta2=beta2,
    )


def make_training(
    model: DecoderConfig,
    optimizer: Optimizer | None = None,
    chunk_terms: int = DEFAULT_CHUNK_TERMS,
    **values: Any,
) -> TrainingSpec:
    """A spec with these values that trains a decoder."""
    named: dict[str, Any] = {"program_root": bytes(32), "program": UNNAMED, "layout": UNNAMED}
    spec = TrainingSpec(**named, vocabulary_size=2, beta1=0.0, beta2=0.0, **values)
    return with_step(spec, DecoderStep(model, optimizer or AdamW(), chunk_terms=chunk_terms))


def respecify(spec: TrainingSpec, **changes: Any) -> TrainingSpec:
    """The spec with other values, or another `model`, `optimizer` or `chunk_terms`."""
    config = describe_step(spec)
    own = {one.name for one in fields(TrainingSpec)}
    changed = replace(config, **{name: value for name, value in changes.items() if name not in own})
    return with_step(replace(spec, **{n: value for n, value in changes.items() if n in own}), changed)


def describe_step(spec: TrainingSpec) -> DecoderStep:
    """What the step of a spec was made of in this process."""
    return describe_program(spec.program_root)


def describe_program(root: bytes) -> DecoderStep:
    """The same by the root of the program."""
    return _described[root]


def get_model(spec: TrainingSpec) -> DecoderConfig:
    """The model of a spec that was made in this process."""
    return describe_step(spec).model


def draw_first(spec: TrainingSpec, seed: int | None = None) -> Tensor:
    """The first weights of a task, or those of another seed."""
    return draw_weights(get_step(spec).layout, spec.initial_seed if seed is None else seed)
