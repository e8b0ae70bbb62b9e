"""The reference model: logits and loss of a flat vector of parameters.

What runs is the program made from it. The families are in `families/`, found here by name; the shapes, names
and order of a family's parameters are those of its class in Hugging Face's transformers.

Using a trained model: its loss on held-out rows, and tokens that it goes on with. Plain PyTorch on the
reference model, without the task's program: nothing of it is ever judged.

In Hugging Face's terms: a shape from `config.json`, and a trained model's tensors and texts. The weights
beside a `config.json` are read in `node/model_folder.py`. The caller writes the files of a trained model.
`transformers.AutoModelForCausalLM.from_pretrained` loads the folder: `model.safetensors` from
`export_tensors`, every other file from `export_texts`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.model.families.gpt2 import Gpt2
from protocol.compute.model.families.llama import Llama
from protocol.compute.model.families.qwen3 import Qwen3
from protocol.compute.model.family import (
    ConfigFields,
    Family,
    Parameters,
    ParameterSlice,
    draw_uniform,
    lay_out,
)
from protocol.compute.model.position_tables import Tables
from protocol.compute.program.tensor_allocator import allocate, relax
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.task_rules import list_model_rules

FAMILIES: dict[str, Family] = {"llama": Llama(), "qwen3": Qwen3(), "gpt2": Gpt2()}
"""By `ModelConfig.architecture`."""


def get_family(config: ModelConfig) -> Family:
    """The family of a model. Raises InvalidInput on a shape that its family does not have."""
    broken = [rule for rule in list_model_rules(config) if not rule[0]]
    if broken:
        raise InvalidInput(
            what="not a shape of this model family",
            expected="; ".join(f"{name}: {expected}" for _, name, expected, _ in broken),
            actual="; ".join(f"{name}: {actual}" for _, name, _, actual in broken),
            where=", ".join(name for _, name, *_ in broken),
            remedy="Change the model's configuration.",
        )
    return FAMILIES[config.architecture]


@lru_cache(maxsize=8)
def build_tables(config: ModelConfig, tokens: int = 0) -> Tables:
    """The tables for sequences of so many tokens, 0: of the whole context. 0.1 s for 4,096 entries, then
    cached. Do not write to them."""
    return get_family(config).build_tables(config, tokens or config.context_tokens)


@lru_cache(maxsize=32)
def parameter_layout(config: ModelConfig) -> tuple[ParameterSlice, ...]:
    """All parameters in canonical order; offsets and shapes in elements. Raises InvalidInput on an impossible
    shape."""
    return lay_out(get_family(config).list_shapes(config))


def parameter_count(config: ModelConfig) -> int:
    """Elements of the flat vector."""
    last = parameter_layout(config)[-1]
    return last.offset + last.size


def split_parameters(flat: Tensor, config: ModelConfig) -> dict[str, Tensor]:
    """Views of the flat float32 vector by name: no copy. Raises InvalidInput where the length is another."""
    if flat.dim() != 1 or flat.numel() != parameter_count(config):
        raise InvalidInput(
            what="the flat vector does not fit the model",
            expected=f"shape [{parameter_count(config)}]",
            actual=list(flat.shape),
            remedy="Check that state and task belong together.",
        )
    return {p.name: flat[p.offset : p.offset + p.size].view(p.shape) for p in parameter_layout(config)}


def init_parameters(config: ModelConfig, seed: int) -> Tensor:
    """Fresh flat float32 weights, the same bits on any machine: gains one, biases zero, matrices uniform."""
    flat = allocate(parameter_count(config))
    for p in parameter_layout(config):
        flat[p.offset : p.offset + p.size] = _init_parameter(p, config, seed).reshape(-1)
        relax()
    return flat


def _init_parameter(parameter: ParameterSlice, config: ModelConfig, seed: int) -> Tensor:
    deviation = get_family(config).get_initial(parameter.name, config)
    if deviation:
        return draw_uniform(parameter, seed, deviation)
    return torch.full(parameter.shape, 0.0 if parameter.name.endswith(".bias") else 1.0)


def compute_logits(params: Parameters, tokens_BT: Tensor, tables: Tables, config: ModelConfig) -> Tensor:
    """Next-token logits, float32 [B, T, V], for int64 tokens; T is at most the tables' tokens. Causal."""
    return get_family(config).compute_logits(params, tokens_BT, tables, config)


def compute_loss(
    params: Parameters, tokens_BT: Tensor, labels_BT: Tensor, tables: Tables, config: ModelConfig
) -> Tensor:
    """Mean cross entropy in nats over all B x T positions: float32 scalar."""
    logits_BTV = compute_logits(params, tokens_BT, tables, config)
    return F.cross_entropy(logits_BTV.view(-1, config.vocabulary_size), labels_BT.reshape(-1))


# --- Using a trained model ----------------------------------------------------------------------------------
ROWS_AT_ONCE = 8


@dataclass(frozen=True)
class Measure:
    """loss: mean cross entropy in nats a token; tokens: predicted ones."""

    loss: float
    tokens: int


def measure_rows(weights: Tensor, model: ModelConfig, rows: Iterable[Tensor]) -> Measure:
    """The loss over rows of int64 tokens [n], each of 2 to context_tokens + 1: each token but the first of a
    row is predicted from those before it. Raises InvalidInput where there is none, or a token is outside the
    vocabulary."""
    total, count = 0.0, 0
    params, tables = split_parameters(weights, model), build_tables(model)
    with torch.no_grad():
        for batch in _stack(rows):
            if not 0 <= int(batch.min()) <= int(batch.max()) < model.vocabulary_size:
                raise _outside(int(batch.max()), model)
            logits = compute_logits(params, batch[:, :-1], tables, model)
            losses = torch.nn.functional.cross_entropy(
                logits.reshape(-1, model.vocabulary_size), batch[:, 1:].reshape(-1), reduction="sum"
            )
            total, count = total + float(losses), count + batch[:, 1:].numel()
    if not count:
        raise InvalidInput(
            what="there is nothing to measure on",
            expected="a row of two tokens or more",
            actual="none",
            remedy="Give a longer text.",
        )
    return Measure(total / count, count)


def _stack(rows: Iterable[Tensor]) -> Iterator[Tensor]:
    """Rows that follow each other and have one length, some at a time."""
    batch: list[Tensor] = []
    for row in rows:
        if batch and (len(batch) == ROWS_AT_ONCE or row.numel() != batch[0].numel()):
            yield torch.stack(batch)
            batch = []
        if row.numel() > 1:
            batch.append(row)
    if batch:
        yield torch.stack(batch)


@dataclass(frozen=True)
class Taste:
    """How tokens are chosen. temperature: 0 takes the likeliest; top_k: of so many of the likeliest, 0 of
    all; seed: the same one, the same tokens."""

    temperature: float = 1.0
    top_k: int = 0
    seed: int = 0


def generate(weights: Tensor, model: ModelConfig, prompt: Sequence[int], taste: Taste) -> Iterator[int]:
    """Tokens that follow the prompt (one token or more), for ever; each sees the last context_tokens. Raises
    InvalidInput for a prompt that is empty or outside the vocabulary, and for a taste that is none."""
    _require_taste(taste)
    tokens = list(prompt)
    if not tokens or not 0 <= min(tokens) <= max(tokens) < model.vocabulary_size:
        raise _outside(max(tokens, default=-1), model)
    params, tables = split_parameters(weights, model), build_tables(model)
    chance = torch.Generator().manual_seed(taste.seed)
    while True:
        with torch.no_grad():
            seen = torch.tensor([tokens[-model.context_tokens :]])
            logits_V = compute_logits(params, seen, tables, model)[0, -1]
        tokens.append(_choose(logits_V, taste, chance))
        yield tokens[-1]


def _choose(logits_V: Tensor, taste: Taste, chance: torch.Generator) -> int:
    if taste.temperature == 0:
        return int(logits_V.argmax())
    if 0 < taste.top_k < logits_V.numel():
        least = logits_V.topk(taste.top_k).values[-1]
        logits_V = logits_V.masked_fill(logits_V < least, float("-inf"))
    chances_V = (logits_V.double() / taste.temperature).softmax(dim=0)
    return int(torch.multinomial(chances_V, 1, generator=chance))


def _require_taste(taste: Taste) -> None:
    if not (0 <= taste.temperature < float("inf")) or taste.top_k < 0 or not 0 <= taste.seed < 1 << 63:
        raise InvalidInput(
            what="tokens cannot be chosen so",
            expected="a temperature of 0 or more, top-k of 0 or more, a seed of 0 or more",
            actual=f"{taste.temperature}, {taste.top_k}, {taste.seed}",
            remedy="Correct the option.",
        )


def _outside(token: int, model: ModelConfig) -> InvalidInput:
    return InvalidInput(
        what="a text that this model cannot read",
        expected=f"one token or more, each below {model.vocabulary_size}",
        actual="none" if token < 0 else token,
        remedy="Give a text, and the tokenizer that the model was trained with.",
    )


# --- In Hugging Face's terms: a model's shape --------------------------------------------------------------
MAX_CONFIG_BYTES = 1 << 18
"""Of a `config.json`; published ones have a few thousand."""
MAX_BRACKETS = 256
"""Tables and lists in it."""
REMEDY = "Pass the config.json of a model of one of these families."


def import_model(text: bytes, where: str) -> ModelConfig:
    """The model of a `config.json`; `where` names the file in errors. Raises InvalidInput where it is no such
    file, or for the first field that asks for what is not offered."""
    fields = ConfigFields(_read_table(text, where), where)
    fields.require("model_type", tuple(FAMILIES), None)
    model = FAMILIES[fields.take_text("model_type")].read_config(fields)
    fields.require_all_taken()
    for holds, name, expected, actual in list_model_rules(model):
        if not holds:
            fields.refuse(name, expected, str(actual))
    return model


def _read_table(text: bytes, where: str) -> dict[str, object]:
    # Python's parser calls itself for each bracket, and may run out of stack.
    is_short = len(text) <= MAX_CONFIG_BYTES and text.count(b"[") + text.count(b"{") <= MAX_BRACKETS
    try:
        content = json.loads(text) if is_short else None
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        return content
    raise InvalidInput(
        what="not a model's config.json",
        expected=f"a table in JSON of at most {MAX_CONFIG_BYTES} bytes and {MAX_BRACKETS} brackets",
        actual=f"{len(text)} bytes that are none",
        where=where,
        remedy=REMEDY,
    )


# --- In Hugging Face's terms: a trained model --------------------------------------------------------------
SAFETENSORS_NAME = "model.safetensors"
SAFETENSORS_METADATA = {"format": "pt"}
"""What transformers wants in the file's header."""


def export_tensors(weights: Tensor, model: ModelConfig) -> dict[str, Tensor]:
    """Copies of all parameters by their name in the class of transformers, float32. A tied output matrix is
    not among them: transformers ties it again."""
    return {name: p.clone() for name, p in split_parameters(weights, model).items()}


def export_texts(model: ModelConfig) -> dict[str, str]:
    """File name to content: `config.json` and `generation_config.json`."""
    family = get_family(model)
    shared = {
        "architectures": [family.class_name],
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return {
        "config.json": _to_json({**family.write_config(model), **shared}),
        "generation_config.json": _to_json({"max_length": model.context_tokens, "do_sample": True}),
    }


def _to_json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
