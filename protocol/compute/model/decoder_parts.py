"""Pieces that families of models share: norms, attention, positions, hidden layers, whole rotary decoders.

Written in the operations that programs have (`program/lowering.py`). Letters of dimensions: `family.py`.

What Llama and Qwen3 share: RMSNorm, rotary positions, gated hidden layers, matrices without biases. The
family is that of Touvron et al., arXiv 2302.13971. There are no biases: one whose true gradient is zero would
turn rounding noise into full Adam steps.
"""

from abc import abstractmethod
from math import pi, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.model.family import ConfigFields, Family, NamedShape, ParameterPart, Parameters
from protocol.compute.model.position_tables import Tables, build_mask, build_rotary
from protocol.spec.containers import ModelConfig, RopeScaling
from protocol.spec.float32 import nearest


def normalise_root(x_BTX: Tensor, gain_X: Tensor, epsilon: float) -> Tensor:
    """RMSNorm over the last dimension (Zhang and Sennrich, arXiv 1910.07467); the shape stays."""
    mean_square = (x_BTX * x_BTX).mean(dim=-1, keepdim=True)
    return x_BTX * torch.rsqrt(mean_square + epsilon) * gain_X


def normalise_layer(x_BTD: Tensor, gain_D: Tensor, bias_D: Tensor, epsilon: float) -> Tensor:
    """LayerNorm over the last dimension (Ba, Kiros and Hinton, arXiv 1607.06450); the shape stays."""
    centred_BTD = x_BTD - x_BTD.mean(dim=-1, keepdim=True)
    variance_BT1 = (centred_BTD * centred_BTD).mean(dim=-1, keepdim=True)
    return centred_BTD * torch.rsqrt(variance_BT1 + epsilon) * gain_D + bias_D


def split_heads(x_BTX: Tensor, head_count: int) -> Tensor:
    """[B, T, heads * N] to [B, heads, T, N]."""
    return x_BTX.view(*x_BTX.shape[:2], head_count, -1).transpose(1, 2)


def attend(q_BHTN: Tensor, k_BKSN: Tensor, v_BKSN: Tensor, tables: Tables) -> Tensor:
    """Causal attention: [B, T, H * N]. Each key-value head serves H / K heads (arXiv 2305.13245)."""
    heads, size = q_BHTN.shape[1], q_BHTN.shape[-1]
    k_BHSN, v_BHSN = _repeat_heads(k_BKSN, heads), _repeat_heads(v_BKSN, heads)
    scores_BHTS = q_BHTN @ k_BHSN.transpose(-1, -2) * nearest(1 / sqrt(size))
    tokens = scores_BHTS.shape[-1]
    probabilities_BHTS = (scores_BHTS + tables.mask_TS[:tokens, :tokens]).softmax(dim=-1)
    return (probabilities_BHTS @ v_BHSN).transpose(1, 2).reshape(q_BHTN.shape[0], tokens, -1)


def _repeat_heads(x_BKSN: Tensor, head_count: int) -> Tensor:
    batch, kv_heads, tokens, size = x_BKSN.shape
    spread = x_BKSN.unsqueeze(2).expand(batch, kv_heads, head_count // kv_heads, tokens, size)
    return spread.reshape(batch, head_count, tokens, size)


def rotate(x_BHTN: Tensor, tables: Tables) -> Tensor:
    """Turns each pair (i, i + N/2) by position times frequency i, as Hugging Face's `rotate_half` does."""
    tokens, half = x_BHTN.shape[-2], x_BHTN.shape[-1] // 2
    cos_TN, sin_TN = tables.cos_TN[:tokens], tables.sin_TN[:tokens]
    a, b = x_BHTN[..., :half], x_BHTN[..., half:]
    return torch.cat((a * cos_TN - b * sin_TN, b * cos_TN + a * sin_TN), dim=-1)


def feed_gated(x_BTD: Tensor, gate_FD: Tensor, up_FD: Tensor, down_DF: Tensor) -> Tensor:
    """SwiGLU (Shazeer, arXiv 2002.05202): [B, T, D]."""
    gate_BTF = F.silu(F.linear(x_BTD, gate_FD))
    return F.linear(gate_BTF * F.linear(x_BTD, up_FD), down_DF)


GELU_LINEAR = nearest(2 * sqrt(2 / pi))
GELU_CUBIC = nearest(2 * sqrt(2 / pi) * 0.044715)


def apply_gelu(x: Tensor) -> Tensor:
    """GELU's approximation by tanh (Hendrycks and Gimpel, arXiv 1606.08415), Hugging Face's `gelu_new`.

    x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3) is x sigmoid(2u) in exact arithmetic, and
    programs have a sigmoid."""
    return x * torch.sigmoid(x * (x * x * GELU_CUBIC + GELU_LINEAR))


# --- Llama's and Qwen3's decoder ----------------------------------------------------------------------------
INITIAL_DEVIATION = 0.02
"""Standard deviation of fresh matrices, as in GPT-2; those that write to the residual stream are 1/sqrt(2 L)
of it."""
INITIAL_EMBEDDING_DEVIATION = 1.0
"""The first norm divides by an embedding's magnitude, which multiplies gradients and float noise: by fifty at
0.02 (Takase et al., "Spike No More", arXiv 2312.16903; docs/decisions/0006-limits.md). A tied embedding is
the output matrix as well, whose logits must start small: it has 0.02."""
EMBEDDING = "model.embed_tokens.weight"
OUTPUT = "lm_head.weight"


class RotaryDecoder(Family):
    """A family says which norms its heads have, and its own fields of `config.json`."""

    model_type: str
    """In `config.json`."""

    @abstractmethod
    def list_head_norms(self, config: ModelConfig) -> list[NamedShape]:
        """Gains of the norms of queries and keys, by name within a layer; empty where there are none."""

    @abstractmethod
    def shape_heads(self, q_BHTN: Tensor, weights: Parameters, name: str, config: ModelConfig) -> Tensor:
        """Queries or keys of all heads before they are turned; `name` is "q" or "k"."""

    def list_shapes(self, config: ModelConfig) -> list[NamedShape]:
        """As `LlamaForCausalLM`, with the norms of the family's heads."""
        d, f, v = config.hidden_size, config.intermediate_size, config.vocabulary_size
        q, kv = config.head_count * config.head_elements, config.kv_head_count * config.head_elements
        layer: list[NamedShape] = [
            ("self_attn.q_proj", (q, d)), ("self_attn.k_proj", (kv, d)), ("self_attn.v_proj", (kv, d)),
            ("self_attn.o_proj", (d, q)), *self.list_head_norms(config),
            ("mlp.gate_proj", (f, d)), ("mlp.up_proj", (f, d)), ("mlp.down_proj", (d, f)),
            ("input_layernorm", (d,)), ("post_attention_layernorm", (d,)),
        ]  # fmt: skip
        layers = [
            (f"model.layers.{i}.{n}.weight", shape) for i in range(config.layer_count) for n, shape in layer
        ]
        output: list[NamedShape] = [] if config.tied else [(OUTPUT, (v, d))]
        return [(EMBEDDING, (v, d)), *layers, ("model.norm.weight", (d,)), *output]

    def get_initial(self, name: str, config: ModelConfig) -> float:
        """Gains of norms are one; see the constants above for the others."""
        if "norm" in name:
            return 0.0
        if name == EMBEDDING and not config.tied:
            return INITIAL_EMBEDDING_DEVIATION
        writes_to_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
        return INITIAL_DEVIATION / sqrt(2 * config.layer_count) if writes_to_residual else INITIAL_DEVIATION

    def list_parts(self, config: ModelConfig, tokens: int) -> list[ParameterPart]:
        """None: each parameter has one purpose, and a gradient."""
        return []

    def build_tables(self, config: ModelConfig, tokens: int) -> Tables:
        """Rotary tables of the model's theta and scaling."""
        rotary = build_rotary(config.rope_theta, config.rope_scaling, config.head_elements, tokens)
        return Tables(*rotary, build_mask(tokens))

    def compute_logits(
        self, params: Parameters, tokens_BT: Tensor, tables: Tables, config: ModelConfig
    ) -> Tensor:
        """Embedding; in each layer attention and hidden layer, each behind a norm and added; norm, output."""
        x_BTD = F.embedding(tokens_BT, params[EMBEDDING])
        for layer in range(config.layer_count):
            prefix = f"model.layers.{layer}."
            weights = {name.removeprefix(prefix): p for name, p in params.items() if name.startswith(prefix)}
            normed_BTD = normalise_root(x_BTD, weights["input_layernorm.weight"], config.norm_epsilon)
            x_BTD = x_BTD + self._attend(normed_BTD, weights, tables, config)
            gain_D = weights["post_attention_layernorm.weight"]
            normed_BTD = normalise_root(x_BTD, gain_D, config.norm_epsilon)
            names = ("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight")
            x_BTD = x_BTD + feed_gated(normed_BTD, *(weights[name] for name in names))
        normed_BTD = normalise_root(x_BTD, params["model.norm.weight"], config.norm_epsilon)
        return F.linear(normed_BTD, params[EMBEDDING if config.tied else OUTPUT])

    def _attend(self, x_BTD: Tensor, weights: Parameters, tables: Tables, config: ModelConfig) -> Tensor:
        q_BHTN = split_heads(F.linear(x_BTD, weights["self_attn.q_proj.weight"]), config.head_count)
        q_BHTN = rotate(self.shape_heads(q_BHTN, weights, "q", config), tables)
        k_BKSN = split_heads(F.linear(x_BTD, weights["self_attn.k_proj.weight"]), config.kv_head_count)
        k_BKSN = rotate(self.shape_heads(k_BKSN, weights, "k", config), tables)
        v_BKSN = split_heads(F.linear(x_BTD, weights["self_attn.v_proj.weight"]), config.kv_head_count)
        return F.linear(attend(q_BHTN, k_BKSN, v_BKSN, tables), weights["self_attn.o_proj.weight"])

    def write_config(self, config: ModelConfig) -> dict[str, object]:
        """Rotary numbers stand in both places: transformers reads `rope_parameters` from version 5 on."""
        scaling = _write_scaling(config.rope_scaling)
        return {
            "model_type": self.model_type,
            "vocab_size": config.vocabulary_size,
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "num_hidden_layers": config.layer_count,
            "num_attention_heads": config.head_count,
            "num_key_value_heads": config.kv_head_count,
            "head_dim": config.head_elements,
            "max_position_embeddings": config.context_tokens,
            "rope_theta": config.rope_theta,
            "rope_parameters": {**scaling, "rope_theta": config.rope_theta},
            "rms_norm_eps": config.norm_epsilon,
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": bool(config.tied),
        }

    def read_sizes(self, fields: ConfigFields, default_head: int) -> ModelConfig:
        """The fields that both families have. default_head: elements of a head where `head_dim` is missing;
        0: hidden size / heads."""
        fields.require("hidden_act", ("silu",), "silu")
        fields.require("attention_bias", (False,), False)
        fields.require("rope_interleaved", (False,), False)
        fields.require_no_dropout("attention_dropout", 0.0)
        hidden, heads = fields.take_integer("hidden_size"), fields.take_integer("num_attention_heads")
        head = fields.take_integer("head_dim", default_head)
        context = fields.take_integer("max_position_embeddings")
        theta, scaling = fields.take_rope(context)
        return ModelConfig(
            vocabulary_size=fields.take_integer("vocab_size"),
            hidden_size=hidden,
            intermediate_size=fields.take_integer("intermediate_size"),
            layer_count=fields.take_integer("num_hidden_layers"),
            head_count=heads,
            kv_head_count=fields.take_integer("num_key_value_heads", heads),
            context_tokens=context,
            rope_theta=theta,
            norm_epsilon=fields.take_number("rms_norm_eps", 1e-6),
            architecture=self.model_type,
            head_size=0 if head * heads == hidden else head,
            tied=int(fields.take_flag("tie_word_embeddings", False)),
            rope_scaling=scaling,
        )


def _write_scaling(scaling: RopeScaling) -> dict[str, object]:
    if scaling.kind == "default":
        return {"rope_type": "default"}
    if scaling.kind == "linear":
        return {"rope_type": "linear", "factor": scaling.factor}
    return {
        "rope_type": scaling.kind,
        "factor": scaling.factor,
        "low_freq_factor": scaling.low_frequency,
        "high_freq_factor": scaling.high_frequency,
        "original_max_position_embeddings": scaling.original_tokens,
    }
