"""The reference model: logits and loss as one pure function of one flat vector of parameters.

What runs is the program made from it. The families are in `families/`, found here by name; the shapes,
names and order of a family's parameters are those of its class in Hugging Face's transformers.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.model.families.gpt2 import Gpt2
from protocol.compute.model.families.llama import Llama
from protocol.compute.model.families.qwen3 import Qwen3
from protocol.compute.model.family import Family
from protocol.compute.model.flat_layout import Parameters, ParameterSlice, draw_uniform, lay_out
from protocol.compute.model.position_tables import Tables
from protocol.compute.program.tensor_allocator import allocate, relax
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.model_rules import list_model_rules

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
