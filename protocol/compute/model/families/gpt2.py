"""GPT-2 (Radford et al., 2019), as Hugging Face's `GPT2LMHeadModel`: LayerNorm, learned positions, biases.

Matrices lie as its `Conv1D` has them, [in, out]. Queries, keys and values come from one matrix, `c_attn`. No
gradient reaches the keys' part of its bias: it adds the same to all scores of a query, which a softmax does
not see. Nor does one reach positions beyond the sequences of the task. Both are idle: the forward pass cuts
them off, so that their gradient is the constant 0 of the program and not rounding noise.
"""

from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.model.decoder_parts import apply_gelu, attend, normalise_layer, split_heads
from protocol.compute.model.family import ConfigFields, Family, NamedShape, ParameterPart, Parameters
from protocol.compute.model.position_tables import Tables, build_mask
from protocol.spec.containers import ModelConfig

INITIAL_DEVIATION = 0.02
"""Standard deviation of fresh matrices and tables; those that write to the residual stream are 1/sqrt(2 L) of
it."""
EMBEDDING, POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"
OUTPUT = "lm_head.weight"
PURPOSES = 3
"""Parts of c_attn, side by side: queries, keys, values."""
KEYS = 1
"""Which of them."""


class Gpt2(Family):
    """All heads have keys and values of their own; the output matrix is tied or not."""

    class_name = "GPT2LMHeadModel"

    def list_shapes(self, config: ModelConfig) -> list[NamedShape]:
        """As `GPT2LMHeadModel`: each matrix [in, out], then its bias."""
        d, f, v = config.hidden_size, config.intermediate_size, config.vocabulary_size
        matrices = {
            "attn.c_attn": (d, PURPOSES * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, f), "mlp.c_proj": (f, d)
        }  # fmt: skip
        layer: list[NamedShape] = []
        for name in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
            shape = matrices.get(name, (d,))
            layer += [(f"{name}.weight", shape), (f"{name}.bias", shape[-1:])]
        layers = [
            (f"transformer.h.{i}.{name}", shape) for i in range(config.layer_count) for name, shape in layer
        ]
        last: list[NamedShape] = [("transformer.ln_f.weight", (d,)), ("transformer.ln_f.bias", (d,))]
        output: list[NamedShape] = [] if config.tied else [(OUTPUT, (v, d))]
        return [(EMBEDDING, (v, d)), (POSITIONS, (config.context_tokens, d)), *layers, *last, *output]

    def get_initial(self, name: str, config: ModelConfig) -> float:
        """Biases are zero, gains of norms one."""
        if name.endswith(".bias") or ".ln_" in name:
            return 0.0
        writes_to_residual = name.endswith("c_proj.weight")
        return INITIAL_DEVIATION / sqrt(2 * config.layer_count) if writes_to_residual else INITIAL_DEVIATION

    def list_parts(self, config: ModelConfig, tokens: int) -> list[ParameterPart]:
        """The three purposes of each c_attn, and the positions that sequences reach."""
        d, parts = config.hidden_size, []
        for layer in range(config.layer_count):
            name = f"transformer.h.{layer}.attn.c_attn"
            for purpose in range(PURPOSES):
                start, stop = purpose * d, (purpose + 1) * d
                parts.append(ParameterPart(f"{name}.weight", 1, start, stop))
                parts.append(ParameterPart(f"{name}.bias", 0, start, stop, is_idle=purpose == KEYS))
        parts.append(ParameterPart(POSITIONS, 0, 0, tokens))
        if tokens < config.context_tokens:
            parts.append(ParameterPart(POSITIONS, 0, tokens, config.context_tokens, is_idle=True))
        return parts

    def build_tables(self, config: ModelConfig, tokens: int) -> Tables:
        """The mask; no pair of a head is turned."""
        mask_TS = build_mask(tokens)
        return Tables(mask_TS[:, :0], mask_TS[:, :0], mask_TS)

    def compute_logits(
        self, params: Parameters, tokens_BT: Tensor, tables: Tables, config: ModelConfig
    ) -> Tensor:
        """Embedding and position; in each layer attention and hidden layer, each behind a norm and added."""
        reached, beyond = tokens_BT.shape[-1], config.context_tokens - tokens_BT.shape[-1]
        positions_TD = torch.split(params[POSITIONS], [reached, beyond])[0] if beyond else params[POSITIONS]
        x_BTD = F.embedding(tokens_BT, params[EMBEDDING]) + positions_TD
        for layer in range(config.layer_count):
            prefix = f"transformer.h.{layer}."
            weights = {name.removeprefix(prefix): p for name, p in params.items() if name.startswith(prefix)}
            x_BTD = x_BTD + _attend(_normalise(x_BTD, weights, "ln_1", config), weights, tables, config)
            normed_BTD = _normalise(x_BTD, weights, "ln_2", config)
            hidden_BTF = apply_gelu(_multiply(normed_BTD, weights, "mlp.c_fc"))
            x_BTD = x_BTD + _multiply(hidden_BTF, weights, "mlp.c_proj")
        normed_BTD = _normalise(x_BTD, params, "transformer.ln_f", config)
        return F.linear(normed_BTD, params[EMBEDDING if config.tied else OUTPUT])

    def write_config(self, config: ModelConfig) -> dict[str, object]:
        """Without dropout."""
        return {
            "model_type": "gpt2",
            "vocab_size": config.vocabulary_size,
            "n_embd": config.hidden_size,
            "n_inner": config.intermediate_size,
            "n_layer": config.layer_count,
            "n_head": config.head_count,
            "n_positions": config.context_tokens,
            "layer_norm_epsilon": config.norm_epsilon,
            "activation_function": "gelu_new",
            "attn_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "resid_pdrop": 0.0,
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "reorder_and_upcast_attn": False,
            "add_cross_attention": False,
            "tie_word_embeddings": bool(config.tied),
        }

    def read_config(self, fields: ConfigFields) -> ModelConfig:
        """Published files have dropouts of 0.1, which are refused: set them to 0."""
        for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop"):
            fields.require_no_dropout(name, 0.1)
        fields.require("activation_function", ("gelu_new",), "gelu_new")
        fields.require("scale_attn_weights", (True,), True)
        for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
            fields.require(name, (False,), False)
        hidden, heads = fields.take_integer("n_embd"), fields.take_integer("n_head")
        context = fields.take_integer("n_positions")
        fields.require("n_ctx", (context,), context)
        return ModelConfig(
            vocabulary_size=fields.take_integer("vocab_size"),
            hidden_size=hidden,
            intermediate_size=fields.take_integer("n_inner", 4 * hidden),
            layer_count=fields.take_integer("n_layer"),
            head_count=heads,
            kv_head_count=heads,
            context_tokens=context,
            norm_epsilon=fields.take_number("layer_norm_epsilon", 1e-5),
            architecture="gpt2",
            tied=int(fields.take_flag("tie_word_embeddings", True)),
        )


def _normalise(x_BTD: Tensor, weights: Parameters, name: str, config: ModelConfig) -> Tensor:
    return normalise_layer(x_BTD, weights[f"{name}.weight"], weights[f"{name}.bias"], config.norm_epsilon)


def _multiply(x_BTX: Tensor, weights: Parameters, name: str) -> Tensor:
    """x W + b, W [in, out]."""
    return x_BTX @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _attend(x_BTD: Tensor, weights: Parameters, tables: Tables, config: ModelConfig) -> Tensor:
    """The keys' bias is detached: it counts in the scores, and its gradient is a constant 0."""
    width = config.hidden_size
    products = torch.split(x_BTD @ weights["attn.c_attn.weight"], width, dim=-1)
    q_D, k_D, v_D = torch.split(weights["attn.c_attn.bias"], width)
    biases = (q_D, k_D.detach(), v_D)
    q_BHTN, k_BHSN, v_BHSN = (
        split_heads(product_BTD + bias_D, config.head_count)
        for product_BTD, bias_D in zip(products, biases, strict=True)
    )
    return _multiply(attend(q_BHTN, k_BHSN, v_BHSN, tables), weights, "attn.c_proj")
