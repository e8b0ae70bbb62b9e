"""What a submitter could write into a task to hurt nodes that serve it, and how each is refused.

A node looks before it stakes, a submitter before it pays. The rules of members, windows and amounts are
`game.terms.check_terms` and `game.money.check_money`. What depends on a node's own speed it measures itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction

from protocol.spec.containers import ModelConfig, TaskSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import is_finite, to_fraction
from protocol.spec.merkle import compute_zero_tensor_root
from protocol.spec.params import (
    ARCHITECTURES,
    DECAY_SHAPES,
    MAX_PARAMETERS,
    MAX_SEGMENT_STEPS,
    MAX_TASK_SEGMENTS,
    MIN_TAU,
    NUMERIC_FORMATS,
    PRODUCT_BITS,
    PROTOCOL_VERSION,
    ZERO_WORD,
)
from protocol.spec.program import CHUNK_TERMS
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums

LEAST_EPSILON = 2.0**-100
"""Of the optimizer. It is multiplied by sqrt(1 - beta2^t), 2^-12 or more: where nothing of it is left, a
weight without a gradient becomes 0 / 0 at the first step, and no honest node has a state to claim."""


@dataclass(frozen=True)
class Malformation:
    """One broken rule: its name, what it asks for, and what the task says."""

    name: str
    expected: str
    actual: object


Rule = tuple[bool, str, str, object]
"""Holds, name, expected, actual."""


def _range(name: str, value: float, least: float, most: float) -> Rule:
    return least <= value <= most, name, f"{least} .. {most}" if least < most else f"{least}", value


def find_training_malformations(spec: TaskSpec) -> list[Malformation]:
    """Every rule that a task breaks; empty for one that is safe to serve. Never raises on a decoded task."""
    # Roots are recomputed last, once the sizes are known to be harmless.
    return find_size_malformations(spec) or _list_broken(_root_rules(spec))


def find_size_malformations(spec: TaskSpec) -> list[Malformation]:
    """The same for sizes and numbers alone: roots need not be the task's own, only not zero."""
    cheap = [*_version_rules(spec), *_model_rules(spec), *_optimizer_rules(spec), *_schedule_rules(spec)]
    return _list_broken([*cheap, *_step_rules(spec), *_data_rules(spec), *_limit_rules(spec)])


def _list_broken(rules: Iterable[Rule]) -> list[Malformation]:
    return [Malformation(name, expected, actual) for holds, name, expected, actual in rules if not holds]


def refuse_broken(broken: list[Malformation]) -> None:
    """Raises InvalidInput that names every broken rule, where there is one."""
    if broken:
        raise InvalidInput(
            what="the task is malformed",
            expected="; ".join(f"{item.name}: {item.expected}" for item in broken),
            actual="; ".join(f"{item.name}: {item.actual}" for item in broken),
            where=", ".join(item.name for item in broken),
            remedy="Do not stake on it; its submitter has to post a corrected task.",
        )


def count_parameters(model: ModelConfig) -> int:
    """Elements of W for the Llama family without biases and with an output layer of its own."""
    d, f, kv = model.hidden_size, model.intermediate_size, model.kv_head_count * model.head_size
    layer = 2 * d * model.head_count * model.head_size + 2 * d * kv + 3 * d * f + 2 * d
    return 2 * model.vocabulary_size * d + model.layer_count * layer + d


def _version_rules(spec: TaskSpec) -> Iterator[Rule]:
    training = spec.training
    version = training.protocol_version
    yield version == PROTOCOL_VERSION, "protocol_version", f"{PROTOCOL_VERSION}", version
    yield (
        training.architecture in ARCHITECTURES,
        "architecture",
        f"one of {ARCHITECTURES}",
        training.architecture,
    )
    yield (
        training.numeric_format in NUMERIC_FORMATS,
        "numeric_format",
        f"one of {NUMERIC_FORMATS}",
        training.numeric_format,
    )


def _model_rules(spec: TaskSpec) -> Iterator[Rule]:
    model = spec.training.model
    sizes = [getattr(model, field.name) for field in fields(model) if field.type is int]
    yield min(sizes) >= 1, "model_sizes", "every size at least 1", sizes
    if min(sizes) < 1:
        return
    yield model.vocabulary_size >= 2, "vocabulary_size", "at least 2", model.vocabulary_size
    even_heads = model.hidden_size % (2 * model.head_count) == 0
    yield (
        even_heads,
        "head_count",
        "heads of one even size (rotary pairs)",
        (model.hidden_size, model.head_count),
    )
    grouped = model.head_count % model.kv_head_count == 0
    yield grouped, "kv_head_count", f"a divisor of {model.head_count}", model.kv_head_count
    yield (
        model.rope_theta > 0 and model.rms_epsilon > 0,
        "model_constants",
        "rope_theta and rms_epsilon above 0",
        (model.rope_theta, model.rms_epsilon),
    )
    count = count_parameters(model)
    # A wrong count would make every leaf count, and so every proof, wrong.
    yield count <= MAX_PARAMETERS, "model_too_large", f"at most {MAX_PARAMETERS} parameters", count
    yield spec.terms.parameter_count == count, "parameter_count", str(count), spec.terms.parameter_count


def _optimizer_rules(spec: TaskSpec) -> Iterator[Rule]:
    o = spec.training.optimizer
    # beta = 1 never learns and divides by a bias correction of 0.
    yield 0 <= o.beta1 < 1 and 0 <= o.beta2 < 1, "betas", "beta1 and beta2 in [0, 1)", (o.beta1, o.beta2)
    yield o.epsilon >= LEAST_EPSILON, "epsilon", f"at least {LEAST_EPSILON}", o.epsilon
    yield _range("weight_decay", o.weight_decay, 0, 1)
    yield o.clip_norm > 0, "clip_norm", "above 0", o.clip_norm


def _schedule_rules(spec: TaskSpec) -> Iterator[Rule]:
    schedule, terms = spec.training.schedule, spec.terms
    total = terms.rounds * terms.inner_steps
    yield (
        0 < schedule.peak_learning_rate <= 1,
        "peak_learning_rate",
        "above 0, at most 1",
        schedule.peak_learning_rate,
    )
    # A schedule that ends early leaves a round without a learning rate.
    yield _range("total_steps", schedule.total_steps, total, total)
    yield _range("warmup_steps", schedule.warmup_steps, 0, total)
    yield _range("decay_steps", schedule.decay_steps, 0, total)
    yield schedule.decay_shape in DECAY_SHAPES, "decay_shape", f"one of {DECAY_SHAPES}", schedule.decay_shape
    yield _range("final_ratio", schedule.final_ratio, 0, 1)
    # Where moments carry over, solvers differ in local step, and neither a schedule leaf nor a learning rate
    # under the scalars' root could hold for all.
    most = 0 if terms.carry_moments else terms.inner_steps
    yield _range("inner_warmup_steps", schedule.inner_warmup_steps, 0, most)


def _step_rules(spec: TaskSpec) -> Iterator[Rule]:
    """Rules of rounds, segments and the outer step."""
    t = spec.terms
    yield t.rounds >= 1, "rounds", "at least 1", t.rounds
    yield _range("segment_steps", t.segment_steps, 1, MAX_SEGMENT_STEPS)
    whole = t.segment_steps >= 1 and t.inner_steps >= 1 and t.inner_steps % t.segment_steps == 0
    yield whole, "inner_steps", "a positive multiple of segment_steps", t.inner_steps
    if whole:
        segments = t.segment_count
        yield _range("task_segments", t.rounds * segments, 1, MAX_TASK_SEGMENTS)
    yield _range("carry_moments", t.carry_moments, 0, 1)
    # The outer step must not leave the finite numbers by design (docs/spec.md, section 5).
    rate, momentum = t.outer_learning_rate, t.outer_momentum
    yield (
        _within(rate, Fraction(0), Fraction(4)) and rate != 0,
        "outer_learning_rate",
        "float32 in (0, 4)",
        hex(rate),
    )
    yield _within(momentum, Fraction(0), Fraction(1)), "outer_momentum", "float32 in [0, 1)", hex(momentum)


def _within(bits: int, low: Fraction, high: Fraction) -> bool:
    return bits < 1 << 31 and is_finite(bits) and low <= to_fraction(bits) < high


def _data_rules(spec: TaskSpec) -> Iterator[Rule]:
    training = spec.training
    length = training.sequence_tokens
    yield training.sequences_per_step >= 1, "sequences_per_step", "at least 1", training.sequences_per_step
    context = training.model.context_tokens
    yield _range("sequence_tokens", length, 1, context)
    yield training.token_count > length, "token_count", f"more than one row ({length})", training.token_count
    # All parties watch the held-out loss; without it a poisoned task looks like any other.
    yield (
        training.heldout_tokens > length,
        "heldout_tokens",
        f"more than one row ({length})",
        training.heldout_tokens,
    )
    yield training.dataset_root != ZERO_WORD, "dataset_root", "a root", "the zero word"
    yield training.program_root != ZERO_WORD, "program_root", "a root", "the zero word"
    yield training.chunk_terms in CHUNK_TERMS, "chunk_terms", f"one of {CHUNK_TERMS}", training.chunk_terms
    yield spec.terms.initial_weights_root != ZERO_WORD, "initial_weights_root", "a root", "the zero word"
    yield spec.terms.step_root != ZERO_WORD, "step_root", "a root", "the zero word"


def _limit_rules(spec: TaskSpec) -> Iterator[Rule]:
    limits = spec.terms.limits
    if spec.training.numeric_format in PRODUCT_BITS:
        return  # Nothing is compared by limits.
    # Limits below the noise of honest hardware would void honest work.
    least = min(limits.tau_m, limits.tau_v, limits.tau_w)
    yield least >= MIN_TAU, "limits", f"every tau at least {MIN_TAU} (2^-20)", least


def _root_rules(spec: TaskSpec) -> Iterator[Rule]:
    terms = spec.terms
    zero = compute_zero_tensor_root(terms.parameter_count)
    yield terms.zero_root == zero, "zero_root", zero.hex(), terms.zero_root.hex()
    # A schedule leaf that is too small rejects honest weights; one that is too large lets a cheat through.
    schedule = compute_schedule_levels(compute_schedule_sums(spec))[-1][0]
    yield terms.schedule_root == schedule, "schedule_root", schedule.hex(), terms.schedule_root.hex()
