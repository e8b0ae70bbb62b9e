"""A decoder in plain PyTorch, to be copied: the model of tasks that only name sizes.

Norms by root mean square, positions by rotation (Su et al., arXiv 2104.09864), gated hidden layers (Shazeer,
arXiv 2002.05202). Parameters have the names that transformers gives those of Llama, so that an export loads
there too. Any other module is recorded in the same way.
"""

import json
import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DEVIATION = 0.02
"""The standard deviation of new matrices, as in GPT-2. Matrices that write to the residual stream have
1/sqrt(2 layers) of it."""
RESIDUAL = re.compile("o_proj|down_proj")
EMBEDDING_DEVIATION = 1.0
"""The deviation of a new embedding. The first norm divides by an embedding's magnitude, which multiplies
gradients and float noise: by fifty at 0.02 (Takase et al., "Spike No More", arXiv 2312.16903;
docs/decisions/0006-limits.md). A tied embedding is the output matrix as well, whose logits must start small,
so it has 0.02."""


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes in elements. `intermediate_size` is that of the hidden layer between two attentions.
    `kv_head_count` is a divisor of `head_count`. `tied` says that the output matrix is the embedding."""

    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    layer_count: int
    head_count: int
    kv_head_count: int
    context_tokens: int
    tied: bool = False
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-5


class Attention(nn.Module):
    """Causal attention; some heads of queries share one of keys and values."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        hidden, self.width = config.hidden_size, config.hidden_size // config.head_count
        kept = config.kv_head_count * self.width
        self.shares = config.head_count // config.kv_head_count
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, kept, bias=False)
        self.v_proj = nn.Linear(hidden, kept, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Returns the shape of x, [sequences, tokens, hidden]. `cos` and `sin` are [tokens, width]."""
        projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (one.unflatten(2, (-1, self.width)).transpose(1, 2) for one in projected)
        q, k = q * cos + turn(q) * sin, k * cos + turn(k) * sin
        k, v = k.repeat_interleave(self.shares, 1), v.repeat_interleave(self.shares, 1)
        mixed: Tensor = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out


def turn(x: Tensor) -> Tensor:
    """Returns the second half of each row, negated, before the first."""
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Gate(nn.Module):
    """The gated hidden layer."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        hidden, wide = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = (nn.Linear(hidden, wide, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(wide, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the shape of x."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """An attention and a hidden layer, each added to its input."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config), Gate(config)
        self.input_layernorm, self.post_attention_layernorm = (
            nn.RMSNorm(config.hidden_size, config.norm_epsilon) for _ in range(2)
        )

    def forward(self, x: Tensor, *places: Tensor) -> Tensor:
        """Returns the shape of x."""
        x = x + self.self_attn(self.input_layernorm(x), *places)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Body(nn.Module):
    """The decoder without its output matrix."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layer_count))
        self.norm = nn.RMSNorm(config.hidden_size, config.norm_epsilon)
        width = config.hidden_size // config.head_count
        self.speeds = config.rope_theta ** -(torch.arange(0, width, 2) / width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns float32 [sequences, tokens, hidden]."""
        count = tokens.shape[1]
        angles = (torch.arange(count)[:, None] * self.speeds).repeat(1, 2)
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        out: Tensor = self.norm(x)
        return out


class Decoder(nn.Module):
    """A decoder that returns next-token logits. `seed` makes the first weights."""

    def __init__(self, config: DecoderConfig, seed: int = 0) -> None:
        super().__init__()
        self.model = Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocabulary_size, bias=False)
        draw = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=_choose_deviation(name, config), generator=draw)
        if config.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Maps int64 [sequences, tokens] to float32 [sequences, tokens, vocabulary]."""
        logits: Tensor = self.lm_head(self.model(tokens))
        return logits


def _choose_deviation(name: str, config: DecoderConfig) -> float:
    if "embed_tokens" in name and not config.tied:
        return EMBEDDING_DEVIATION
    return DEVIATION * (2 * config.layer_count) ** -0.5 if RESIDUAL.search(name) else DEVIATION


def describe_decoder(config: DecoderConfig) -> str:
    """Returns the `config.json` with which transformers loads an export."""
    return json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "vocab_size": config.vocabulary_size, "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size, "num_hidden_layers": config.layer_count,
        "num_attention_heads": config.head_count, "num_key_value_heads": config.kv_head_count,
        "max_position_embeddings": config.context_tokens, "tie_word_embeddings": config.tied,
        "rope_theta": config.rope_theta, "rms_norm_eps": config.norm_epsilon, "torch_dtype": "float32",
        "attention_bias": False, "mlp_bias": False, "bos_token_id": None, "eos_token_id": None,
    }, sort_keys=True)  # fmt: skip
