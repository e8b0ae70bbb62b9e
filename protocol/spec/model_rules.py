"""Which shapes of models exist, family by family, and how many parameters each has.

The layout of the parameters themselves is in `protocol/compute/model/families`; a test holds the two counts
together over all families. Every rule is judged from numbers alone: nothing is built for a hostile task.
"""

from collections.abc import Iterator

from protocol.spec.containers import ModelConfig, RopeScaling
from protocol.spec.float32 import nearest
from protocol.spec.params import (
    ARCHITECTURES,
    MAX_HEAD_ELEMENTS,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_PARAMETERS,
    ROPE_SCALINGS,
)

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
LEAST_EPSILON = nearest(2.0**-80)
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
        model.rope_theta >= 1 and model.norm_epsilon >= LEAST_EPSILON,
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
