"""Reads the table [model] of a task file that has the sizes of the plain decoder.

    [model]
    hidden_size = 128               # the sizes of `touchstone/step/plain_decoder.py`, one by one

With sizes the file may also have [optimizer], which is AdamW, and chunk_terms; a recorded step has its own.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from touchstone.protocol.spec.params import MAX_PARAMETERS
from touchstone.protocol.spec.program import CHUNK_TERMS, DEFAULT_CHUNK_TERMS
from touchstone.protocol.spec.task_rules import Rule, judge_range
from touchstone.scripts.data.packed_dataset import PackedDataset
from touchstone.scripts.tasks.toml_tables import MISSING_KEY, build_container, malformed
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import Decoder, DecoderConfig, describe_decoder
from touchstone.step.record_step import RecordedStep, Shape, record_step

BATCH = ("sequences_per_step", "sequence_tokens")
SIZES = (
    "vocabulary_size", "hidden_size", "intermediate_size", "layer_count", "head_count", "kv_head_count",
    "context_tokens",
)  # fmt: skip
MOST_SIZE, MOST_LAYERS = 1 << 24, 1024
LEAST_EPSILON = 2.0**-100
"""The least epsilon of an optimizer. It is multiplied by sqrt(1 - beta2^t), at least 2^-12. If the product
were 0, a weight without a gradient would become 0 / 0 at the first step, and no honest node could claim a
state."""
LEAST_NORM_EPSILON = 2.0**-80
"""The least epsilon of a norm. A row of zeros is divided by its root, whose square must stay a normal
float32."""


def record_sizes(document: dict[str, Any], path: Path, packed: PackedDataset) -> None:
    """Replaces the sizes in a document by the step of a plain decoder. Raises InvalidInput for the first key
    that no decoder has."""
    table = dict(document.pop("model"))
    if packed.note is not None:
        table.setdefault("vocabulary_size", packed.vocabulary_size)
    model = build_container(DecoderConfig, table, path, "model.")
    optimizer = build_container(AdamW, document.pop("optimizer", {}), path, "optimizer.")
    chunk_terms = document.pop("chunk_terms", DEFAULT_CHUNK_TERMS)
    for key in BATCH:
        value = document.get(key, MISSING_KEY)
        if not isinstance(value, int) or isinstance(value, bool):
            raise malformed(path, key, "an integer", value if value is MISSING_KEY else repr(value))
    batch = [document[key] for key in BATCH]
    rules = [
        *(rule_in("model", rule) for rule in list_model_rules(model)),
        *(rule_in("optimizer", rule) for rule in list_optimizer_rules(optimizer)),
        (_is_terms(chunk_terms), "chunk_terms", f"one of {CHUNK_TERMS}", chunk_terms),
        judge_range("sequences_per_step", batch[0], 1, MOST_SIZE),
        judge_range("sequence_tokens", batch[1], 1, max(1, model.context_tokens)),
    ]
    for holds, key, expected, actual in rules:
        if not holds:
            raise malformed(path, key, expected, repr(actual))
    shape = Shape(batch[0], batch[1], document.get("numeric_format", "float32"), chunk_terms)
    document["step"] = record_decoder(model, optimizer, shape)


def _is_terms(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in CHUNK_TERMS


def rule_in(table: str, rule: Rule) -> Rule:
    """Returns a rule with its key, named within a table."""
    holds, key, expected, actual = rule
    return holds, f"{table}.{key}", expected, actual


@lru_cache(maxsize=8)
def record_decoder(model: DecoderConfig, optimizer: AdamW, shape: Shape) -> RecordedStep:
    """Returns the step of a plain decoder. Recording takes seconds; then it is cached."""
    return record_step(Decoder(model), shape, optimizer=optimizer, config=describe_decoder(model))


def list_model_rules(model: DecoderConfig) -> Iterator[Rule]:
    """Yields the rules on the sizes of a decoder. Rules after a broken size are left out."""
    rules = [judge_range(name, getattr(model, name), 1, MOST_SIZE) for name in SIZES]
    rules.append(judge_range("layer_count", model.layer_count, 1, MOST_LAYERS))
    yield from rules
    if not all(holds for holds, *_ in rules):
        return
    yield judge_range("vocabulary_size", model.vocabulary_size, 2, MOST_SIZE)
    heads, hidden = model.head_count, model.hidden_size
    cuts = hidden % (2 * heads) == 0
    yield cuts, "head_count", f"a divisor of hidden_size, {hidden}, so that heads have an even size", heads
    grouped = heads % model.kv_head_count == 0
    yield grouped, "kv_head_count", f"a divisor of head_count, {heads}", model.kv_head_count
    yield model.rope_theta >= 1, "rope_theta", "1 or more", model.rope_theta
    is_large = model.norm_epsilon >= LEAST_NORM_EPSILON
    yield is_large, "norm_epsilon", f"at least {LEAST_NORM_EPSILON}", model.norm_epsilon
    count = count_parameters(model)
    yield count <= MAX_PARAMETERS, "hidden_size", f"at most {MAX_PARAMETERS} parameters in all", count


def count_parameters(model: DecoderConfig) -> int:
    """Returns the number of elements of W, without building the model."""
    hidden, kept = model.hidden_size, model.hidden_size // model.head_count * model.kv_head_count
    layer = 2 * hidden * (hidden + kept) + 3 * hidden * model.intermediate_size + 2 * hidden
    matrices = 1 if model.tied else 2
    return matrices * model.vocabulary_size * hidden + model.layer_count * layer + hidden


def list_optimizer_rules(optimizer: AdamW) -> Iterator[Rule]:
    """Yields the rules on an optimizer."""
    for name, beta in (("beta1", optimizer.beta1), ("beta2", optimizer.beta2)):
        yield 0 <= beta < 1, name, "in [0, 1)", beta
    yield optimizer.epsilon >= LEAST_EPSILON, "epsilon", f"at least {LEAST_EPSILON}", optimizer.epsilon
    yield judge_range("weight_decay", optimizer.weight_decay, 0, 1)
    yield optimizer.clip_norm > 0, "clip_norm", "above 0", optimizer.clip_norm
