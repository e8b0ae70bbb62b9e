"""Which models and tasks exist: what a submitter could write to hurt nodes, and how each is refused.

A node looks before it stakes, a submitter before it pays. The rules of members, windows and amounts are
`game.terms.check_terms` and `game.money.check_money`. What depends on a node's own speed it measures itself.

Which shapes of models exist, family by family, and how many parameters each has. The layout of the parameters
themselves is in `protocol/compute/model/families`; a test holds the two counts together over all families.
Every rule is judged from numbers alone: nothing is built for a hostile task.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from protocol.spec.containers import ModelConfig, RopeScaling, TaskSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import is_finite, nearest, to_fraction
from protocol.spec.merkle import compute_zero_tensor_root
from protocol.spec.params import (
    ARCHITECTURES,
    DECAY_SHAPES,
    MAX_ACTIVATION_ELEMENTS,
    MAX_DATASET_BYTES,
    MAX_HEAD_ELEMENTS,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_PARAMETERS,
    MAX_SEGMENT_STEPS,
    MAX_SEQUENCE_TOKENS,
    MAX_TASK_SEGMENTS,
    MIN_TAU,
    NUMERIC_FORMATS,
    PRODUCT_BITS,
    PROTOCOL_VERSION,
    ROPE_SCALINGS,
    ZERO_WORD,
)
from protocol.spec.program import CHUNK_TERMS
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums

# --- Shapes of models ---------------------------------------------------------------------------------------
Rule = tuple[bool, str, str, object]
"""Holds, name, expected, actual."""
SIZES = (
    "vocabulary_size", "hidden_size", "intermediate_size", "layer_count", "head_count", "kv_head_count",
    "context_tokens",
)  # fmt: skip
"""Fields of `ModelConfig` that are 1 or more in every family."""
MAX_SIZE = 1 << 32
"""Of any size of a model: what a task's text holds is larger, and products of it take time."""
MAX_FACTOR = 1 << 20
"""Of numbers of a rope scaling: frequencies stay far inside float32."""
LEAST_NORM_EPSILON = nearest(2.0**-80)
"""Of a norm: a row of zeros is divided by its root, and the square of that stays a normal float32."""


def judge_range(name: str, value: float, least: float, most: float) -> Rule:
    """The rule that a number lies in least .. most."""
    return least <= value <= most, name, f"{least} .. {most}" if least < most else f"{least}", value


def count_parameters(model: ModelConfig) -> int:
    """Elements of W. The model's sizes are 1 or more and its family is known."""
    v, d, layers = model.vocabulary_size, model.hidden_size, model.layer_count
    output = 0 if model.tied else v * d
    if model.architecture == "gpt2":
        # Norms, c_attn, c_proj of the attention; then c_fc and c_proj of the hidden layer: all with biases.
        f = model.intermediate_size
        layer = 4 * d + (d + 1) * 3 * d + (d + 1) * d + (d + 1) * f + (f + 1) * d
        return v * d + model.context_tokens * d + layers * layer + 2 * d + output
    q, kv = model.head_count * model.head_elements, model.kv_head_count * model.head_elements
    layer = 2 * d * q + 2 * d * kv + 3 * d * model.intermediate_size + 2 * d
    if model.architecture == "qwen3":
        layer += 2 * model.head_elements
    return v * d + layers * layer + d + output


def count_activations(model: ModelConfig, sequences: int, tokens: int) -> int:
    """Elements of the largest tensor of a forward pass on a batch: logits, hidden layers, scores of all
    heads, or queries, keys and values, which lie side by side in GPT-2."""
    heads = model.head_count
    width = 3 * heads * model.head_elements if heads else 0
    widest = max(model.vocabulary_size, model.intermediate_size, model.hidden_size, width, heads * tokens)
    return sequences * tokens * widest


def has_sizes(model: ModelConfig) -> bool:
    """Whether every size is 1 or more and the family is known, so that parameters can be counted."""
    return model.architecture in ARCHITECTURES and all(getattr(model, name) >= 1 for name in SIZES)


def list_model_rules(model: ModelConfig) -> Iterator[Rule]:
    """What a model must keep. Rules after a broken size or an unknown family are left out."""
    yield model.architecture in ARCHITECTURES, "architecture", f"one of {ARCHITECTURES}", model.architecture
    sizes = [getattr(model, name) for name in SIZES]
    sound = min(sizes) >= 1 and max(sizes) <= MAX_SIZE
    yield sound, "model_sizes", f"every size 1 .. {MAX_SIZE}", sizes
    if not (sound and has_sizes(model)):
        return
    yield model.vocabulary_size >= 2, "vocabulary_size", "at least 2", model.vocabulary_size
    yield judge_range("layer_count", model.layer_count, 1, MAX_LAYERS)
    yield judge_range("tied", model.tied, 0, 1)
    yield from _head_rules(model)
    grouped = model.head_count % model.kv_head_count == 0
    yield grouped, "kv_head_count", f"a divisor of {model.head_count}", model.kv_head_count
    yield (
        model.rope_theta >= 1 and model.norm_epsilon >= LEAST_NORM_EPSILON,
        "model_constants",
        "rope_theta of 1 or more, norm_epsilon of 2^-80 or more",
        (model.rope_theta, model.norm_epsilon),
    )
    yield from _scaling_rules(model.rope_scaling)
    if model.architecture == "gpt2":
        yield from _unused_rules(model)
    count = count_parameters(model)
    yield count <= MAX_PARAMETERS, "model_too_large", f"at most {MAX_PARAMETERS} parameters", count


def _head_rules(model: ModelConfig) -> Iterator[Rule]:
    """Heads of Qwen3 have any even size; those of the others cut the hidden size into even parts."""
    yield judge_range("head_count", model.head_count, 1, MAX_HEADS)
    yield judge_range("head_size", model.head_size, 0, MAX_HEAD_ELEMENTS)
    heads, step = model.head_count, 1 if model.architecture == "gpt2" else 2
    is_even = model.head_elements % step == 0 and model.head_elements >= 1
    cuts = model.hidden_size % heads == 0 or (model.architecture == "qwen3" and model.head_size > 0)
    yield (
        cuts and is_even and model.head_elements <= MAX_HEAD_ELEMENTS,
        "head_count",
        f"heads of one size, a multiple of {step} up to {MAX_HEAD_ELEMENTS}, that cut hidden_size",
        (model.hidden_size, heads, model.head_elements),
    )


def _scaling_rules(scaling: RopeScaling) -> Iterator[Rule]:
    """A known kind, whose numbers are in range; what the kind does not use is as by default."""
    yield scaling.kind in ROPE_SCALINGS, "rope_scaling", f"one of {ROPE_SCALINGS}", scaling.kind
    used = {"default": RopeScaling(), "linear": RopeScaling("linear", scaling.factor)}
    plain = used.get(scaling.kind, scaling)
    yield plain == scaling, "rope_scaling", f"no other numbers than {plain}", scaling
    numbers = (scaling.factor, scaling.low_frequency, scaling.high_frequency, scaling.original_tokens)
    holds = scaling.factor >= 1 and 0 < scaling.low_frequency < scaling.high_frequency
    yield (
        holds and max(numbers) <= MAX_FACTOR and scaling.original_tokens >= 1,
        "rope_scaling",
        f"a factor of 1 or more, 0 < low < high frequency, all at most {MAX_FACTOR}",
        numbers,
    )


def _unused_rules(model: ModelConfig) -> Iterator[Rule]:
    """GPT-2 has neither rotary positions nor shared or own sizes of heads."""
    kept = (model.rope_theta, model.rope_scaling, model.head_size, model.kv_head_count)
    plain = (ModelConfig.rope_theta, RopeScaling(), 0, model.head_count)
    yield kept == plain, "gpt2_fields", f"theta, scaling, head size and kv heads: {plain}", kept


LEAST_EPSILON = 2.0**-100
"""Of the optimizer. It is multiplied by sqrt(1 - beta2^t), 2^-12 or more: where nothing of it is left, a
weight without a gradient becomes 0 / 0 at the first step, and no honest node has a state to claim."""


@dataclass(frozen=True)
class Malformation:
    """One broken rule: its name, what it asks for, and what the task says."""

    name: str
    expected: str
    actual: object


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


def _version_rules(spec: TaskSpec) -> Iterator[Rule]:
    training = spec.training
    version = training.protocol_version
    yield version == PROTOCOL_VERSION, "protocol_version", f"{PROTOCOL_VERSION}", version
    yield (
        training.numeric_format in NUMERIC_FORMATS,
        "numeric_format",
        f"one of {NUMERIC_FORMATS}",
        training.numeric_format,
    )


def _model_rules(spec: TaskSpec) -> Iterator[Rule]:
    model = spec.training.model
    rules = list(list_model_rules(model))
    yield from rules
    if all(holds for holds, *_ in rules):
        # A wrong count would make every leaf count, and so every proof, wrong.
        count = count_parameters(model)
        yield spec.terms.parameter_count == count, "parameter_count", str(count), spec.terms.parameter_count


def _optimizer_rules(spec: TaskSpec) -> Iterator[Rule]:
    o = spec.training.optimizer
    # beta = 1 never learns and divides by a bias correction of 0.
    yield 0 <= o.beta1 < 1 and 0 <= o.beta2 < 1, "betas", "beta1 and beta2 in [0, 1)", (o.beta1, o.beta2)
    yield o.epsilon >= LEAST_EPSILON, "epsilon", f"at least {LEAST_EPSILON}", o.epsilon
    yield judge_range("weight_decay", o.weight_decay, 0, 1)
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
    yield judge_range("total_steps", schedule.total_steps, total, total)
    yield judge_range("warmup_steps", schedule.warmup_steps, 0, total)
    yield judge_range("decay_steps", schedule.decay_steps, 0, total)
    yield schedule.decay_shape in DECAY_SHAPES, "decay_shape", f"one of {DECAY_SHAPES}", schedule.decay_shape
    yield judge_range("final_ratio", schedule.final_ratio, 0, 1)
    # Where moments carry over, solvers differ in local step, and neither a schedule leaf nor a learning rate
    # under the scalars' root could hold for all.
    most = 0 if terms.carry_moments else terms.inner_steps
    yield judge_range("inner_warmup_steps", schedule.inner_warmup_steps, 0, most)


def _step_rules(spec: TaskSpec) -> Iterator[Rule]:
    """Rules of rounds, segments and the outer step."""
    t = spec.terms
    yield t.rounds >= 1, "rounds", "at least 1", t.rounds
    yield judge_range("segment_steps", t.segment_steps, 1, MAX_SEGMENT_STEPS)
    whole = t.segment_steps >= 1 and t.inner_steps >= 1 and t.inner_steps % t.segment_steps == 0
    yield whole, "inner_steps", "a positive multiple of segment_steps", t.inner_steps
    if whole:
        segments = t.segment_count
        yield judge_range("task_segments", t.rounds * segments, 1, MAX_TASK_SEGMENTS)
    yield judge_range("carry_moments", t.carry_moments, 0, 1)
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
    yield judge_range("sequence_tokens", length, 1, min(context, MAX_SEQUENCE_TOKENS))
    largest = count_activations(training.model, training.sequences_per_step, length)
    yield (
        largest <= MAX_ACTIVATION_ELEMENTS,
        "step_too_large",
        f"at most {MAX_ACTIVATION_ELEMENTS} elements in each tensor",
        largest,
    )
    yield training.token_count > length, "token_count", f"more than one row ({length})", training.token_count
    # All parties watch the held-out loss; without it a poisoned task looks like any other.
    yield (
        training.heldout_tokens > length,
        "heldout_tokens",
        f"more than one row ({length})",
        training.heldout_tokens,
    )
    # Before the first leaf is fetched a node holds the roots of all chunks; and a length that does not fit
    # into StepFacts could be shown in no dispute.
    size = (training.token_count + training.heldout_tokens) * training.token_bytes
    yield size <= MAX_DATASET_BYTES, "dataset_too_large", f"at most {MAX_DATASET_BYTES} bytes", size
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
